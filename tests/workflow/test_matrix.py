"""What one front end finds after the other: the table of docs/front-ends.md, row by row.

Each test works in its own copy of the finished core study, whose results are committed.
"""

from __future__ import annotations

import json
import shutil

import pytest

from posenc.report import latex
from tests.workflow.conftest import Project, ran, reproduced
from tests.workflow.test_front_ends import artifacts

SUPPLEMENT = ["supplement"] if not latex.missing() else []
HEIGHT = "figures.training_loss.height"
SEED = "measurements.perplexity.seed"
PERPLEXITY_STAGES = ["measurements", "figures", "numbers", *(["paper"] * bool(SUPPLEMENT)), "page"]
PERPLEXITY_JOBS = dict.fromkeys(["perplexity", "figure", "typeset", "page", *SUPPLEMENT], 1)


@pytest.fixture
def project(core, tmp_path) -> Project:
    """A copy of the finished study with its results committed."""
    copy = core.copy(tmp_path / "project")
    commit(copy, "results")
    return copy


def commit(project: Project, message: str) -> None:
    project.run("git", "add", "--all")
    project.run("git", "commit", "--quiet", "--message", message)


def agree(project: Project) -> bool:
    """Whether both front ends find everything current; if not, what they do is shown."""
    assert (project.planned(), project.reproduced()) == ({}, [])
    return True


def kept(project: Project) -> set[str]:
    """Runs that the last captures and measurements did not recompute."""
    folders = (project.folder / "logs" / name for name in ("capture", "perplexity", "heads"))
    return {
        line.removesuffix(" is current and is kept")
        for folder in folders
        for log in folder.iterdir()
        for line in log.read_text().splitlines()
        if line.endswith("is current and is kept")
    }


@pytest.mark.slow
def test_after_an_unrecorded_snakemake_dvc_makes_the_same(project):
    project.edit(HEIGHT, 3.1)
    project.snakemake()
    digests = artifacts(project)
    assert project.reproduced() == ["figures", *(["paper"] * bool(SUPPLEMENT)), "page"]
    assert artifacts(project) == digests
    assert agree(project)


@pytest.mark.slow
def test_an_older_commit(project):
    before = artifacts(project)
    project.edit(SEED, 5)
    project.run("dvc", "repro")
    newer = artifacts(project)
    commit(project, "another seed")
    project.run("git", "checkout", "--quiet", "HEAD~1")
    # Without `dvc checkout`, the files are still those of the newer commit.
    assert project.planned() == PERPLEXITY_JOBS
    project.run("dvc", "checkout")
    assert project.planned() == {}
    assert artifacts(project) == before
    assert project.reproduced() == []
    project.run("git", "checkout", "--quiet", "-")
    project.run("dvc", "checkout")
    assert agree(project)
    assert artifacts(project) == newer


def test_files_of_another_version_are_not_taken_for_current(project):
    """Newer by date, older by content: `dvc checkout` after Snakemake has read the new parameters.

    A plan by dates alone would call them current.
    """
    lock = (project.folder / "dvc.lock").read_text()
    project.edit(SEED, 5)
    project.snakemake()
    project.run("posenc", "record")
    after = artifacts(project)
    (project.folder / "dvc.lock").write_text(lock)
    project.run("dvc", "checkout", "--force")
    assert project.planned() == PERPLEXITY_JOBS
    project.snakemake()
    assert artifacts(project) == after


@pytest.mark.slow
def test_there_and_back_by_dvc(project):
    before = artifacts(project)
    project.edit(SEED, 5)
    assert project.reproduced() == PERPLEXITY_STAGES
    assert agree(project)
    project.edit(SEED, 0)
    assert project.reproduced() == []
    assert artifacts(project) == before
    assert agree(project)


