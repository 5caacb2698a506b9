"""A job runs what was planned or ends with one line; its receipt says what it read and made."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.artifacts import holder, kept, receipts
from posenc.artifacts.receipts import Receipt
from tests.budget import PATIENCE, wait_for

from .synthetic import PROJECT

STEP = '''"""A step of the tests: it writes a text once more, in other letters."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Annotated

import regex
import typer

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError, read_json, write_text
from posenc.steps import extra_part

TEMPLATE = "extra_words.txt"


def main(
    config: Annotated[Path, typer.Option()],
    source: Annotated[Path, typer.Option()],
    output: Annotated[Path, typer.Option()],
    threads: Annotated[int, typer.Option()] = 1,
) -> None:
    with open("runs", "a") as file:
        file.write("x")
    job, text = read_json(config), regex.sub("x", "y", source.read_text())
    if job.get("waits"):
        Path("started").touch()
        while not Path("go").exists():
            time.sleep(0.02)
    if job.get("parts"):
        part = output.with_name("part.txt")
        with open("parts", "a") as file:
            file.write("kept " if part.exists() else "made ")
        write_text(part, "part")
    while job.get("waits_then"):
        time.sleep(0.02)
    if job.get("fails"):
        raise SystemExit(job["fails"])
    if job.get("refuses"):
        raise ArtifactError("the source is not what it should be")
    if job.get("imports"):
        importlib.import_module(job["imports"])
    words = Path(__file__).with_name(TEMPLATE).read_text()
    write_text(output, extra_part.written(words, text))


if __name__ == "__main__":
    run(main)
'''
PART = '''"""What the step of the tests is made of."""


def written(words: str, text: str) -> str:
    return words.strip() + text.upper()
