"""One front end at a time, whoever runs it and wherever."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import threading
import time
from pathlib import Path

import pytest

from posenc.artifacts import holder
from posenc.artifacts.holder import BusyError
from tests.budget import wait_for

FORK = multiprocessing.get_context("fork")


def _hold(root: str, started, end) -> None:
    with holder.holding(Path(root), "snakemake --cores 8"):
        started.set()
        end.wait(60)


def _work(root: str, started, end) -> None:
    with holder.working(Path(root)):
        started.set()
        end.wait(60)


class Other:
    """Another process that is a front end, or a job."""

    def __init__(self, target, root: Path) -> None:
        started, self.end = FORK.Event(), FORK.Event()
        self.process = FORK.Process(target=target, args=(str(root), started, self.end))
        self.process.start()
        assert started.wait(60)

    def finish(self) -> None:
        self.end.set()
        self.process.join()


def test_a_second_front_end_is_refused_and_told_which_is_at_work(tmp_path):
    other = Other(_hold, tmp_path)
    try:
        with pytest.raises(
            BusyError, match=rf"`snakemake --cores 8` \(process {other.process.pid}"
        ):
            holder.hold(tmp_path, "posenc record")
    finally:
        other.finish()
    holder.release(holder.hold(tmp_path, "posenc record"))


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, number):
    def flock(handle: int, kind: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(BusyError, match=r"file system without locks.*another disk"):
        holder.hold(tmp_path, "posenc record")
    with pytest.raises(BusyError, match="file system without locks"), holder.working(tmp_path):
        pass


def test_a_front_end_that_is_killed_lets_go(tmp_path):
    other = Other(_hold, tmp_path)
    other.process.kill()
    other.process.join()
    holder.release(holder.hold(tmp_path, "posenc record"))


def test_jobs_that_a_killed_front_end_left_are_ended_or_named(tmp_path, monkeypatch):
    job = Other(_work, tmp_path)
    monkeypatch.setattr(holder, "PATIENCE", 0.3)
    with pytest.raises(BusyError, match="jobs of a run that was killed are still at work"):
        holder.hold(tmp_path, "snakemake")
    monkeypatch.setattr(holder, "PATIENCE", 10)
    held = holder.hold(tmp_path, "snakemake", end_orphans=lambda _: job.process.kill())
    holder.release(held)
    job.process.join()


def test_jobs_work_beside_each_other_and_their_own_front_end(tmp_path):
    with holder.holding(tmp_path, "snakemake"), holder.working(tmp_path), holder.working(tmp_path):
        pass


def say_elsewhere(root: Path, seconds_ago: float) -> Path:
    """What a front end of another machine says of itself, and when it last gave a sign of life."""
    path = root / holder.FRONT_END
    path.parent.mkdir()
    about = {"command": "snakemake", "host": "other", "boot": "another boot", "pid": 7}
    path.write_text(json.dumps(about))
    os.utime(path, (time.time() - seconds_ago,) * 2)
    return path


@pytest.mark.parametrize(("seconds_ago", "is_alive"), [(1, True), (1000, False), (-1000, False)])
def test_another_machine_is_known_by_its_heartbeat(tmp_path, monkeypatch, seconds_ago, is_alive):
    """Its lock is not seen where the file system keeps locks to each machine."""
    monkeypatch.setattr(holder, "HEARTBEAT", 0.05)
    say_elsewhere(tmp_path, seconds_ago)
    if not is_alive:
        holder.release(holder.hold(tmp_path, "posenc record"))
        return
    with pytest.raises(BusyError, match=r"`snakemake` \(process 7 on other\) is running here"):
        holder.hold(tmp_path, "posenc record")


@pytest.mark.parametrize("seconds_ago", [1000, -1000])
def test_a_heart_beats_by_whatever_clock(tmp_path, monkeypatch, seconds_ago):
    monkeypatch.setattr(holder, "HEARTBEAT", 0.5)
    path = say_elsewhere(tmp_path, seconds_ago)
    beat = threading.Timer(0.3, os.utime, (path, (time.time() - seconds_ago + 1,) * 2))
    beat.start()
    with pytest.raises(BusyError, match="on other"):
        holder.hold(tmp_path, "posenc record")
    beat.join()


def test_a_heart_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(holder, "HEARTBEAT", 0.05)
    with holder.holding(tmp_path, "snakemake"):
        os.utime(tmp_path / holder.FRONT_END, (0, 0))
        wait_for(lambda: (tmp_path / holder.FRONT_END).stat().st_mtime > 1)


def test_a_heart_that_was_released_touches_no_other_file(tmp_path, monkeypatch):
    """The next file to be opened has the number of the one that was locked."""
    monkeypatch.setattr(holder, "HEARTBEAT", 0.05)
    held = holder.hold(tmp_path, "posenc record")
    holder.release(held)
    with open(tmp_path / "other", "w") as other:
        assert other.fileno() == held.file
        os.utime(tmp_path / "other", (0, 0))
        time.sleep(0.2)
        assert (tmp_path / "other").stat().st_mtime == 0


def test_two_clones_that_share_data_are_one(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first/data").mkdir()
    (tmp_path / "second/data").symlink_to(tmp_path / "first/data")
    with (
        holder.holding(tmp_path / "first", "snakemake"),
        pytest.raises(BusyError),
    ):
        holder.hold(tmp_path / "second", "snakemake")
