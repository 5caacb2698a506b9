"""The page of the catalogue has every row, question, figure and claim, with files that are made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from posenc.figures.catalogue import FIGURES
from posenc.report import comparison
from posenc.study import plan

from .pages import anchors, command, entries, made, text
from .synthetic import PROJECT, params_of

PAGE = text("docs/catalogue.md")
FIELDS = ("asked", "state", "finding", "control", "study", "file", "figure", "command")
ROWS = {
    anchor: {"code": code, **dict(zip(FIELDS, fields.strip(" |").split(" | "), strict=True))}
    for anchor, code, fields in re.findall(r'(?m)^\| <a id="([\w-]+)"></a>(\w+) \| (.+)$', PAGE)
}
"""By anchor, the code of a row and its fields."""
MEASURED = [anchor for anchor, row in ROWS.items() if row["file"] != "–"]
CONTROLS = ("Adaptation", "Nulls", "Clusters", "Choice")
QUESTIONS = "12345678"
CODE = re.compile(r"\b[A-F]\d\b")
KEYS = {"position_embeddings": "positions"}
"""What keys call a measurement, where they do not use its name."""


@cache
def sections() -> tuple[str, ...]:
    """Headings of all pages."""
    return tuple(
        title
        for page in sorted(PROJECT.glob("docs/*.md"))
        for title in re.findall(r"(?m)^##+ (.+)$", page.read_text(encoding="utf-8"))
    )


@cache
def recorded(study: str) -> dict[str, Any]:
    return comparison.all_recorded(PROJECT / comparison.RECORDS)[study]


def codes(titles: Iterable[str]) -> set[str]:
    return {code for title in titles for code in CODE.findall(title)}


def named(row: dict[str, str]) -> dict[str, str]:
    """By name, the study of each figure of a row."""
    figures = re.findall(r"`(\w+)`(?: of `(\w+)`)?", row["figure"])
    return {figure: study or row["study"].strip("`") for figure, study in figures}


def linked(row: dict[str, str], field: str) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", row[field])


def test_every_row_and_question_is_there_once_and_in_the_index():
    asked = codes(entry.question for entry in FIGURES.values())
    expected = sorted(asked | codes(t for t in sections() if CODE.match(t)))
    assert [row["code"] for row in ROWS.values()] == [*expected, *CONTROLS, *QUESTIONS]
    index = PAGE.partition("\n## ")[0]
    assert re.findall(r"\[(\w+)\]\(#([\w-]+)\)", index) == [(r["code"], a) for a, r in ROWS.items()]


@pytest.mark.parametrize("anchor", ROWS)
def test_a_state_is_one_of_three_and_says_what_is_missing(anchor):
    row = ROWS[anchor]
    assert re.fullmatch(r"`whole`|`half`: \w.+|`not run`: \w.+", row["state"])
    assert row["asked"].endswith("?")
    if row["state"].startswith("`not run`"):
        assert {row[field] for field in ("study", "file", "figure", "command")} == {"–"}


@pytest.mark.parametrize("anchor", MEASURED)
def test_the_rules_make_the_file_by_the_command_and_the_record_has_it(anchor):
    row = ROWS[anchor]
    study, file = row["study"].strip("`"), row["file"].strip("`")
    path = f"data/studies/{study}/measurements/{file}"
    assert path in made(study)
    assert row["command"] == f"`{command(study, path)}`"
    kind, *names = file.removesuffix(".json").split("/")
    words = {KEYS.get(kind, kind), *names}
    numbers = recorded(study).items()
    assert any(words <= set(key.split(".")) and "not_run" not in number for key, number in numbers)


@pytest.mark.parametrize("anchor", ROWS)
def test_figures_are_drawn_in_their_study_and_stand_in_the_row_that_they_answer(anchor):
    row = ROWS[anchor]
    for figure, study in named(row).items():
        assert figure in plan.figures(params_of(study))
    answering = {f for f, entry in FIGURES.items() if row["code"] in codes([entry.question])}
    assert answering <= named(row).keys()


@pytest.mark.parametrize("anchor", ROWS)
def test_a_finding_is_the_section_of_its_row(anchor):
    row = ROWS[anchor]
    targets = [link.partition("#") for link in linked(row, "finding")]
    assert targets
    for page, _, section in targets:
        assert not section or section in anchors(PROJECT / "docs" / page)
    if CODE.match(row["code"]):
        own = row["code"].lower()
        assert any(own in section.split("-")[:3] for _, _, section in targets)


@pytest.mark.parametrize("anchor", ROWS)
def test_controls_are_entries_of_the_claims(anchor):
    links = linked(ROWS[anchor], "control")
    assert {link.partition("#")[0] for link in links} <= {"controls.md"}
    assert {link.partition("#")[2] for link in links} <= entries().keys()


def test_no_figure_and_no_claim_is_left_out():
    rows = ROWS.values()
    assert {figure for row in rows for figure in named(row)} == set(FIGURES)
    controls = {link.partition("#")[2] for row in rows for link in linked(row, "control")}
    assert controls == entries().keys()
