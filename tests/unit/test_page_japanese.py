"""Each fixed text of the report page has a Japanese form, and no form is of a text that is gone."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from posenc.config.labels import display
from posenc.figures.catalogue import FIGURES
from posenc.report import page
from posenc.report.headlines import FINDINGS
from posenc.report.words import JOINT, PARTS, WORDS, in_japanese
from posenc.study.declared import KINDS

from .test_page import VOID, default  # noqa: F401
from .test_page_tables import unpacked

TEMPLATES = Path(page.__file__).parent / "templates"
FORMS: dict[str, str] = json.loads((TEMPLATES / page.JAPANESE).read_text(encoding="utf-8"))
QUANTITIES: dict[str, str] = json.loads(
    (TEMPLATES / page.QUANTITIES_IN_JAPANESE).read_text(encoding="utf-8")
)
SCRIPTS = [
    (TEMPLATES / name).read_text(encoding="utf-8")
    for name in ("page.js", "search.js", "heads.js", "values.js")
]
PICTURED = {text for one in FIGURES.values() for text in (page.plain(one.caption), one.alt)}
"""Captions of all figures, and what they look like."""
IN_TABLES = {display(kind) for kind in KINDS} | {one.question for one in FIGURES.values()}
"""Measurements and titles of sections, of other studies too."""
SOMETIMES = {
    "Everything that this study asks for was run.", "floor", "no such condition",
    "the text of the documents", "At a glance",
    *(sentence for finding in FINDINGS for sentence in finding.sentences),
    *(text for finding in FINDINGS for text in (finding.title, *finding.names)),
}  # fmt: skip
"""What the default study has no occasion for."""
HEADINGS = {"h1", "h2", "h3", "h4", "figcaption", "caption", "summary", "legend", "button"}


class Spoken(HTMLParser):
    """Texts of a page that are said in the reader's language, and those that are said in one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.said: set[str] = set()
        self.forms: dict[str, str] = {}
        self.labels: set[str] = set()
        self.bare: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        own = dict(attrs)
        if tag == "svg" and "data-ja" in own:
            self.forms[own["aria-label"]] = own["data-ja"]
        if not any(name == "noscript" for name, _ in self.open):
            self.labels |= {
                own[name] for name in ("aria-label", "placeholder", "title") & own.keys()
            }
        if tag not in VOID:
            self.open.append((tag, own))

    def handle_endtag(self, tag):
        if tag == self.open[-1][0]:
            self.open.pop()

    def handle_data(self, data):
        text = " ".join(data.split())
        for tag, own in self.open:
            if "t" in (own.get("class") or "").split():
                key = own.get("data-words") or data
                self.said.add(key)
                if "data-ja" in own:
                    self.forms[key] = own["data-ja"]
                return
            if tag in ("noscript", "script", "style", "code", "bdi") or "data-language" in own:
                return
        tags = [tag for tag, _ in self.open]
        is_first = any(own.get("id") == "glance" for _, own in self.open)
        is_column = ("th", "col") in [(tag, own.get("scope")) for tag, own in self.open]
        is_fixed = is_first or is_column or HEADINGS.intersection(tags)
        has_words = re.search(r"[A-Za-z]{3,}", text) and text not in ("CSV", "JSON")
        if is_fixed and has_words:
            self.bare.add(text)


@pytest.fixture(scope="module")
def spoken(default):  # noqa: F811
    return Spoken(default[3])


def listed(texts) -> str:
    return "".join(f"\n  {text!r}" for text in sorted(texts))


def test_every_text_has_a_japanese_form(spoken, default):  # noqa: F811
    tables = unpacked(json.loads(default[3].split('id="numbers">')[1].split("</script>")[0]))
    measured = {display(row["measurement"]) for rows in tables.values() for row in rows}
    in_scripts = {
        word for script in SCRIPTS for word in re.findall(r'\b(?:t|word)\(\s*"([^"]+)"', script)
    }
    assert len(spoken.said) > 150 and len(in_scripts) > 20
    needed = spoken.said | in_scripts | measured | spoken.labels | PICTURED | IN_TABLES
    missing = needed - FORMS.keys()
    assert not missing, f"{page.JAPANESE} has no Japanese for{listed(missing)}"
    quoted = {word for word in FORMS if any(f'"{word}"' in script for script in SCRIPTS)}
    left = FORMS.keys() - needed - quoted - SOMETIMES
    assert not left, f"{page.JAPANESE} has Japanese for what nothing says{listed(left)}"