'''
MODULE, PHASE = "posenc.steps.extra", Path("data/config/extra")
CODE, CONFIG = PHASE / f"code/{MODULE}.json", PHASE / "extra.json"
SOURCE, OUTPUT = Path("data/source.txt"), Path("data/studies/mine/made/out.txt")
RECEIPT = Path("data/studies/mine/receipts/extra/out.json")
STEPS = Path("workflow/posenc/steps")


@pytest.fixture(scope="module")
def planned(tmp_path_factory) -> Path:
    """A copy of the code with a further step, planned as the front ends plan it."""
    root = tmp_path_factory.mktemp("planned")
    unwanted = shutil.ignore_patterns("__pycache__", "rules", "schemas", "captions")
    shutil.copytree(PROJECT / "workflow", root / "workflow", ignore=unwanted)
    for name, text in {"extra.py": STEP, "extra_part.py": PART, "extra_words.txt": "So: "}.items():
        (root / STEPS / name).write_text(text)
    program = (
        "import json; from posenc.artifacts import imports;"
        f"print(json.dumps(imports.described({MODULE!r})))"
    )
    environment = {**os.environ, "PYTHONPATH": str(root / "workflow")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    (root / CODE).parent.mkdir(parents=True)
    (root / CODE).write_text(done.stdout)
    (root / CONFIG).write_text("{}")
    (root / SOURCE).write_text("word x")
    return root


class Project:
    """A copy of the planned code, in which the step runs as a job."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inputs = [str(CODE), str(CONFIG), str(SOURCE)]

    def start(self, threads: int = 1, *more: str) -> subprocess.Popen:
        """Start the job as a rule does."""
        options = ["--rule", "extra", "--inputs", *self.inputs, "--outputs", OUTPUT, RECEIPT]
        options += ["--receipt", RECEIPT, *more]
        step = ["--config", CONFIG, "--source", SOURCE, "--output", OUTPUT]
        command = [*options, "--", MODULE, *step, "--threads", str(threads)]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.Popen(
            [sys.executable, "workflow/job.py", *command], cwd=self.root, env=environment,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, threads: int = 1, *more: str) -> tuple[int, str]:
        """Its exit code, and what it says."""
        job = self.start(threads, *more)
        said = "".join(job.communicate(timeout=PATIENCE))
        return job.returncode, said

    def configure(self, **job) -> None:
        (self.root / CONFIG).write_text(json.dumps(job))

    def run_with(self, edit, **job_options) -> tuple[int, str]:
        """The same, with an edit while the step is at work."""
        self.configure(waits=True, **job_options)
        job = self.start()
        wait_for(lambda: (self.root / "started").exists() or job.poll() is not None)
        assert job.poll() is None
        edit()
        (self.root / "go").touch()
        said = "".join(job.communicate(timeout=PATIENCE))
        return job.returncode, said

    def receipt(self) -> Receipt | None:
        return receipts.read(self.root / RECEIPT)

    def runs(self) -> int:
        """How often the step has begun to compute."""
        path = self.root / "runs"
        return len(path.read_text()) if path.exists() else 0

    def digests(self, *paths: Path | str) -> dict[str, str]:
        read = {str(path): (self.root / path).read_bytes() for path in paths}
        return {path: hashlib.sha256(content).hexdigest() for path, content in read.items()}

    def refused(self, result: tuple[int, str], *words: str) -> None:
        """It ended with one line, and left neither receipt nor kept result."""
        code, said = result
        assert code == 1, said
        lines = said.splitlines()
        assert len(lines) == 1 and lines[0].startswith("error: "), said
        for word in words:
            assert word in lines[0]
        assert self.receipt() is None
        assert not (self.root / kept.PLACE / RECEIPT).exists()


@pytest.fixture
def project(planned, tmp_path) -> Project:
    shutil.copytree(planned, tmp_path / "project")
    return Project(tmp_path / "project")


def test_the_receipt_says_what_was_read_made_and_run(project):
    code, said = project.run(threads=2)
    assert code == 0, said
    assert (project.root / OUTPUT).read_text() == "So:WORD Y"
    receipt = project.receipt()
    assert receipt is not None and receipt.rule == "extra"
    assert receipt.command == f"{MODULE} --config {CONFIG} --source {SOURCE} --output {OUTPUT}"
    assert receipt.inputs == project.digests(CODE, CONFIG, SOURCE)
    assert receipt.outputs == project.digests(OUTPUT)
    assert receipt.versions == {"regex": importlib.metadata.version("regex")}


def test_the_plan_names_all_that_the_job_runs(project):
    plan = json.loads((project.root / CODE).read_text())["files"]
    files = [f"{STEPS}/{name}" for name in ("__init__.py", "extra.py", "extra_part.py")]
    files += [f"{STEPS}/extra_words.txt", "workflow/job.py", "workflow/posenc/__init__.py"]
    assert project.digests(*files).items() <= plan.items()


def test_a_folder_of_further_outputs_is_a_part_of_the_receipt(project):
    beside = project.root / "data/studies/mine/plots/layers"
    beside.mkdir(parents=True)
    (beside / "one.csv").write_text("1")
    (beside / "two.csv").write_text("2")
    code, said = project.run(1, "--folders", "data/studies/mine/plots/layers")
    assert code == 0, said
    paths = [f"data/studies/mine/plots/layers/{name}.csv" for name in ("one", "two")]
    receipt = project.receipt()
    assert receipt is not None and receipt.outputs == project.digests(OUTPUT, *paths)


def test_a_result_that_only_lives_until_it_is_read_has_no_receipt(project):
    command = [sys.executable, "workflow/job.py", "--rule", "extra", "--inputs", *project.inputs]
    command += ["--outputs", OUTPUT, "--", MODULE, "--config", CONFIG, "--source", SOURCE]
    subprocess.run([*command, "--output", OUTPUT], cwd=project.root, check=True)
    assert (project.root / OUTPUT).exists() and not (project.root / RECEIPT).exists()
    assert not (project.root / kept.PLACE).exists()


# --- What was edited ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["extra.py", "extra_part.py", "__init__.py"])
def test_a_module_that_was_edited_after_planning_is_not_run(project, name):
    path = project.root / STEPS / name
    path.write_text(f"{path.read_text()}\n# edited\n")
    project.refused(project.run(), f"{STEPS}/{name} was edited after this run was planned")
    assert project.runs() == 0 and not (project.root / OUTPUT).exists()


def test_dates_and_caches_do_not_hide_an_edit(project):
    """Python takes a compiled module for current by its date and size."""
    assert project.run()[0] == 0
    path = project.root / STEPS / "extra_part.py"
    before = path.stat()
    path.write_text(PART.replace("upper", "lower"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for output in (RECEIPT, OUTPUT, kept.PLACE / RECEIPT):
        (project.root / output).unlink()
    project.refused(project.run(), "extra_part.py was edited after")
    assert not (project.root / OUTPUT).exists()


def test_a_runner_that_was_edited_after_planning_does_not_run(project):
    path = project.root / "workflow/job.py"
    path.write_text(f"{path.read_text()}\n# edited\n")
    project.refused(project.run(), "workflow/job.py was edited after this run was planned")


def test_a_module_that_the_plan_lacks_is_not_run(project):
    """Such as one imported by a name that only the step knows."""
    other = "workflow/posenc/metrics/rotation.py"
    assert other not in json.loads((project.root / CODE).read_text())["files"]
    (project.root / other).write_text("VALUE = 1\n")
    project.configure(imports="posenc.metrics.rotation")
    project.refused(project.run(), "is not in the list of this step's code")
    assert not (project.root / OUTPUT).exists()


def test_a_template_that_was_edited_after_planning_is_not_used(project):
    (project.root / STEPS / "extra_words.txt").write_text("Thus: ")
    project.refused(project.run(), f"{STEPS}/extra_words.txt was edited after this run was planned")
    assert not (project.root / OUTPUT).exists()


def test_a_template_that_is_edited_while_the_job_runs_is_not_used(project):
    def edit() -> None:
        (project.root / STEPS / "extra_words.txt").write_text("Thus: ")

    project.refused(project.run_with(edit), "extra_words.txt was edited after")
    assert not (project.root / OUTPUT).exists()


def test_a_package_of_another_version_than_planned_computes_nothing(project):
    path = project.root / CODE
    plan = json.loads(path.read_text())
    here, plan["versions"]["regex"] = plan["versions"]["regex"], "99.0"
    path.write_text(json.dumps(plan))
    project.refused(project.run(), "regex 99.0 was planned with", f"but {here} is installed")
    assert project.runs() == 0


# --- What moved --------------------------------------------------------------------------------


def saved(project: Project) -> None:
    (project.root / SOURCE).write_text("word x, and more")


def saved_and_undone(project: Project) -> None:
    saved(project)
    (project.root / SOURCE).write_text("word x")


def replaced_by_an_older_file(project: Project) -> None:
    """Like a restored backup, which keeps its old date."""
    other = project.root / "other"
    other.write_text("WORD X")
    os.utime(other, (1e9, 1e9))
    other.replace(project.root / SOURCE)


def written_under_the_same_date(project: Project) -> None:
    path = project.root / SOURCE
    before = path.stat()
    path.write_text("WORD X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def undone_under_the_same_date(project: Project) -> None:
    written_under_the_same_date(project)
    path = project.root / SOURCE
    before = path.stat()
    with path.open("r+") as file:
        file.write("word x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def removed(project: Project) -> None:
    (project.root / SOURCE).unlink()


@pytest.mark.parametrize(
    "how",
    [
        saved,
        saved_and_undone,
        replaced_by_an_older_file,
        written_under_the_same_date,
        undone_under_the_same_date,
        removed,
    ],
    ids=lambda how: how.__name__,
)
def test_an_input_that_moves_while_the_job_runs_costs_the_result(project, how):
    result = project.run_with(lambda: how(project))
    project.refused(result, f"{SOURCE} was changed while extra was at work", "start again")


def test_what_a_discarded_job_had_finished_goes_too(project):
    """It says that it was made of what was there at the start, which may not be so."""
    whole = project.root / "data/studies/mine/made/earlier.txt"
    whole.parent.mkdir(parents=True)
    whole.write_text("of an earlier job")
    with holder.holding(project.root, "snakemake"):
        result = project.run_with(lambda: saved_and_undone(project), parts=True)
    project.refused(result, f"{SOURCE} was changed while extra was at work")
    assert (project.root / "parts").read_text() == "made "
    assert [path.name for path in whole.parent.iterdir()] == [whole.name]
    assert not list((project.root / kept.PARTS).rglob("*.txt"))


def test_a_job_whose_front_end_was_killed_removes_nothing(project):
    """DVC may have put its own results in place of the job's since."""
    result = project.run_with(lambda: saved_and_undone(project))
    project.refused(result, f"{SOURCE} was changed while extra was at work")
    assert (project.root / OUTPUT).exists()


def test_parameters_that_are_written_anew_while_the_job_runs_cost_the_result(project):
    result = project.run_with(lambda: project.configure(waits=True, more=1))
    project.refused(result, f"{CONFIG} was changed while extra was at work")


@pytest.mark.parametrize("how", ["another name", "other rights"])
def test_what_leaves_an_input_s_bytes_alone_costs_nothing(project, how):
    """DVC links files and removes write permission, which changes their status date."""
    path = project.root / SOURCE

    def touch() -> None:
        os.link(path, project.root / "linked") if how == "another name" else path.chmod(0o444)

    before = path.stat().st_ctime_ns
    code, said = project.run_with(touch)
    assert code == 0, said
    assert path.stat().st_ctime_ns != before
    receipt = project.receipt()
    assert receipt is not None and receipt.inputs == project.digests(CODE, CONFIG, SOURCE)


def test_an_input_that_is_not_there_is_named(project):
    (project.root / SOURCE).unlink()
    project.refused(project.run(), f"{SOURCE} was removed while it was being read")
    assert project.runs() == 0


# --- How it ends -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [3, 130, 143])
def test_the_exit_code_of_a_step_that_fails_is_the_job_s(project, code):
    project.configure(fails=code)
    assert project.run()[0] == code
    assert project.receipt() is None and not (project.root / kept.PLACE / RECEIPT).exists()


def test_what_a_step_refuses_is_one_line(project):
    project.configure(refuses=True)
    project.refused(project.run(), "the source is not what it should be")


def test_a_step_that_fails_leaves_the_last_receipt_as_it_was(project):
    """It says what was made then; by what is there now, it is not current."""
    assert project.run()[0] == 0
    before = (project.root / RECEIPT).read_bytes()
    project.configure(fails=3)
    assert project.run()[0] == 3
    assert (project.root / RECEIPT).read_bytes() == before


# --- What was kept -----------------------------------------------------------------------------


def test_a_result_that_was_kept_is_put_back_and_not_computed_again(project):
    assert project.run()[0] == 0
    contents = {path: (project.root / path).read_bytes() for path in (OUTPUT, RECEIPT)}
    for path in contents:
        (project.root / path).unlink()
    code, said = project.run(threads=2)
    assert code == 0 and "extra: kept, what it would be made of is the same" in said
    assert project.runs() == 1
    assert {path: (project.root / path).read_bytes() for path in contents} == contents


@pytest.mark.parametrize("cut", ["fails", "is killed"])
def test_what_a_job_had_finished_comes_back_where_dvc_has_emptied_its_folder(project, cut):
    part = project.root / OUTPUT.with_name("part.txt")
    more = ("--outputs", OUTPUT, RECEIPT, OUTPUT.with_name("part.txt"))
    if cut == "fails":
        project.configure(parts=True, fails=3)
        assert project.run(1, *more)[0] == 3
    else:
        project.configure(parts=True, waits_then=True)
        job = project.start(1, *more)
        parts = project.root / kept.PARTS
        wait_for(lambda: any(parts.rglob(part.name)) or job.poll() is not None)
        job.kill()
        job.communicate(timeout=PATIENCE)
    assert part.read_text() == "part"
    shutil.rmtree(part.parent)
    project.configure(parts=True)
    assert project.run(1, *more)[0] == 0
    assert (project.root / "parts").read_text() == "made kept "
    shutil.rmtree(part.parent)
    (project.root / SOURCE).write_text("other")
    assert project.run(1, *more)[0] == 0
    assert (project.root / "parts").read_text() == "made kept made ", "a finished job has no parts"


def test_what_a_job_had_finished_is_forgotten_once_its_last_result_is_the_right_one(project):
    assert project.run()[0] == 0
    project.configure(parts=True, fails=3)
    more = ("--outputs", OUTPUT, RECEIPT, OUTPUT.with_name("part.txt"))
    assert project.run(1, *more)[0] == 3
    assert any((project.root / kept.PARTS).iterdir())
    project.configure()
    assert "kept" in project.run()[1]
    assert not any((project.root / kept.PARTS).iterdir())


def test_of_what_a_job_had_finished_only_its_outputs_come_back(project):
    project.configure(parts=True, fails=3)
    assert project.run()[0] == 3
    shutil.rmtree((project.root / OUTPUT).parent)
    project.configure(parts=True)
    assert project.run()[0] == 0
    assert (project.root / "parts").read_text() == "made made "


@pytest.mark.parametrize("what", ["source", "parameters", "kept bytes"])
def test_a_result_of_something_else_is_computed_again(project, what):
    assert project.run()[0] == 0
    first = (project.root / OUTPUT).read_text()
    if what == "source":
        (project.root / SOURCE).write_text("other")
    elif what == "parameters":
        project.configure(more=1)
    else:
        (project.root / OUTPUT).chmod(0o644)
        with (project.root / OUTPUT).open("r+") as file:  # under both names
            file.write("S0")
    (project.root / OUTPUT).unlink()
    code, said = project.run()
    assert code == 0 and "kept" not in said
    assert project.runs() == 2
    assert (project.root / OUTPUT).read_text() == ("So:OTHER" if what == "source" else first)
