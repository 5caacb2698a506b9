"""A figure has one number: on the page, in the paper, in its supplement and on slides."""

from __future__ import annotations

import re

import pytest

from posenc.artifacts.files import read_json
from posenc.drawing.exhibit import PAPER
from posenc.figures.catalogue import FIGURES, PAPER_ORDER, heading_of, numbered
from posenc.report import page, typeset
from posenc.report.gathered import read_published
from posenc.report.page_pictures import Pictures
from posenc.report.records import Results

from . import synthetic

SVG = '<svg viewBox="0 0 60 40"></svg>'
LEFT_OUT = {"rotary_masks", "lags"}


@pytest.fixture(params=[set(), LEFT_OUT], ids=["all", "some left out"])
def results(request):
    """A study without measurements, with all of its figures or without some."""
    study, folder = synthetic.study_file(), synthetic.PROJECT
    study["figures"] = [name for name in study["figures"] if name not in request.param]
    published = read_published(folder / "paper/published.yaml")
    return Results(study, [], [], published, read_json(folder / "docs/mask-versions.json"), {})


def in_documents(results) -> dict[str, int]:
    found = re.findall(r"(?m)^\\posencfigure\{(\w+)\}\{(\d+)\}", typeset.numbers_tex(results))
    return {name: int(number) for name, number in found}


def on_page(results) -> dict[str, int]:
    figures = [page.Figure(name, SVG, ()) for name in FIGURES]
    drawn = [one for one in reversed(figures) if one.name in results.study["figures"]]
    parts, _ = page.sections(results, drawn, {}, ".", synthetic.PROJECT, Pictures(), {})
    return {one["name"]: one["number"] for part in parts for one in part["figures"]}


def test_page_and_documents_give_a_figure_the_same_number(results):
    assert in_documents(results) == on_page(results)
    assert list(on_page(results).values()) == list(range(1, len(results.study["figures"]) + 1))


def test_documents_print_the_number_of_the_map():
    """LaTeX counts no figures: its counter is set before each caption, and slides read the map."""
    template = typeset.environment().loader.get_source(typeset.environment(), "numbers.tex.jinja")[
        0
    ]
    made = template.split(r"\NewDocumentCommand \figurecaption")[1].split(r"\label { fig: #1 }")[0]
    assert re.search(r"\\setcounter \{ figure \}.*\{ number \} \{#1\} - 1.*?\\caption", made, re.S)
    slides = (synthetic.PROJECT / "paper/slides.tex").read_text(encoding="utf-8")
    shown = slides.split(r"\newcommand\slidefigure[1]{")[1].split(r"\newcommand")[0]
    assert r"\figurenumber{#1}" in shown
    preamble = (synthetic.PROJECT / "paper/preamble.tex").read_text(encoding="utf-8")
    assert r"\figurecaption{#4}" in preamble


def test_figures_of_the_paper_come_first_and_in_its_order():
    text = (synthetic.PROJECT / "paper/paper.tex").read_text(encoding="utf-8")
    shown = re.findall(r"\\showfigure\*?(?:\[.*?\])*\{(\w+)\}", text)
    assert [name for name in numbered(FIGURES) if name in shown] == shown == list(PAPER_ORDER)
    assert {name for name, entry in FIGURES.items() if PAPER in entry.documents} == set(shown)
    cited = list(dict.fromkeys(re.findall(r"\\ref\{fig:(\w+)\}", text)))
    assert cited == shown
    assert [numbered(FIGURES)[name] for name in shown] == list(range(1, len(shown) + 1))
    assert {heading_of(name) for name in shown} == {"Figures of the paper"}
    assert heading_of("lags") == FIGURES["lags"].question