def test_headings_and_the_first_screen_say_nothing_in_english_alone(spoken):
    assert not spoken.bare, (
        f"page.html.jinja says these without t() or long(), so that they stay English:"
        f"{listed(spoken.bare)}"
    )


def test_a_form_has_the_places_of_its_text_and_is_japanese():
    for text, form in FORMS.items():
        assert sorted(re.findall(r"\{\d\}", text)) == sorted(re.findall(r"\{\d\}", form)), text
        assert re.search(r"[\u3040-\u9fff]", form) or text.startswith("{") or "LayerNorm" in form
        # Japanese has its own commas and stops; numbers and names have the ordinary ones.
        assert not re.search(r"[\u3040-\u9fff][,.;:](?!\d)", form), form


def test_a_page_has_each_form_once(spoken, default):  # noqa: F811
    """Captions and what pictures look like have it beside them, all else in one list."""
    embedded = json.loads(default[3].split('id="japanese">')[1].split("</script>")[0])
    assert embedded == {text: form for text, form in FORMS.items() if text not in PICTURED}
    shown = PICTURED & FORMS.keys() & (spoken.said | spoken.forms.keys())
    assert len(shown) > 80
    assert spoken.forms == {text: FORMS[text] for text in shown}


def test_every_word_of_a_quantity_has_a_japanese_form(default):  # noqa: F811
    """What measurements call their numbers, names that stand for themselves, and nothing else."""
    in_words = {*PARTS.values(), *(word for of in WORDS.values() for word in of.values())}
    missing = in_words - QUANTITIES.keys() - FORMS.keys()
    assert not missing, f"{page.QUANTITIES_IN_JAPANESE} has no Japanese for{listed(missing)}"
    generic = {text for text in QUANTITIES if "{}" in text}
    left = QUANTITIES.keys() - in_words - generic - label_parts(default[3])
    assert not left, f"{page.QUANTITIES_IN_JAPANESE}: nothing says{listed(left)}"
    for text, form in QUANTITIES.items():
        assert text.count("{}") == form.count("{}"), text
        assert re.search(r"[\u3040-\u9fff]", form), form
        assert not re.search(r"[\u3040-\u9fff][,.;:](?!\d)", form), form


def label_parts(text: str) -> set[str]:
    """What stands between the dots of the labels of a page."""
    tables = unpacked(json.loads(text.split('id="numbers">')[1].split("</script>")[0]))
    return {part for rows in tables.values() for row in rows for part in row["label"].split(JOINT)}


def test_labels_of_the_page_are_said_in_japanese_part_by_part(default):  # noqa: F811
    parts = label_parts(default[3])
    said = json.loads(default[3].split('id="quantities">')[1].split("</script>")[0])
    assert said.keys() <= parts
    # What is left in English are names: of conditions, masks and classes of tokens.
    assert len(parts - said.keys()) < len(said) / 5, listed(parts - said.keys())
    assert said["block 1"] == "ブロック 1"
    forms = {"last {}": "直近 {}", "random table: {}": "乱数の表：{}", "error": "誤差"}
    assert in_japanese("random table: error", forms) == "乱数の表：誤差"
    assert in_japanese("last 5", forms) == "直近 5"
    assert in_japanese("last ", forms) is None and in_japanese("zero", forms) is None


def test_the_template_has_no_fixed_word_without_a_form():
    """Text between tags is said by the macro, but for names, formats and what needs no script."""
    source = (TEMPLATES / "page.html.jinja").read_text(encoding="utf-8")
    body = re.sub(r"(?s)<p data-only.*?</p>", "", source.split("<body>")[1])
    body = re.sub(r'<(\w+) class="(?:hidden )?t"[^>]*>[^<]*</\1>', "", body)
    body = re.sub(
        r"(?s)<noscript>.*?</noscript>|<script>.*?</script>|\{[{%#].*?[}%#]\}|<[^>]*>", "\0", body
    )
    left = {" ".join(one.split()) for one in body.split("\0")} - {""}
    names = {one for one in left if re.search(r"[A-Za-z]{3,}", one)}
    told = {"CSV", "JSON", "posenc", "Slope", "rows"}
    assert {one for one in names - told if "snakemake" not in one} == set()
