"""Before a run: a study to begin with, what a run would stop at, and what it would do."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from ruamel.yaml import YAML

from posenc.artifacts.files import ArtifactError, replace_text, sha256_file, write_checksums
from posenc.frontends.forecast import Job, planned, spoken, table
from posenc.study import writing
from posenc.study.new import write_study
from posenc.study.params import ParamsError, load
from posenc.study.sources import problems
from posenc.study.switch import StudyError, activate
from posenc.study.writing import tried
from tests.copies import copy_params
from tests.parity.library import reference
from tests.unit.api_models import words

CHANGED = "Params have changed since last execution"
DRY_RUN = """\
Building DAG of jobs...
Job stats:
job        count
-------  -------
masks          1

[Tue Nov 24 02:24:53 2026]
rule masks:
    input: data/config/masks/m.json
    output: masks.json
    benchmark: logs/benchmarks/masks/m.tsv
    reason: Params have changed since last execution: data/config/m/code/posenc.steps.m.json changed
    resources: tmpdir=/tmp
[Tue Nov 24 02:24:53 2026]
rule evaluate:
    input: masks.json
    benchmark: logs/benchmarks/evaluate/m.tsv
    reason: Input files updated by another job: masks.json

[Tue Nov 24 02:24:53 2026]
rule evaluate:
    benchmark: logs/benchmarks/evaluate/n.tsv
    reason: Input files updated by another job: masks.json

[Tue Nov 24 02:24:53 2026]
localrule page:
    output: report/index.html
    reason: Missing output files: report/index.html

[Tue Nov 24 02:24:53 2026]
rule all:
    input: report/index.html
    reason: Input files updated by another job: report/index.html
