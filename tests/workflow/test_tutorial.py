"""The tutorial runs as it stands, cell by cell, and prints and draws what its pages show."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.copies import ROOT, copy_project
from tests.unit.api_models import saved
from tests.workflow.conftest import Project, reproduced

SPEC = importlib.util.spec_from_file_location("tutorial", ROOT / "docs/tutorial.py")
tutorial = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tutorial)

ENGLISH, JAPANESE = (path.read_text(encoding="utf-8") for path in tutorial.PAGES)
CELLS = tutorial.cells(ENGLISH)
NUMBER = re.compile(r"\d+\.\d")


def kinds(kind: str) -> list[str]:
    return [cell.code for cell in CELLS if cell.kind == kind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tutorial")


@pytest.fixture(scope="module")
def printed(folder) -> list[str]:
    """What the Python cells print, with the model that the page names."""
    return tutorial.run_python(ENGLISH, folder)


def close(shown: str, computed: str) -> None:
    """The same words, and numbers in one decimal: another processor may round the other way."""
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", computed), "run python docs/tutorial.py"
    numbers = [list(map(float, NUMBER.findall(text))) for text in (shown, computed)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.11), "run python docs/tutorial.py"


def test_both_languages_have_the_same_cells_and_pictures():
    assert tutorial.cells(JAPANESE) == CELLS
    pictures = re.compile(r"\]\((images/[\w.]+)\)")
    assert pictures.findall(JAPANESE) == pictures.findall(ENGLISH)
    titles = re.compile(r"(?m)^#+ ")
    assert titles.findall(JAPANESE) == titles.findall(ENGLISH)


def test_cells_print_what_the_page_shows(printed):
    shown = [cell.printed for cell in CELLS if cell.kind == "python"]
    for before, after in zip(shown, printed, strict=True):
        close(before, after)


def test_the_losses_are_as_the_page_says(printed):
    """Higher without positions; the mask removes most of that, a placebo hardly any."""
    intact, without, mask, placebo = (
        float(NUMBER.search(text)[0]) for text in printed if text.endswith("nats per token\n")
    )
    lost = without - intact
    assert lost > 0.5 and mask - intact < lost / 2 and placebo - intact > 0.7 * lost


@pytest.mark.parametrize("name", tutorial.PICTURES)
def test_pictures_show_what_the_cells_draw(printed, folder, name):
    def words(path: Path) -> str:  # matplotlib leaves each text in a comment beside its glyphs
        return "\n".join(re.findall(r"<!-- (.+?) -->", path.read_text(encoding="utf-8")))

    shown = words(ROOT / f"docs/images/tutorial_{name}.svg")
    assert "nats" in shown
    close(shown, words(folder / f"tutorial/{name}.svg"))


def edited(path: Path, line: str) -> None:
    """Do what a reader is told to: give the study's line another value."""
    key = line.split(":")[0]
    changed, count = re.subn(rf"(?m)^{key}:.*\n", line, path.read_text(encoding="utf-8"), count=1)
    assert count == 1, f"the study has no line like {line}"
    path.write_text(changed, encoding="utf-8")


def test_shell_cells_make_a_study_and_what_follows_an_edit(printed, folder):
    setup, survey, run, record, plan, repro, back = kinds("sh")
    (line,) = kinds("yaml")
    target = setup.splitlines()[0].removeprefix("make ")
    assert re.search(rf"(?m)^{target}\b.*:$", (ROOT / "Makefile").read_text())
    # The reader's own model, smaller than the one that the page saves there.
    own = folder / "tutorial/own_model"
    assert (own / "model.safetensors").stat().st_size > 1e8
    shutil.rmtree(own)
    saved("llama", own)
    project = Project(folder / "project")
    copy_project(project.folder)
    for command in ("git init -q", "git add -A", "git commit -q -m begun", "dvc init -q -f"):
        project.run(*command.split())

    def said(cell: str) -> str:
        lines = cell.replace("\\\n", "").splitlines()
        return "".join(project.run(*shlex.split(line)).stdout for line in lines)

    planned = said(survey)
    jobs = int(re.search(r"(?m)^(\d+) jobs", planned)[1])
    rows = re.findall(r"(?m)^ {2}\w+ +(\d+) .*not made yet$", planned)
    assert sum(map(int, rows)) == jobs
    written = YAML(typ="safe").load((project.folder / "studies/mine.yaml").read_text())
    assert "own_model" in written["define"]["models"]

    table = dict(line.split(maxsplit=1) for line in said(run).splitlines()[-30:] if " " in line)
    assert table["model"] == "own_model" and {"zero_closed", "placebo_heads"} <= {*table}
    assert (project.folder / "report/index.html").is_file()
    assert "recorded in dvc.lock" in said(record)

    edited(project.folder / "studies/mine.yaml", line)
    planned = said(plan)
    assert int(re.search(r"(?m)^(\d+) jobs", planned)[1]) < jobs
    assert not re.search(r"(?m)^ {2}(fetch|documents|model) ", planned)
    remade = said(repro)
    phases = reproduced(remade)
    assert "measurements" in phases and "models" not in phases
    assert any(line.startswith("placebo_mean ") for line in remade.splitlines())
    assert project.run("posenc", "plan").stdout == "Everything is up to date.\n"
    said(back)
    written = YAML(typ="safe").load((project.folder / "params.yaml").read_text())
    assert written["study"] == "default"


def test_a_picture_or_a_text_that_changed_is_noticed():
    close("3.6 nats per token\n", "3.7 nats per token\n")
    for other in ("3.8 nats per token\n", "3.6 nats per word\n"):
        with pytest.raises(AssertionError, match=r"docs/tutorial\.py"):
            close("3.6 nats per token\n", other)
    assert tutorial.filled("```python\nx\n```\n```text\nold\n```", ["new\n"]).endswith(
        "```text\nnew\n```"
    )
