"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

LANGUAGES, SENTENCES = ("english", "japanese"), ("intact", "zero")
COMPARED = ("exchanged", "paraphrase", "unrelated", "nearer")
EXCHANGED_ROLES = tuple(
    name for language in LANGUAGES
    for name in (f"{language}.pairs", *(f"{language}.{condition}.{part}"
                                        for condition in SENTENCES for part in COMPARED))
)  # fmt: skip


def exchanged_roles(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Cosines of sentences with others, by language and condition."""
    numbers: dict[str, Entry] = {}
    by_language = {language["language"]: language for language in measurement["languages"]}
    for name in LANGUAGES:
        language = by_language.get(name, {"reason": "the study has no such sentences"})
        conditions = {each["condition"]: each for each in language.get("conditions", ())}
        numbers[f"{name}.pairs"] = estimate(language.get("pairs"), language["reason"] or "")
        for condition in SENTENCES:
            each = conditions.get(condition, dict.fromkeys(COMPARED))
            numbers |= {
                f"{name}.{condition}.{part}": estimate(each[part], language["reason"] or "")
                for part in COMPARED
            }
    return numbers


WORDS = {
    "english": "English",
    "japanese": "Japanese",
    "pairs": "sentences",
    "exchanged": "cosine with names exchanged",
    "paraphrase": "cosine with a paraphrase",
    "unrelated": "cosine with an unrelated sentence",
    "nearer": "share of sentences nearer to exchanged names than to the paraphrase",
}
QUANTITIES = Quantities(read=exchanged_roles, names=EXCHANGED_ROLES, words=WORDS)
FIGURE = Exhibit(
    "A1 sentences that differ in order alone",
    ("exchanged_roles",),
    height=2.6,
    caption="Cosine of a sentence's vector (the mean of its last hidden states) with that of "
    "the same sentence with its two names exchanged, of a paraphrase, and of an unrelated "
    "sentence, with positions (filled) and without (hollow). An encoder without positions "
    "cannot tell a sentence from its exchanged form.",
    alt="Points with intervals, a panel for each model: cosine with exchanged names, a "
    "paraphrase and an unrelated sentence, in English and Japanese.",
)