Job stats:
job        count
Reasons:
    (check individual jobs above for details)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the shipped parameters."""
    (tmp_path / "project").mkdir()
    copy_params(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "notes.txt").write_text("One document.\nAnother one.\n")
    return tmp_path / "project"


def edited(project, change):
    """The active study after a change to what ``params.yaml`` holds."""
    path = project / "params.yaml"
    raw = YAML(typ="safe").load(path.read_text())
    change(raw)
    yaml = YAML(typ="safe")
    yaml.default_flow_style = False
    with path.open("w") as file:
        yaml.dump(raw, file)
    return load(path)


def test_a_plan_is_read_as_snakemake_prints_it():
    jobs = list(planned(DRY_RUN))
    assert [(job.rule, job.why) for job in jobs] == [
        ("masks", "its code changed"),
        ("evaluate", "what it reads is made again"),
        ("evaluate", "what it reads is made again"),
        ("page", "not made yet"),
    ]
    assert list(planned("Nothing to be done (all requested files are present).")) == []


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (f"{CHANGED}: data/config/masks/m.json changed", "its parameters changed"),
        (f"{CHANGED}: data/config/masks/code/posenc.steps.masks.json changed", "its code changed"),
        (f"{CHANGED}: data/raw/mine/raw changed", "data/raw/mine/raw changed"),
        (f"{CHANGED}: numpy 99.0 in place of 2.4.6", "numpy 99.0 in place of 2.4.6"),
        (f"{CHANGED}: its command changed", "its command changed"),
        (f"{CHANGED}: it has no receipt", "it has no receipt"),
        (f"{CHANGED}: masks.json is not what was made", "masks.json is not what was made"),
        ("Forced execution", "asked for"),
        (
            "Software environment definition has changed",
            "software environment definition has changed",
        ),
    ],
)
def test_why_a_job_is_due(reason, why):
    assert Job("masks", reason=reason).why == why


def test_times_are_of_the_last_run_and_what_has_none_is_counted(tmp_path):
    for name, seconds in (("masks/m", 100), ("evaluate/m", 20)):
        path = tmp_path / f"logs/benchmarks/{name}.tsv"
        path.parent.mkdir(parents=True)
        path.write_text(f"s\th:m:s\n3\t0:00:03\n{seconds}\t0:00:00\n")
    lines = table(list(planned(DRY_RUN)), tmp_path)
    assert [line.split(maxsplit=2)[:2] for line in lines[1:4]] == [
        ["masks", "1"],
        ["evaluate", "2"],
        ["page", "1"],
    ]
    assert "2 min" in lines[1] and "20 s +" in lines[2] and "?" in lines[3]
    assert lines[-1] == (
        "4 jobs, 2 min of one processor when they last ran here; 2 have not run here"
    )
    assert [spoken(seconds) for seconds in (0.2, 59, 61, 7200)] == ["1 s", "59 s", "1 min", "2.0 h"]


def test_a_new_study_is_valid_and_leaves_the_rest_alone(project):
    before = (project / "params.yaml").read_text()
    old = load(project / "params.yaml")
    write_study(project / "params.yaml", "mine", "minilm", project.parent / "notes.txt")
    after = (project / "params.yaml").read_text()
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    activate(project / "params.yaml", "mine")
    params = load(project / "params.yaml")
    assert params.study.name == "mine" and params.study.datasets == ["mine"]
    assert {**params.studies, "mine": None} == {**old.studies, "mine": None}
    assert list(problems(params)) == []


def test_a_new_study_without_a_text_reads_the_first_data_set(project):
    write_study(project / "params.yaml", "mine", "minilm", None)
    study = load(project / "params.yaml").studies["mine"]
    assert study.datasets == [next(iter(load(project / "params.yaml").datasets))]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("default", "minilm", None), "there is a study 'default' already"),
        (("imdb_local", "minilm", "notes.txt"), "there is a data set 'imdb_local' already"),
        (("mine", "minilmm", None), "no model 'minilmm'; did you mean 'minilm'"),
        (("mine", "decoder", None), "'decoder' is trained here"),
        (("mine", "minilm", "absent.txt"), "no file .*absent.txt"),
        (("my study", "minilm", None), "a study cannot be called 'my study': take lower-case"),
        (("1", "minilm", "notes.txt"), "a study cannot be called '1'"),
    ],
)
def test_a_study_that_cannot_be_written_changes_nothing(project, given, message):
    before = (project / "params.yaml").read_bytes()
    name, model, text = given
    with pytest.raises(StudyError, match=message):
        write_study(project / "params.yaml", name, model, text and project.parent / text)
    assert (project / "params.yaml").read_bytes() == before
    assert not (project / "studies/mine.yaml").exists()


def test_a_name_that_no_study_can_have_changes_nothing(project):
    before = (project / "params.yaml").read_bytes()
    with pytest.raises(ParamsError, match=rf"^{project}/studies/long\.yaml:.*'long' names a file"):
        write_study(project / "params.yaml", "long", "minilm", project.parent / "notes.txt")
    assert (project / "params.yaml").read_bytes() == before


def test_a_text_that_is_not_there_or_another_one_is_named_before_a_run(project):
    text = project.parent / "notes.txt"
    write_study(project / "params.yaml", "mine", "minilm", text)
    activate(project / "params.yaml", "mine")
    text.write_text("Another text.\n")
    (line,) = problems(load(project / "params.yaml"))
    assert "datasets.mine.source.sha256" in line and sha256_file(text) in line
    text.unlink()
    (line,) = problems(load(project / "params.yaml"))
    assert "no such file" in line and "datasets.mine.source.path" in line


def test_what_was_fetched_is_not_looked_for_again(project):
    """A disk or a share that a text came from may be gone."""
    text = project.parent / "notes.txt"
    write_study(project / "params.yaml", "mine", "minilm", text)
    activate(project / "params.yaml", "mine")
    params = load(project / "params.yaml")
    copy = project / "data/raw/mine/raw"
    copy.parent.mkdir(parents=True)
    shutil.move(text, copy)
    source = params.datasets["mine"].source.model_dump()
    write_checksums(copy.with_name(f"{copy.name}.json"), copy.name, source=source)
    assert list(problems(params)) == []
    # Where it is there but differs, it is not what the study says.
    text.write_text("Another text.\nOf two lines.\n")
    assert "sha256" in "".join(problems(params))


def test_a_folder_of_weights_is_looked_at_before_a_run(project):
    folder = project.parent / "weights"
    source = {"kind": "path", "path": str(folder), "sha256": "0" * 64, "files": {}}

    def change(raw):
        write = {"models": ["own"], "pretrained": ["own"], "captured": ["own"]}
        raw["models"]["own"] = {"family": "gpt2", "max_tokens": 41, "source": source}
        raw["study"] = "mine"
        study = {"datasets": ["sample_reviews"], "conditions": ["intact"], "measurements": []}
        raw["studies"] = {"mine": {**write, **study}}

    (line,) = problems(edited(project, change))
    assert line.startswith("models.own: source.path is") and "no such folder" in line
    model = reference("gpt2")
    model.save_pretrained(folder)
    (line,) = problems(load(project / "params.yaml"))
    assert line.startswith("models.own.source.sha256")

    def right(raw):
        words(True).save(str(folder / "tokenizer.json"))
        source["sha256"] = sha256_file(folder / "model.safetensors")
        names = ("config.json", "tokenizer.json")
        source["files"] = {name: sha256_file(folder / name) for name in names}
        raw["models"]["own"]["source"] = source

    available = json.loads((folder / "config.json").read_text())["n_positions"]

    def longer(raw):
        raw["models"]["own"]["max_tokens"] = available + 1

    edited(project, right)
    (line,) = problems(edited(project, longer))
    assert line == (
        f"models.own.max_tokens is {available + 1}, but the model has only {available} positions"
    )
    assert (
        list(problems(edited(project, lambda raw: raw["models"]["own"].update(max_tokens=4)))) == []
    )


def test_a_table_is_looked_at_before_a_run(project):
    table = project / "table.npy"
    np.save(table, np.zeros((20, 4), np.float32))

    def change(raw):
        raw["matrices"]["mine"] = {
            "kind": "path", "path": "table.npy", "sha256": "0" * 64, "first_row": 0,
        }  # fmt: skip
        raw["study"] = "default"
        raw["studies"] = {"default": {"matrices": ["mine"]}}

    lines = list(problems(edited(project, change)))
    assert any(line.startswith("matrices.mine.sha256: table.npy") for line in lines)


def test_parameters_that_a_person_saves_meanwhile_stay_as_they_were_saved(project, monkeypatch):
    path = project / "params.yaml"
    saved = path.read_text() + "# saved in an editor\n"

    def save_and_replace(*given) -> None:
        path.write_text(saved)
        replace_text(*given)

    monkeypatch.setattr(writing, "replace_text", save_and_replace)
    with pytest.raises(ArtifactError, match=r"params\.yaml changed meanwhile: run this again"):
        activate(path, "real")
    assert path.read_text() == saved
    assert set(project.iterdir()) == {path, project / "studies"}, "nothing unfinished is left"
    monkeypatch.undo()
    monkeypatch.chdir(project)
    activate(path, "real")
    assert path.read_text() != saved and "# saved in an editor" in path.read_text()


def test_a_study_that_a_person_saves_meanwhile_stays_as_it_was_saved(project, monkeypatch):
    file = project / "studies/mine.yaml"

    def try_and_save(*given):
        params = tried(*given)
        file.write_text("# saved in an editor\n")
        return params

    monkeypatch.setattr(writing, "tried", try_and_save)
    with pytest.raises(ArtifactError, match=r"studies/mine\.yaml changed meanwhile"):
        write_study(project / "params.yaml", "mine", "minilm", None)
    assert file.read_text() == "# saved in an editor\n"
