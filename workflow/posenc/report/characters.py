"""Text of any script as LaTeX prints it: escaped, broken where a line may end, in its direction."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Iterator

import regex

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}
PLAIN = regex.compile(r"[ -~¡-¬®-ž–—‘’“”•…−]*")
"""What the fonts of both documents have."""
EMOJI = regex.compile(
    r"\p{Emoji_Presentation}|\p{Regional_Indicator}|\p{Emoji}\p{Emoji_Modifier}|\p{Emoji}\uFE0F"
)
WIDE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\u3000-\u303F\uFF00-\uFF60]")
"""Scripts that are written without spaces: a line may end after each character."""
NOT_FIRST = regex.compile(
    r"[\p{Pe}\p{Pf}\p{Po}ー々〜ゝゞヽヾ"
    r"ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ]"
)
NOT_LAST = regex.compile(r"[\p{Ps}\p{Pi}]")
INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\uFEFF]")
"""Joiners and selectors: they change other characters and need no glyph."""
SHAPED = {
    "Arabic": "arab", "Hebrew": "hebr", "Syriac": "syrc", "Thaana": "thaa", "Nko": "nko",
    "Devanagari": "dev2", "Bengali": "bng2", "Gurmukhi": "gur2", "Gujarati": "gjr2",
    "Oriya": "ory2", "Tamil": "tml2", "Telugu": "tel2", "Kannada": "knd2", "Malayalam": "mlm2",
    "Sinhala": "sinh", "Thai": "thai", "Lao": "lao", "Tibetan": "tibt", "Myanmar": "mym2",
    "Khmer": "khmr", "Ethiopic": "ethi", "Mongolian": "mong",
}  # fmt: skip
"""OpenType's tags of scripts, by Unicode's names, whose letters depend on their neighbours."""
BRACKETS = {"(": ")", "[": "]", "{": "}"}
LONGEST_WORD = 60
"""A longer one may be broken anywhere."""


@functools.lru_cache(maxsize=4096)  # thousands of numbers were not run for one of a few reasons
def latex(text: str) -> str:
    """Text as LaTeX prints it, whatever its script.

    What the documents' own fonts may lack is left to commands of ``unicode.tex.jinja``, which look
    for a font that has it.

    Parameters
    ----------
    text
        One line.

    Returns
    -------
    str
        Of plain text, the same text with LaTeX's special characters escaped.
    """
    text = unicodedata.normalize("NFC", text)
    return _directed(regex.findall(r"\X", text), set(_inside_long_words(text)))


def _inside_long_words(text: str) -> Iterator[int]:
    """Indices of the characters, as a reader counts them, before which a line may end."""
    start = 0
    for is_space, word in itertools.groupby(regex.findall(r"\X", text), str.isspace):
        length = len(list(word))
        if not is_space and length > LONGEST_WORD:
            yield from range(start + 1, start + length)
        start += length


def _directed(clusters: list[str], breaks: set[int]) -> str:
    """Runs from right to left and from left to right, each as LaTeX sets it."""
    levels = embedding_levels(clusters)
    runs, index = [], 0
    for level, run in itertools.groupby(levels):
        end = index + len(list(run))
        tex = "".join(
            _cluster(clusters, place, place in breaks or _may_break(clusters, place))
            for place in range(index, end)
        )
        runs.append((level, tex))
        index = end
    inner = []
    # A left-to-right run stands within the right-to-left one that it interrupts.
    for is_outer, group in itertools.groupby(runs, lambda part: part[0] == 0):
        parts = list(group)
        if is_outer:
            inner += [tex for _, tex in parts]
        else:
            words = (rf"\posencltr{{{t}}}" if level == 2 else t for level, t in parts)
            inner.append(rf"\posencrtl{{{''.join(words)}}}")
    return "".join(inner)


def embedding_levels(clusters: list[str]) -> list[int]:
    """Levels of the Unicode bidirectional algorithm (UAX #9) for a line without embeddings.

    Parameters
    ----------
    clusters
        Characters as a reader counts them.

    Returns
    -------
    list of int
        0 and 2 run from left to right, 1 from right to left; all 0 without such a script.
    """
    kinds = [unicodedata.bidirectional(cluster[0]) for cluster in clusters]
    kinds = ["R" if kind == "AL" else "EN" if kind == "AN" else kind for kind in kinds]
    if "R" not in kinds:
        return [0] * len(kinds)
    base = next(kind for kind in kinds if kind in "LR")
    for place in range(1, len(kinds) - 1):  # W4: a separator within a number
        if kinds[place] in ("ES", "CS") and kinds[place - 1] == kinds[place + 1] == "EN":
            kinds[place] = "EN"
    for order in (range(len(kinds)), reversed(range(len(kinds)))):  # W5: signs beside a number
        previous = ""
        for place in order:
            if kinds[place] == "ET" and previous == "EN":
                kinds[place] = "EN"
            previous = kinds[place]
    strong = base
    for place, kind in enumerate(kinds):  # W7: a number within left-to-right text is a part of it
        if kind in ("L", "R"):
            strong = kind
        elif kind == "EN" and strong == "L":
            kinds[place] = "L"
    # A number counts as right to left for what has no direction beside it.
    directions: list[str | None]
    directions = [{"L": "L", "R": "R", "EN": "R"}.get(kind) for kind in kinds]
    for first, last in _brackets(clusters):  # N0: both of a pair have the same direction
        inside = set(directions[first + 1 : last])
        before = next((earlier for earlier in reversed(directions[:first]) if earlier), base)
        if inside & {"L", "R"}:
            directions[first] = directions[last] = base if base in inside else before
    place = 0
    for direction, run in itertools.groupby(list(directions)):  # N1, N2: what has no direction
        end = place + len(list(run))
        if direction is None:
            left = directions[place - 1] if place else base
            right = directions[end] if end < len(directions) else base
            directions[place:end] = [left if left == right else base] * (end - place)
        place = end
    return [
        (2 if kind == "EN" else 1) if direction == "R" else (0 if base == "L" else 2)
        for kind, direction in zip(kinds, directions, strict=True)
    ]


def _brackets(clusters: list[str]) -> list[tuple[int, int]]:
    """Where pairs of brackets open and close, in the order of their opening."""
    opened: list[int] = []
    pairs = []
    for place, cluster in enumerate(clusters):
        if cluster in BRACKETS:
            opened.append(place)
        elif cluster in BRACKETS.values():
            while opened:
                first = opened.pop()
                if BRACKETS[clusters[first]] == cluster:
                    pairs.append((first, place))
                    break
    return sorted(pairs)


def _may_break(clusters: list[str], place: int) -> bool:
    """Whether a line may end before a character without a space."""
    if place == 0:
        return False
    before, after = clusters[place - 1], clusters[place]
    if NOT_LAST.match(before) or NOT_FIRST.match(after) or " " in (before, after):
        return False
    return any(WIDE.match(cluster) or EMOJI.match(cluster) for cluster in (before, after))


def _cluster(clusters: list[str], place: int, breaks: bool) -> str:
    """One character as a reader counts them."""
    cluster = clusters[place]
    may_end = r"\allowbreak{}" if breaks else ""
    tex = "".join(SPECIAL.get(character, character) for character in cluster)
    if PLAIN.fullmatch(cluster):
        return may_end + tex
    shown = INVISIBLE.sub("", cluster)
    if not shown:
        return may_end
    if shown.isspace():
        return " "
    codes = ",".join(f"{ord(character):X}" for character in shown)
    tags = (tag for name, tag in SHAPED.items() if regex.match(rf"\p{{Script={name}}}", cluster))
    letter = rf"\posencletter{{{next(tags, 'dflt')}}}{{{codes}}}{{{tex}}}"
    if EMOJI.match(cluster):
        name = "-".join(f"{ord(character):x}" for character in cluster)
        encoded = cluster.encode("utf-16-be").hex().upper()
        letter = rf"\posencemoji{{{name}}}{{{encoded}}}{{{letter}}}"
    return may_end + letter
