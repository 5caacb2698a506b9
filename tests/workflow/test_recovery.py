"""What a killed run leaves behind is found, said and repaired by the next one."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from tests.faults.kills import (
    SNAKEMAKE,
    STUDY,
    TRAINING,
    jobs_of,
    remove,
    start,
    strays,
    wait_for,
)
from tests.workflow.test_front_ends import artifacts, edited

FORCED_TRAINING = ("dvc", "repro", "--single-item", "--force", "train@decoder")
TRAIN = "posenc.steps.train"


@pytest.mark.parametrize("front_end", [SNAKEMAKE, FORCED_TRAINING], ids=["snakemake", "dvc"])
def test_a_killed_run_is_repaired_by_the_next(finished, front_end):
    before = artifacts(finished)
    remove(finished, TRAINING.paths)
    run = start(finished, *front_end)
    wait_for(lambda: jobs_of(finished, TRAIN))
    # Held there, so that it does not end by itself before the next run looks for it.
    for process in jobs_of(finished, TRAIN):
        process.suspend()
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert jobs_of(finished), "the job goes on without its front end"
    result = finished.snakemake()
    assert "that a killed run had left running" in result.stdout
    assert "removed the lock" in result.stdout
    assert artifacts(finished) == before
    assert not jobs_of(finished)


def test_a_run_that_is_alive_keeps_its_lock_its_jobs_and_its_files(finished):
    before = artifacts(finished)
    remove(finished, TRAINING.paths)
    run = start(finished, *SNAKEMAKE)
    wait_for(lambda: jobs_of(finished, TRAIN))
    # Held there, so that no job writes a file in the moment in which another run looks at it.
    held = jobs_of(finished, TRAIN)
    for process in held:
        process.suspend()
    writing = finished.folder / STUDY / "measurements/.zero.json.abc.unfinished"
    writing.touch()
    second = finished.snakemake(check=False)
    assert second.returncode == 1
    assert "lock" in second.stdout.lower()
    assert "killed" not in second.stdout
    finished.snakemake("--dry-run")  # is answered meanwhile
    # The jobs that follow read what was written for this run: an edit waits.
    with edited(finished, "measurements.perplexity.seed", 5):
        waiting = finished.snakemake("--dry-run", check=False)
        assert waiting.returncode == 1
        assert "edited while a run is at work" in waiting.stdout
    assert writing.exists()
    for process in held:
        process.resume()
    assert run.wait() == 0
    writing.unlink()
    assert artifacts(finished) == before


def test_a_killed_training_goes_on_from_its_checkpoint(finished):
    before = artifacts(finished)
    remove(finished, TRAINING.paths)
    run = start(finished, *SNAKEMAKE)
    wait_for((finished.folder / "data/models/.decoder.partial/checkpoint.pt").exists)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    result = finished.snakemake()
    assert "going on from the checkpoint at step" in result.stdout
    assert artifacts(finished) == before


def test_unfinished_files_and_folders_are_removed(finished):
    """They would count as outputs of DVC's stages, whose outputs are folders."""
    before = artifacts(finished)
    store = finished.folder / STUDY / "activations/decoder/sample_reviews/zero"
    shutil.copytree(store, store.with_name(".zero.retired"))
    (store / ".index.parquet.x1.unfinished").write_text("half")
    (finished.folder / "data/figures/.perplexity.pdf.y_2.unfinished").touch()
    assert len(strays(finished)) == 3
    result = finished.snakemake()
    assert "removed 3 unfinished files" in result.stdout
    assert strays(finished) == []
    assert artifacts(finished) == before
    assert finished.planned() == {}
