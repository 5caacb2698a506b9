"""Studies do not touch each other, and what one takes is said before it is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from posenc.report import latex, links
from posenc.study import plan, storage
from posenc.study.params import load
from tests.workflow.conftest import Project
from tests.workflow.test_front_ends import artifacts
from tests.workflow.test_matrix import OTHER_STUDY

SHOWN = ["index.html", *([] if latex.missing() else ["supplement.pdf"]), "metrics.json"]


@pytest.fixture
def project(core, tmp_path) -> Project:
    """A copy of the finished core study, with another study beside it."""
    copy = core.copy(tmp_path / "project")
    raw = copy.folder / "params.yaml"
    raw.write_text(raw.read_text().replace("studies:\n", "studies:\n" + OTHER_STUDY, 1))
    return copy


def shown_study(project: Project) -> set[str]:
    """The existing studies that the links at the top lead to."""
    paths = [project.folder / path for path in links.LINKS]
    there = [path for path in paths if os.path.lexists(path)]
    assert {path.resolve().name for path in there} == set(SHOWN)
    assert all(path.exists() for path in there)
    studies = (project.folder / plan.STUDIES).resolve()
    return {path.resolve().relative_to(studies).parts[0] for path in there}


def test_another_study_and_back_plans_nothing(project):
    before = artifacts(project)
    assert shown_study(project) == {"default"}
    ran = project.snakemake("--config", "study=other").stdout
    line = f"Study 'other': {', '.join(SHOWN)} in data/studies/other"
    assert line in ran.splitlines()[-5:]
    assert shown_study(project) == {"default"}, "params.yaml has not changed"
    digests = artifacts(project)
    assert {name: digests[name] for name in before} == before
    assert {
        name for name in digests if name.startswith("data/studies/other/")
    } == digests.keys() - before
    for study in ("other", "default"):
        project.run("posenc", "study", study)
        assert shown_study(project) == {study}
        assert "Nothing to be done" in project.snakemake("--dry-run").stdout
    assert artifacts(project) == digests
    assert "Study 'default': " in project.run("posenc", "summary").stdout
    changed = project.run("git", "status", "--porcelain", "--untracked-files=all").stdout
    assert not [path for path in links.LINKS if str(path) in changed]


def test_a_link_is_no_target(core):
    said = core.snakemake("--dry-run", "--", "data/metrics.json", check=False)
    assert said.returncode != 0
    assert "ask for data/studies/default/metrics.json" in said.stdout


def taken(part: storage.Part) -> int:
    return sum(path.stat().st_size for path in part.folder.rglob("*") if path.is_file())


def test_what_a_finished_study_takes_is_what_was_said(core, monkeypatch):
    """Within a fifth of tokens, within a factor of 2 of documents; before these, a bound."""
    monkeypatch.chdir(core.folder)
    params = load(Path("params.yaml"))
    (part,) = storage.parts(params)
    assert part.what == "activations of decoder" and part.size
    assert 1 / 1.2 < part.size / taken(part) < 1.2
    real = plan.STUDIES
    monkeypatch.setattr(plan, "STUDIES", Path("elsewhere"))
    (expected,) = storage.parts(params)
    assert expected.size and 1 / 2 < expected.size / taken(part) < 2
    monkeypatch.setattr(plan, "DOCUMENTS", Path("elsewhere"))
    (bound,) = storage.parts(params)
    assert bound.size and bound.is_bound and taken(part) / 1.2 < bound.size
    monkeypatch.setattr(storage, "MODELS", Path("elsewhere"))
    monkeypatch.setattr(plan, "STUDIES", real)
    weights, _ = storage.parts(params)
    file = core.folder / "data/models/decoder/model.safetensors"
    assert weights.size and 1 / 1.2 < weights.size / file.stat().st_size < 1.2
