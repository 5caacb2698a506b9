"""What a killed run leaves behind is found, said and repaired by the next one."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from tests.faults.kills import FRONT_ENDS, REMOVED, remove, start
from tests.workflow.test_front_ends import artifacts

FORCED_TRAINING = ("dvc", "repro", "--single-item", "--force", "train@decoder")
TRAINING = REMOVED[0]


def wait_for(condition, seconds: float = 120) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def jobs_of(project) -> list[psutil.Process]:
    """Running jobs of the project, whoever their parent is."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        command = process.info["cmdline"] or []
        if process.info["cwd"] == str(project.folder) and "posenc.steps.train" in command:
            found.append(process)
    return found


@pytest.mark.parametrize("front_end", [FRONT_ENDS[0], FORCED_TRAINING], ids=["snakemake", "dvc"])
def test_a_killed_run_is_repaired_by_the_next(finished, front_end):
    before = artifacts(finished)
    remove(finished, TRAINING)
    run = start(finished, *front_end)
    wait_for(lambda: jobs_of(finished))
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert jobs_of(finished), "the job goes on without its front end"
    result = finished.snakemake()
    assert "that a killed run had left running" in result.stdout
    assert "removed the lock" in result.stdout
    assert artifacts(finished) == before
    assert not jobs_of(finished)


def test_a_run_that_is_alive_keeps_its_lock_and_its_jobs(finished):
    before = artifacts(finished)
    remove(finished, TRAINING)
    run = start(finished, *FRONT_ENDS[0])
    wait_for(lambda: jobs_of(finished))
    second = finished.snakemake(check=False)
    assert second.returncode == 1
    assert "lock" in second.stdout.lower()
    assert "killed" not in second.stdout
    finished.snakemake("--dry-run")  # is answered meanwhile
    assert run.wait() == 0
    assert artifacts(finished) == before


def test_a_killed_training_goes_on_from_its_checkpoint(finished):
    before = artifacts(finished)
    remove(finished, TRAINING)
    run = start(finished, *FRONT_ENDS[0])
    checkpoint = finished.folder / "data/models/.decoder.partial/checkpoint.pt"
    wait_for(checkpoint.exists)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    result = finished.snakemake()
    assert "going on from the checkpoint at step" in result.stdout
    assert artifacts(finished) == before
