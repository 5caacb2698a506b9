"""The next run finds, reports and repairs what a killed one leaves behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import psutil
import pytest

from posenc.frontends.recovery import JOB, end_orphans
from tests.budget import quick, wait_for
from tests.faults.kills import (
    SNAKEMAKE,
    STUDY,
    TRAINING,
    jobs_of,
    remove,
    start,
    strays,
)
from tests.workflow.test_front_ends import artifacts, edited

FORCED_TRAINING = ("dvc", "repro", "--single-item", "--force", "models@default")
TRAIN = "posenc.steps.train"


@pytest.mark.parametrize(
    "front_end", quick(SNAKEMAKE, of=[SNAKEMAKE, FORCED_TRAINING]), ids=["snakemake", "dvc"]
)
def test_a_killed_run_is_repaired_by_the_next(core, front_end):
    before = artifacts(core)
    remove(core, TRAINING.paths)
    run = start(core, *front_end)
    wait_for(lambda: jobs_of(core, TRAIN))
    # Held there, so that it does not end by itself before the next run looks for it.
    for process in jobs_of(core, TRAIN):
        process.suspend()
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert jobs_of(core), "the job goes on without its front end"
    result = core.snakemake()
    assert "that a killed run had left running" in result.stdout
    assert "removed the lock" in result.stdout
    assert artifacts(core) == before
    assert not jobs_of(core)


@pytest.mark.parametrize("room", ["steps", "measurements", "experiments", "figures"])
def test_jobs_of_every_room_end_with_their_run(tmp_path, room):
    command = [sys.executable, "-c", "import time; time.sleep(600)", JOB, f"posenc.{room}.module"]
    with subprocess.Popen(command, cwd=tmp_path) as job:
        said = []
        wait_for(lambda: psutil.Process(job.pid).cmdline()[-1:] == command[-1:])
        end_orphans(tmp_path, said.append)
        assert not psutil.pid_exists(job.pid)
    assert said == ["ended 1 processes that a killed run had left running"]


def test_a_run_that_is_alive_keeps_its_lock_its_jobs_and_its_files(core):
    before = artifacts(core)
    remove(core, TRAINING.paths)
    kept = artifacts(core)
    run = start(core, *SNAKEMAKE)
    wait_for(lambda: jobs_of(core, TRAIN))
    # Held there, so that no job writes a file at the moment another run looks at it.
    held = jobs_of(core, TRAIN)
    for process in held:
        process.suspend()
    writing = core.folder / STUDY / "measurements/.zero.json.abc.unfinished"
    writing.touch()
    second = core.snakemake(check=False)
    assert second.returncode == 1
    assert "is running here" in second.stdout
    assert "killed" not in second.stdout
    core.snakemake("--dry-run")  # is answered meanwhile
    # Later jobs read what was written for this run: an edit waits.
    with edited(core, "measurements.perplexity.seed", 5):
        assert core.planned()["perplexity"] == 1
    for command in (["repro", "--force"], ["checkout"], ["exp", "run"]):
        refused = core.run("dvc", *command, check=False)
        assert refused.returncode != 0
        assert "Unable to acquire lock" in refused.stdout, refused.stdout[-3000:]
    assert run.poll() is None, "all were refused meanwhile"
    assert kept.items() <= artifacts(core).items()
    assert writing.exists()
    for process in held:
        process.resume()
    assert run.wait() == 0
    writing.unlink()
    assert artifacts(core) == before


def test_a_killed_training_goes_on_from_its_checkpoint(core):
    before = artifacts(core)
    remove(core, TRAINING.paths)
    run = start(core, *SNAKEMAKE)
    wait_for((core.folder / "data/partial/decoder/checkpoint.pt").exists)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    result = core.snakemake()
    assert "going on from the checkpoint at step" in result.stdout
    assert artifacts(core) == before


@pytest.mark.slow
def test_under_dvc_a_killed_measurement_goes_on_with_the_runs_that_it_had_finished(core):
    """DVC empties the folder of the stage before it runs it again."""
    with edited(core, "measurements.similarity.seed", 5):
        run = start(core, "dvc", "repro")
        parts = core.folder / "data/kept/parts"
        wait_for(lambda: any(parts.rglob("similarity/*/*/*.json")) or run.poll() is not None)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        assert any(parts.rglob("similarity/*/*/*.json")), "some run was finished, not all"
        core.run("dvc", "repro")
        said = "".join(path.read_text() for path in core.folder.glob("logs/similarity/*.log"))
        assert "is current and is kept" in said
    core.run("dvc", "repro")
    assert core.planned() == {}


def test_unfinished_files_and_folders_are_removed(core):
    """They would count as outputs of DVC's stages: those are folders."""
    before = artifacts(core)
    store = core.folder / STUDY / "activations/decoder/sample_reviews/zero"
    shutil.copytree(store, store.with_name(".zero.retired"))
    (store / ".index.parquet.x1.unfinished").write_text("half")
    (core.folder / "data/studies/default/figures/.perplexity.pdf.y_2.unfinished").touch()
    assert len(strays(core)) == 3
    result = core.snakemake()
    assert "removed 3 unfinished files" in result.stdout
    assert strays(core) == []
    assert artifacts(core) == before
    assert core.planned() == {}
