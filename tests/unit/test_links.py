"""The links at the top lead to the active study, and the last line of a run names its study."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from posenc.artifacts.places import STUDIES
from posenc.report import latex, links

NAMES = ("index.html", "metrics.json", "paper.pdf", "slides.pdf", "supplement.pdf")


def make(study: str, *names: str) -> None:
    """Stand-ins for what a run makes."""
    for name in names:
        path = STUDIES / study / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(study)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("paper").mkdir()
    return tmp_path


def test_links_lead_to_the_active_study_wherever_the_project_is(folder):
    for name in ("default", "local"):
        make(name, *NAMES)
        links.link(name)
        assert {path.read_text() for path in links.LINKS} == {name}
    assert not [path for path in folder.rglob(".*")], "nothing unfinished is left"
    moved = folder.rename(folder.with_name("moved"))
    assert (moved / "paper/paper.pdf").read_text() == "local"


def test_what_a_study_does_not_have_is_not_shown_of_another():
    make("default", *NAMES)
    links.link("default")
    make("local", "index.html")
    links.link("local")
    left = [path for path in links.LINKS if os.path.lexists(path)]
    assert left == [Path("paper/index.html"), Path("report/index.html")]
    assert Path("report/index.html").read_text() == "local"


def test_a_file_of_an_earlier_version_stays_until_there_is_a_new_one():
    Path("paper/paper.pdf").write_text("earlier")
    links.link("default")
    assert Path("paper/paper.pdf").read_text() == "earlier"
    make("default", "paper.pdf")
    links.link("default")
    assert Path("paper/paper.pdf").read_text() == "default"


def test_the_list_of_pages_has_the_studies_that_have_one_on_disk():
    def listed() -> list[str]:
        text = links.PAGES.read_text(encoding="utf-8")
        return json.loads(text.removeprefix("globalThis.posencStudies = ").removesuffix(";\n"))

    links.list_pages()
    assert not links.PAGES.exists(), "there is no page, and no folder"
    make("local", "index.html")
    make("default", "index.html", "paper.pdf")
    make("rotary", "paper.pdf")
    links.list_pages()
    assert listed() == ["default", "local"]
    before = links.PAGES.stat().st_ino
    links.list_pages()
    assert links.PAGES.stat().st_ino == before, "what is right is not written again"
    (STUDIES / "local/index.html").unlink()
    links.list_pages()
    assert listed() == ["default"]
    (STUDIES / "default/index.html").unlink()
    links.list_pages()
    assert listed() == []


def test_a_target_that_no_rule_of_the_study_makes_is_refused():
    for target in ("all", "--cores", "data/studies/default/paper.pdf", "data/models/minilm"):
        assert links.elsewhere(target, "default") is None
    assert links.elsewhere("paper/paper.pdf", "default") == (
        "paper/paper.pdf is a link, which no rule makes: ask for data/studies/default/paper.pdf"
    )
    other = links.elsewhere("data/studies/local/paper.pdf", "default")
    assert other is not None and other.endswith("than 'default': add --config study=local")


def test_the_last_line_names_the_study_and_what_there_is_of_it(monkeypatch):
    monkeypatch.setattr(latex, "missing", lambda: [])
    documents = ["paper", "slides"]
    assert links.closing_line("local", documents).endswith(
        "'local': no page yet in data/studies/local"
    )
    make("local", "index.html", "paper.pdf")
    line = links.closing_line("local", documents)
    assert line == "Study 'local': index.html, paper.pdf in data/studies/local"
    # One that was built before is not this run's.
    monkeypatch.setattr(latex, "missing", lambda: ["latexmk"])
    line = links.closing_line("local", documents)
    assert line.startswith("Study 'local': index.html in data/studies/local; the documents need")
    assert line.endswith(latex.INSTALL)
