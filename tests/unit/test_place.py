"""DVC's lock: held by a run until its end, and refused in one line where DVC has it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from posenc.artifacts.holder import BusyError
from posenc.frontends import place

HOLD = """
from posenc.frontends.place import hold_dvc_lock
lock = hold_dvc_lock()
print("held", flush=True)
input()
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / ".dvc").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_process_has_it_until_it_ends_however_it_ends(project):
    command = [sys.executable, "-c", HOLD]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=project, **pipes) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BusyError, match="a DVC command is at work in this folder"):
            place.hold_dvc_lock()
        other.kill()
    assert place.hold_dvc_lock() is not None


def test_dvc_itself_waits_for_it(project):
    from dvc.lock import LockError, make_lock

    lock = place.hold_dvc_lock()
    folder = project / ".dvc/tmp"
    with pytest.raises(LockError):
        make_lock(str(folder / "lock"), tmp_dir=str(folder)).lock()
    lock.unlock()


def test_without_dvc_there_is_nothing_to_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert place.hold_dvc_lock() is None
