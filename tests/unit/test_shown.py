"""The links at the top lead to the active study, and the last line of a run names its study."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from posenc.report import latex, shown
from posenc.study import plan
from posenc.study.params import Params, load

from .synthetic import PROJECT

NAMES = ("index.html", "metrics.json", "paper.pdf", "slides.pdf")


def study(name: str) -> Params:
    return load(PROJECT / "params.yaml", {"study": name})


def make(params: Params, *names: str) -> None:
    """Stand-ins for what a run makes."""
    for name in names:
        path = plan.folder(params) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(params.study.name)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("paper").mkdir()
    return tmp_path


def test_links_lead_to_the_active_study_wherever_the_project_is(folder):
    for name in ("default", "local"):
        make(study(name), *NAMES)
        shown.link(study(name))
        assert {path.read_text() for path in shown.LINKS} == {name}
    assert not [path for path in folder.rglob(".*")], "nothing unfinished is left"
    moved = folder.rename(folder.with_name("moved"))
    assert (moved / "paper/paper.pdf").read_text() == "local"


def test_what_a_study_does_not_have_is_not_shown_of_another():
    make(study("default"), *NAMES)
    shown.link(study("default"))
    make(study("local"), "index.html")
    shown.link(study("local"))
    assert [path for path in shown.LINKS if os.path.lexists(path)] == [Path("report/index.html")]
    assert Path("report/index.html").read_text() == "local"


def test_a_file_of_an_earlier_version_stays_until_there_is_a_new_one():
    Path("paper/paper.pdf").write_text("earlier")
    shown.link(study("default"))
    assert Path("paper/paper.pdf").read_text() == "earlier"
    make(study("default"), "paper.pdf")
    shown.link(study("default"))
    assert Path("paper/paper.pdf").read_text() == "default"


def test_a_target_that_no_rule_of_the_study_makes_is_refused():
    params = study("default")
    for target in ("all", "--cores", "data/studies/default/paper.pdf", "data/models/minilm"):
        assert shown.elsewhere(target, params) is None
    assert shown.elsewhere("paper/paper.pdf", params) == (
        "paper/paper.pdf is a link, which no rule makes: ask for data/studies/default/paper.pdf"
    )
    other = shown.elsewhere("data/studies/local/paper.pdf", params)
    assert other is not None and other.endswith("than 'default': add --config study=local")


def test_the_last_line_names_the_study_and_what_there_is_of_it(monkeypatch):
    monkeypatch.setattr(latex, "missing", lambda: [])
    params = study("local")
    assert shown.closing_line(params).endswith("'local': nothing is made yet in data/studies/local")
    make(params, "index.html", "paper.pdf")
    line = shown.closing_line(params)
    assert line == "Study 'local': index.html, paper.pdf in data/studies/local"
    # One that was built before is not this run's.
    monkeypatch.setattr(latex, "missing", lambda: ["latexmk"])
    line = shown.closing_line(params)
    assert line.startswith("Study 'local': index.html in data/studies/local; the documents need")
    assert line.endswith(latex.INSTALL)
