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
        with pytest.raises(BusyError, match="a DVC command is running in this folder"):
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


@pytest.mark.parametrize("name", ["dvc.yaml", "dvc.lock"])
@pytest.mark.parametrize(
    ("text", "line"),
    [("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n", 3), ("a: 1\nb: [\n", 3),
     ("a: 1\n\tb: 1\n", 2)],
    ids=["the marks of a merge", "a bracket", "a tab"],
)  # fmt: skip
def test_a_file_that_dvc_cannot_read_is_named_with_its_line(project, name, text, line):
    (project / ".git").mkdir()
    (project / "dvc.yaml").write_text("stages: {}\n")
    assert place.without_dvc(project) is None
    (project / name).write_text(text)
    assert place.without_dvc(project) == (
        f"DVC cannot read {name} (line {line}): "
        f"`git checkout {name}` brings the committed file back"
    )
