"""A study's entries in dvc.lock are written beside those of others, or the file is left as is."""

from __future__ import annotations

import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from posenc.artifacts.files import replace_text
from posenc.frontends import recording
from posenc.frontends.recording import LOCK, RecordError, record, unrecorded
from posenc.study import plan
from posenc.study.config_files import is_edited, materialize
from posenc.study.new import write_study
from posenc.study.params import ParamsError, load
from posenc.study.phases import PHASES
from posenc.study.switch import activate
from tests.copies import copy_params

from .synthetic import PROJECT

STAGES = ("check", *PHASES)
WRITTEN = ("paper", "docs/mask-versions.json", "workflow/posenc/__init__.py", "workflow/rules")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A project under DVC with a small study, none of it recorded yet."""
    root = tmp_path_factory.mktemp("made")
    copy_params(root)
    for name in ("dvc.yaml", *WRITTEN):
        source, target = PROJECT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("build", "*.pdf"))
        else:
            shutil.copy(source, target)
    write_study(root / "params.yaml", "mine", "minilm", None)
    activate(root / "params.yaml", "mine")
    Repo.init(str(root), no_scm=True).close()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        params = load(Path("params.yaml"))
        materialize(params)
        plan.make_folders(params)
        own = plan.folder(params)
        for name in ("numbers.json", "metrics.json", "index.html", "pdf/paper.pdf"):
            (own / name).parent.mkdir(parents=True, exist_ok=True)
            (own / name).write_text("{}")
        (own / "plots/perplexity.csv").write_text("perplexity,run\n1,a\n")
    return root


@pytest.fixture
def project(made, tmp_path, monkeypatch) -> Path:
    """A copy in which LaTeX counts as installed."""
    shutil.copytree(made, tmp_path / "project", symlinks=True)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def commit(*command: str) -> CompletedProcess:
    """DVC itself, in this process."""
    assert command[:3] == ("dvc", "commit", "--force")
    with Repo() as repo:
        for target in command[3:]:
            repo.commit(target, force=True)
    return CompletedProcess(command, 0, "", "")


def is_current() -> bool:
    """By what jobs would read, as the plan has it; what is made is not looked at here."""
    try:
        return not is_edited(now())
    except ParamsError:
        return False


def entries() -> dict:
    return YAML(typ="safe").load(LOCK.read_text())["stages"]


def write_lock(*names: str) -> bytes:
    lines = "".join(f"  {name}:\n    cmd: posenc stage\n" for name in names)
    LOCK.write_text(f"schema: '2.0'\nstages:\n{lines}")
    return LOCK.read_bytes()


def now():
    return load(Path("params.yaml"))


def test_entries_of_other_studies_stay_and_those_of_no_study_are_dropped(project):
    kept = ["figures@default", "check@local", "page@real"]
    retired = ["figures@gone", "measure@mine", "superposition", "figure@spectra"]
    write_lock(*kept, *retired)
    before = entries()
    assert record(now(), commit, is_current) == retired
    after = entries()
    assert set(after) == {*kept, *(f"{stage}@mine" for stage in STAGES)}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    # Correct entries stay.
    written = LOCK.stat().st_mtime_ns
    assert recording._drop_retired(now()) == [] and LOCK.stat().st_mtime_ns == written


def test_without_latex_the_documents_that_were_recorded_stay(project):
    write_lock("paper@mine")
    before = entries()["paper@mine"]
    assert record(now(), commit, is_current, has_documents=False) == []
    assert entries()["paper@mine"] == before
    assert set(entries()) == {f"{stage}@mine" for stage in STAGES}


def test_a_stage_that_the_user_added_to_dvc_yaml_is_left_alone(project):
    text = Path("dvc.yaml").read_text()
    own = "stages:\n  mine:\n    cmd: make mine\n    outs: [never-made.txt]\n"
    Path("dvc.yaml").write_text(text.replace("stages:\n", own, 1))
    assert record(now(), commit, is_current) == []
    assert set(entries()) == {f"{stage}@mine" for stage in STAGES}


def save_parameters() -> None:
    text = Path("params.yaml").read_text()
    replace_text("params.yaml", text, f"{text}\nactivations: {{dtype: float32}}\n")


def save_a_comment() -> None:
    """No job reads it, but it changes the bytes that were judged."""
    with open("params.yaml", "a") as file:
        file.write("# more\n")


def save_text() -> None:
    with open("paper/published.yaml", "a") as file:
        file.write("# more\n")


def save_earlier_text() -> None:
    path = Path("paper/paper.tex")
    path.write_text(path.read_text() + "% more\n")


@pytest.mark.parametrize(
    ("save", "is_first"),
    [(save_parameters, True), (save_a_comment, False), (save_text, False),
     (save_earlier_text, False)],
    ids=["parameters", "a comment", "a text", "the paper"],
)  # fmt: skip
def test_what_is_saved_while_dvc_records_leaves_the_lock_file_as_it_was(project, save, is_first):
    before = None if is_first else write_lock("figures@default", "figures@gone")
    params = now()

    def commit_and_save(*command: str) -> CompletedProcess:
        done = commit(*command)
        save()
        return done

    with pytest.raises(RecordError, match="edited meanwhile: run `snakemake`, then record"):
        record(params, commit_and_save, is_current)
    assert (LOCK.read_bytes() if LOCK.exists() else None) == before


def test_parameters_that_are_saved_half_written_leave_the_lock_file_as_it_was(project):
    before, params = write_lock("figures@default"), now()

    def commit_and_save(*command: str) -> CompletedProcess:
        done = commit(*command)
        Path("params.yaml").write_text("study: [")
        return done

    with pytest.raises((RecordError, ParamsError)):
        record(params, commit_and_save, is_current)
    assert LOCK.read_bytes() == before


def test_what_is_not_current_is_not_recorded(project):
    before, asked = write_lock("figures@default"), []

    def commit_once(*command: str) -> CompletedProcess:
        asked.append(command)
        return commit(*command)

    with pytest.raises(RecordError, match="not complete or not current: run `snakemake` first"):
        record(now(), commit_once, lambda: False)
    assert asked == [] and LOCK.read_bytes() == before


@pytest.mark.parametrize("is_first", [True, False], ids=["the first record", "a later one"])
def test_where_dvc_fails_the_lock_file_is_as_it_was(project, is_first):
    before = None if is_first else write_lock("figures@default", "figures@gone")

    def fail(*command: str) -> CompletedProcess:
        write_lock("half")
        return CompletedProcess(command, 1, "", "ERROR: the disk is full\n")

    with pytest.raises(RecordError, match=r"^ERROR: the disk is full$"):
        record(now(), fail, is_current)
    assert (LOCK.read_bytes() if LOCK.exists() else None) == before


def test_each_stage_is_recorded_and_what_is_not_is_said_phase_by_phase(project):
    said = "not recorded: {} of study 'mine'; `posenc record` records it"
    assert list(unrecorded("mine")) == [said.format(name) for name in sorted(PHASES)]
    assert record(now(), commit, is_current) == []
    assert set(entries()) == {f"{stage}@mine" for stage in STAGES}
    recorded = entries()["figures@mine"]
    assert recorded["cmd"] == "posenc stage figures"
    outs = {out["path"] for out in recorded["outs"]}
    assert outs == {f"data/studies/mine/{name}" for name in ("figures", "receipts/figures")}
    assert list(unrecorded("mine")) == []
    (project / "data/studies/mine/index.html").write_text("another")
    assert list(unrecorded("mine")) == [said.format("page")]
    assert list(unrecorded("other")) == []


def test_a_folder_without_dvc_says_that_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (line,) = unrecorded("mine")
    assert line.startswith("DVC cannot say what is recorded: ")
