"""Every claim of README, pages and paper has an entry in controls.md and a line in claims.md."""

from __future__ import annotations

import re

import pytest

from posenc.report import findings

from .pages import command, entries, made, pages, text
from .synthetic import PROJECT

CONTROLS, TEMPLATE = PROJECT / "docs/controls.md", "docs/templates/controls.md"
FINDINGS = {
    "README.md": "- **", "README.ja.md": "- **", "docs/results.md": "**", "docs/results.ja.md": "**"
}  # fmt: skip
"""How each begins a finding."""
RESULTS = {"paper": "What the Library's Mask Did", "supplement": "Hidden States"}
"""By document, its first section that claims something."""
UNCLAIMED = ("Limits", "Positions: All Probes, Reading Back, Further Figures")
"""Parts that claim nothing: their numbers say what a table is of."""
FIELDS = ("Claim", "Control", "Study", "File", "Command")
FATES = ("Survived", "Weakened", "Sank", "No control yet")
LINK = re.compile(r"controls\.md#([\w-]+)")
IN_PAPER = re.compile(r"^ *% Claims: (.+)$", re.MULTILINE)
PART = re.compile(r"\\(?:section|subsection|paragraph)\{(.+?)\}")


def claims() -> dict[str, list[str]]:
    """By its place and first words, what a claim links to."""
    links = {}
    for path in sorted(PROJECT.glob("docs/*.md")):
        for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
            if "**Found.**" in paragraph and path != CONTROLS:
                start = paragraph.partition("**Found.**")[2]
                links[f"{path.name}: {start[:60]}"] = LINK.findall(start)
    for page, start in FINDINGS.items():
        for paragraph in re.split(r"\n\n|\n(?=- )", text(page)):
            if paragraph.startswith(start):
                links[f"{page}: {paragraph[:60]}"] = LINK.findall(paragraph)
    for document, first in RESULTS.items():
        opening, _, results = text(f"paper/{document}.tex").partition(rf"\section{{{first}}}")
        parts = PART.split(results)
        abstract = opening.partition(r"\section{")[0]
        for title, part in [("abstract", abstract), *zip(parts[1::2], parts[2::2], strict=True)]:
            if re.search(r"\\(measured|percent|recorded)\{", part) and title not in UNCLAIMED:
                named = ", ".join(IN_PAPER.findall(part))
                links[f"{document}: {title}"] = named.split(", ") if named else []
    return links


@pytest.mark.parametrize("claim", claims())
def test_a_claim_names_its_entries(claim):
    assert claims()[claim], f"{claim}: add ([control](controls.md#NAME)), or % Claims: in the paper"
    assert set(claims()[claim]) <= entries().keys()


def test_there_are_claims_in_all_three_places():
    places = {place.partition(":")[0] for place in claims()}
    assert {*FINDINGS, "paper", "supplement", "rotary.md", "relative-attention.md"} <= places


@pytest.mark.parametrize("name", entries())
def test_an_entry_is_whole_and_somebody_claims_it(name):
    entry = entries()[name]
    assert re.fullmatch(r"[a-z0-9-]+", name), "a heading is its own anchor"
    assert tuple(entry) == FIELDS
    assert re.match(rf"\*({'|'.join(FATES)})\.\* ", entry["Control"])
    marked = entries(TEMPLATE)[name]
    assert findings.MARKED.search(marked["Claim"] + marked["Control"]), "a number, by its mark"
    others = set(pages()) - {CONTROLS, PROJECT / "docs/claims.md"}
    linked = {link for page in others for link in LINK.findall(page.read_text(encoding="utf-8"))}
    assert name in linked, "nothing links to this entry"


@pytest.mark.parametrize("name", entries())
def test_an_entry_has_a_file_that_the_study_makes_and_its_command(name):
    entry = entries()[name]
    study = re.match(r"`(\w+)`", entry["Study"])[1]
    file = entry["File"].strip("`")
    assert file in made(study)
    assert entry["Command"] == f"`{command(study, file)}`"
    marks = findings.MARKED.finditer(entries(TEMPLATE)[name]["Claim"])
    assert {mark["study"] or findings.STUDY for mark in marks} <= {study}


def test_claims_has_a_line_for_each_entry_with_its_verdict():
    listed, controls = (text(f"docs/{name}.md") for name in ("claims", "controls"))
    rows = re.compile(r"(?m)^(?:## (.+)|\| \[.+\.\]\(controls\.md#([\w-]+)\) \| \*([\w ]+)\* \|)$")
    fates = re.compile(
        r"(?ms)^## ([^\n]+)$|^### (\S+)\n\n- \*\*Claim\.\*\* .*?^- \*\*Control\.\*\* \*([\w ]+)\.\*"
    )
    of_entries = [(part, name, fate.lower()) for part, name, fate in fates.findall(controls)]
    assert rows.findall(listed) == of_entries != []
