"""A full disk, damaged files, two runs at once, Ctrl-C: a clear line, then the same bytes."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from posenc.artifacts import contents
from posenc.artifacts.files import sha256_file
from tests.budget import quick, wait_for
from tests.faults.corruptions import flip
from tests.faults.kills import (
    CAPTURE,
    SNAKEMAKE,
    STUDY,
    TRAINING,
    State,
    jobs_of,
    remove,
    start,
    strays,
    unfinished,
)
from tests.workflow.conftest import Project

MODEL = "data/models/decoder/model.safetensors"
TRAIN = "posenc.steps.train"
CHECKPOINT = "data/partial/decoder/checkpoint.pt"
RECEIPT = f"{STUDY}/captures/minilm/*/shard-00000.safetensors.json"


@pytest.fixture
def study(request) -> Project:
    """The finished core study; slow tests take the tiny one, as they need several models."""
    slow = request.node.get_closest_marker("slow")
    return request.getfixturevalue("finished" if slow else "core")


@pytest.fixture
def project(study, tmp_path) -> Project:
    """A copy of the finished study, dates included: whatever happens to it, others keep theirs."""
    return study.copy(tmp_path / "project")


@pytest.fixture
def expected(study) -> State:
    """What the study consists of if undisturbed."""
    return State.of(study)


def errors(output: str) -> list[str]:
    """The reason that a failed run gives.

    Jobs share a stream, so one's bar may stand before another's error.
    """
    assert "Traceback" not in output, output[-6000:]
    return re.findall(r"\berror: [^\r\n]*", output)


# --- A full disk --------------------------------------------------------------------------------


class SmallDisk:
    """A file system of its own for the folder ``data`` of a project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self, *arguments: str) -> str:
        """Run mount(8) and return what it says when it fails."""
        command = ["mount", *arguments, str(self.folder)]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.stderr.strip()

    def leave(self, free: int) -> None:
        """Leave that many bytes free by resizing the disk."""
        usage = os.statvfs(self.folder)
        used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        assert not self.mount("-o", f"remount,size={used + free}")