@pytest.mark.slow
def test_there_by_snakemake_and_back_by_dvc(project):
    before = artifacts(project)
    project.edit(SEED, 5)
    project.snakemake()
    project.run("posenc", "record")
    assert agree(project)
    project.edit(SEED, 0)
    assert project.planned() == PERPLEXITY_JOBS, "Snakemake has no cache"
    assert project.reproduced() == [], "DVC has"
    assert artifacts(project) == before
    assert agree(project)


def edited_in_a_clone(project: Project, tmp_path) -> Project:
    """A clone that pulled the results, in which Snakemake ran after an edit."""
    remote, folder = tmp_path / "remote", tmp_path / "clone"
    project.run("dvc", "remote", "add", "--local", "--default", "here", str(remote))
    project.run("dvc", "push")
    project.run("git", "clone", "--quiet", str(project.folder), str(folder))
    clone = Project(folder)
    clone.run("dvc", "remote", "add", "--local", "--default", "here", str(remote))
    clone.run("dvc", "pull")
    assert artifacts(clone) == artifacts(project)
    clone.edit("conditions.zero.position", "intact")
    planned = clone.planned()
    reached = ("capture", "similarity", "perplexity", "evaluate", "conditions", "heads")
    assert planned == {
        **dict.fromkeys([*reached, "store", "typeset", "page", *SUPPLEMENT], 1),
        "figure": 2,
    }
    clone.snakemake()
    measured = "data/studies/default/measurements"
    assert kept(clone) == {
        "decoder/sample_reviews/intact",
        f"{measured}/perplexity/decoder/sample_reviews/intact.json",
        f"{measured}/heads/decoder/sample_reviews.json:intact",
    }
    return clone


def test_a_fresh_clone_pulls_and_computes_only_what_an_edit_reaches(project, tmp_path):
    assert edited_in_a_clone(project, tmp_path).planned() == {}


@pytest.mark.slow
def test_dvc_computes_as_little_from_the_same_start(project, tmp_path):
    clone = edited_in_a_clone(project, tmp_path)
    by_snakemake = artifacts(clone)
    shutil.rmtree(clone.folder / "data/kept")  # else nothing is computed at all
    clone.run("git", "checkout", "--quiet", "--", "params.yaml", "dvc.lock")
    clone.run("dvc", "checkout", "--force")
    assert agree(clone)
    clone.edit("conditions.zero.position", "intact")
    assert clone.reproduced() == [
        "activations", "evaluations", "measurements", "figures", "numbers",
        *(["paper"] * bool(SUPPLEMENT)), "page",
    ]  # fmt: skip
    assert "decoder/sample_reviews/intact" in kept(clone)
    assert artifacts(clone) == by_snakemake
    assert agree(clone)


@pytest.mark.slow
def test_an_edit_and_back_without_a_record(project):
    """What DVC restores is recognised by its bytes, even where Snakemake had made it."""
    before, params = artifacts(project), (project.folder / "params.yaml").read_bytes()
    project.edit(SEED, 5)
    project.snakemake()
    digests = artifacts(project)
    assert digests != before
    (project.folder / "params.yaml").write_bytes(params)
    project.run("dvc", "checkout", "--force")
    assert artifacts(project) == before
    assert agree(project)
    # Forward again, by hand: the edit's results are known too.
    project.edit(SEED, 5)
    assert project.planned() == PERPLEXITY_JOBS


@pytest.mark.slow
def test_experiments(project):
    before = artifacts(project)
    # Outside the workspace: nothing here changes.
    project.run("dvc", "exp", "run", "--temp", "--name", "apart", "-S", f"++{SEED}=5")
    assert artifacts(project) == before
    assert agree(project)
    # Queued, and started later.
    project.run("dvc", "exp", "run", "--queue", "--name", "queued", "-S", f"++{SEED}=6")
    project.run("dvc", "exp", "run", "--run-all")
    assert artifacts(project) == before
    # In the workspace.
    output = project.run("dvc", "exp", "run", "--name", "here", "-S", f"++{SEED}=7").stdout
    assert reproduced(output) == PERPLEXITY_STAGES
    assert agree(project)
    shown = json.loads(project.run("dvc", "exp", "show", "--json").stdout)
    seeds, bounds = set(), set()
    for experiment in experiments(shown):
        section = experiment["params"]["params.yaml"]["data"]["measurements"]["perplexity"]
        seeds.add(section.get("seed", 0))  # 0 where it is left out
        run = experiment["metrics"]["data/studies/default/metrics.json"]["data"]["decoder"]
        bounds.add(json.dumps(run, sort_keys=True))
    assert {0, 5, 6, 7} <= seeds


