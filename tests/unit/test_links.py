"""The links at the top lead to the active study, and the last line of a run names its study."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from posenc.artifacts.places import STUDIES
from posenc.report import latex, links

NAMES = ("index.html", "metrics.json", "pdf/paper.pdf", "pdf/slides.pdf", "pdf/supplement.pdf")


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
    # In the study's folder too: a document's numbers lead to the page beside it.
    for name in ("paper", "slides", "supplement"):
        beside = moved / STUDIES / f"local/{name}.pdf"
        assert beside.is_symlink() and beside.read_text() == "local"


def test_what_a_study_does_not_have_is_not_shown_of_another():
    make("default", *NAMES)
    links.link("default")
    make("local", "index.html")
    links.link("local")
    left = [path for path in links.LINKS if os.path.lexists(path)]
    assert left == [Path("paper/index.html"), Path("report/index.html")]
    assert Path("report/index.html").read_text() == "local"


def test_a_document_that_the_study_no_longer_has_leaves_no_link_in_its_folder():
    make("default", *NAMES)
    links.link("default")
    (STUDIES / "default/pdf/slides.pdf").unlink()
    links.link("default")
    assert not os.path.lexists(STUDIES / "default/slides.pdf")
    assert (STUDIES / "default/paper.pdf").read_text() == "default"


def test_a_file_of_an_earlier_version_stays_until_there_is_a_new_one():
    Path("paper/paper.pdf").write_text("earlier")
    links.link("default")
    assert Path("paper/paper.pdf").read_text() == "earlier"
    make("default", "pdf/paper.pdf")
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
    for target in ("all", "--cores", "data/studies/default/pdf/paper.pdf", "data/models/minilm"):
        assert links.elsewhere(target, "default") is None
    for target in ("paper/paper.pdf", "data/studies/default/paper.pdf"):
        assert links.elsewhere(target, "default") == (
            f"{target} is a link, which no rule makes: ask for data/studies/default/pdf/paper.pdf"
        )
    other = links.elsewhere("data/studies/local/pdf/paper.pdf", "default")
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