@pytest.fixture
def small_disk(project) -> SmallDisk:
    """The project's data, moved to a small disk."""
    data, kept = project.folder / "data", project.folder / "kept"
    data.rename(kept)
    data.mkdir()
    disk = SmallDisk(data)
    refused = disk.mount("-t", "tmpfs", "-o", "size=1G", "tmpfs")
    if refused:
        pytest.skip(f"this machine does not let a test mount a small disk: {refused}")
    shutil.copytree(kept, data, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(kept)
    yield disk
    subprocess.run(["umount", str(data)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_said_in_one_line_and_costs_a_rerun(project, expected, small_disk):
    def failing(free: int, message: str, *arguments: str) -> None:
        """Run with that much free; a file gets its final name only when it is whole."""
        small_disk.leave(free)
        result = project.snakemake(*arguments, check=False)
        assert result.returncode == 1
        (line,) = errors(result.stdout)
        assert message in line
        assert State.of(project).artifacts.items() < expected.artifacts.items()
        assert strays(project) == []

    shards = project.folder.glob(f"{STUDY}/activations/minilm/*/*/shard-*")
    size = sum(path.stat().st_size for path in shards)
    remove(project, CAPTURE.paths)
    failing(size // 2, "do not fit: 0.01 GB are free")
    # Enough for the numbers, but not for all that goes beside them.
    failing(size + 4096, f"No space left on device: '{STUDY}/captures/minilm")
    remove(project, TRAINING.paths)
    failing(200_000, f"No space left on device: '{CHECKPOINT}'", "--", MODEL)
    small_disk.leave(size * 9)
    result = project.snakemake()
    assert "finished already" in result.stdout
    assert expected.differences(project) == []
    assert unfinished(project) == set()


# --- Damaged files ------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    """Cut the last bytes off."""
    os.truncate(path, path.stat().st_size - 100)


def corrupt(path: Path) -> None:
    """Change a byte."""
    flip(path, random.Random(0))


TOKENS = f"{STUDY}/tokens/decoder/sample_reviews.parquet"
STORE = f"{STUDY}/activations/decoder/sample_reviews/zero"
SHARD = f"{STORE}/shard-00001.safetensors"
CHECKSUMS = f"{STUDY}/generated/checksums.json"


@pytest.mark.parametrize("is_kept", quick(True, of=[True, False]))
def test_what_was_written_over_is_brought_back_or_made_again(project, expected, is_kept):
    if not is_kept:
        shutil.rmtree(project.folder / "data/kept")
    for name in (TOKENS, SHARD):
        # A restored result has two names: the kept one has to stay whole here.
        content = (project.folder / name).read_bytes()
        (project.folder / name).unlink()
        (project.folder / name).write_bytes(content)
    truncate(project.folder / TOKENS)
    corrupt(project.folder / SHARD)
    assert set(project.planned()) >= {"tokenize", "capture", "store"}
    result = project.snakemake()
    assert ("brought back 2 results" in result.stdout) == is_kept
    assert expected.differences(project) == []
    assert project.planned() == {}


def test_what_a_disk_forgot_is_found_when_it_is_read(project, expected):
    assert project.planned() == {}, "the copy's files are known: only what changes is read again"
    # Each is read by one of the jobs that will run.
    damaged = {
        TOKENS: "evaluations/decoder/sample_reviews.parquet",
        SHARD: "measurements/similarity",
    }
    with (project.folder / contents.PLACE).open("a") as memory:
        for name in damaged:
            path = project.folder / name
            digest = sha256_file(path)
            corrupt(path)
            # The disk changes no date: what is remembered of the file still holds.
            memory.write(json.dumps([name, *contents.signature(path), digest]) + "\n")
    assert project.planned() == {}, "no date tells"
    remove(project, tuple(f"{STUDY}/{reader}" for reader in damaged.values()))
    result = project.snakemake("--keep-going", check=False)
    assert result.returncode == 1
    lines = errors(result.stdout)
    assert len(lines) == len(damaged)
    for name in damaged:
        (line,) = [line for line in lines if line.startswith(f"error: {name} does not match")]
        assert "start again, and" in line and line.endswith("is made again")
        assert (project.folder / name).exists(), "nothing is removed at the moment of reading"
    project.snakemake()
    assert expected.differences(project) == []


def test_bit_rot_that_was_found_is_made_again_by_dvc(project, expected):
    assert project.reproduced() == [], "DVC has read all files, and goes by their dates from now on"
    (receipt,) = (project.folder / STUDY / "receipts").rglob("typeset.json")
    for path in (*(project.folder / name for name in (TOKENS, CHECKSUMS)), receipt):
        before = path.stat()
        corrupt(path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert project.run("posenc", "verify", check=False).returncode == 1
    project.run("dvc", "repro")
    assert expected.differences(project) == []
    assert project.planned() == {}


# --- Two runs at once ---------------------------------------------------------------------------


def test_snakemake_is_refused_while_dvc_runs(project, expected):
    """The other way round: test_recovery.py."""
    shutil.rmtree(project.folder / "data/kept")  # else the training is not done again
    run = start(project, "dvc", "repro", "--force", "--single-item", "models@default")
    wait_for(lambda: jobs_of(project, TRAIN))
    # Held there, so that it does not end before the other run has looked for it.
    training = jobs_of(project, TRAIN)
    for job in training:
        job.suspend()
    before = State.of(project).artifacts
    result = project.snakemake(check=False)
    assert result.returncode == 1
    assert "is running here: wait until it has ended" in result.stdout
    assert "Traceback" not in result.stdout
    assert jobs_of(project, TRAIN), "the job of the run that is alive goes on"
    assert before.items() <= State.of(project).artifacts.items()
    for job in training:
        job.resume()
    assert run.wait() == 0
    project.snakemake()
    assert expected.differences(project) == []


# --- Ctrl-C -------------------------------------------------------------------------------------


def interrupt(project: Project, command: tuple[str, ...], pattern: str) -> None:
    """Start a run; interrupt it, like Ctrl-C, once a file exists."""
    run = start(project, *command)
    wait_for(lambda: list(project.folder.glob(pattern)) or run.poll() is not None)
    assert run.poll() is None, "it came to its end before"
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait() != 0
    assert jobs_of(project) == [], "it has ended with all its jobs"


@pytest.mark.slow
@pytest.mark.parametrize("front_end", ["snakemake", "dvc"])
def test_an_interrupted_run_goes_on_where_it_was(project, expected, front_end):
    """DVC removes a stage's outputs before it runs; half-done work lies outside them."""
    forced = ("dvc", "repro", "--force", "--single-item")
    if front_end == "snakemake":
        remove(project, (*TRAINING.paths, *CAPTURE.paths))
        train, capture = (*SNAKEMAKE, "--", MODEL), SNAKEMAKE
    else:
        # Nothing there could be kept.
        shutil.rmtree(project.folder / "data/kept")
        train, capture = (*forced, "models@default"), (*forced, "activations@default")
    interrupt(project, train, CHECKPOINT)
    result = project.run(*train)
    assert "going on from the checkpoint at step" in result.stdout
    interrupt(project, capture, RECEIPT)
    result = project.run(*capture)
    assert "shard 0 of sample_reviews.intact is finished already" in result.stdout
    project.snakemake()
    assert expected.differences(project) == []
    assert unfinished(project) == set()