def experiments(shown: list) -> list[dict]:
    """The data of every commit and experiment that `dvc exp show --json` lists."""
    entries = []
    for row in shown:
        data = row.get("data")
        if data and "data/studies/default/metrics.json" in (data.get("metrics") or {}):
            entries.append(data)
        for experiment in row.get("experiments") or []:
            entries += experiments(experiment.get("revs") or [])
    return entries


@pytest.mark.slow
def test_an_edited_module(project):
    project.append("workflow/posenc/metrics/perplexity.py", "\n# edited\n")
    # Other measurements use the module too.
    assert project.planned() == {**PERPLEXITY_JOBS, "conditions": 1}
    # Numbers and figures stay the same, so no document is built.
    assert project.reproduced() == ["measurements", "figures", "numbers", "page"]
    assert agree(project)


@pytest.mark.slow
def test_a_removed_run_and_its_return(project):
    before = artifacts(project)
    project.edit("studies.default.conditions", ["intact"])
    project.snakemake()
    project.run("posenc", "record")
    gone = "data/studies/default/activations/decoder/sample_reviews/zero/index.parquet"
    assert gone not in artifacts(project)
    assert "decoder/sample_reviews/intact" in kept(project)
    assert agree(project)
    project.edit("studies.default.conditions", ["intact", "zero"])
    result = project.snakemake()
    assert "brought back" in result.stdout
    assert {"decoder/sample_reviews/intact", "decoder/sample_reviews/zero"} <= kept(project) or (
        "capture" not in ran(result.stdout)
    )
    project.run("posenc", "record")
    assert artifacts(project) == before
    assert agree(project)


@pytest.mark.slow
def test_a_removed_run_by_dvc(project):
    before = artifacts(project)
    project.edit("studies.default.conditions", ["intact"])
    project.run("dvc", "repro")
    gone = "data/studies/default/measurements/perplexity/decoder/sample_reviews/zero.json"
    assert gone not in artifacts(project)
    assert agree(project)
    project.edit("studies.default.conditions", ["intact", "zero"])
    assert project.reproduced() == [], "all of it is in the cache"
    assert artifacts(project) == before
    assert agree(project)


OTHER_STUDY = """\
  other:
    title: Other
    models: [decoder]
    captured: [decoder]
    pretrained: []
    finetuned: []
    trained: {decoder: sample_reviews}
    schemes: {}
    matrices: []
    labelled: sample_reviews
    corpora: []
    experiments: {superposition: digits}
    measurements: [heads]
    figures: [perplexity, training_loss, head_offsets]
    documents: [supplement]
    datasets: [sample_reviews]
    conditions: [intact]
    calibration: sample_reviews
    extrapolation: {tokens: 64, documents: 20, bucket: 16, conditions: [intact]}
"""


@pytest.mark.slow
def test_changing_the_study_and_back_computes_nothing(project):
    before = artifacts(project)
    raw = project.folder / "params.yaml"
    raw.write_text(raw.read_text().replace("studies:\n", "studies:\n" + OTHER_STUDY, 1))
    assert agree(project)
    project.run("posenc", "study", "other")
    project.snakemake()
    project.run("posenc", "record")
    assert agree(project)
    project.run("posenc", "study", "default")
    assert project.reproduced() == []
    assert {name: digest for name, digest in artifacts(project).items() if name in before} == before
    assert agree(project)
