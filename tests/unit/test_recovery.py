"""What a killed run leaves, and nothing else, is found and ended or removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from posenc.artifacts.holder import BusyError
from posenc.frontends import recovery
from tests.budget import PATIENCE, wait_for

WAITS = "import time\ntime.sleep(120)\n"
SPAWNS = """\
import pathlib, subprocess, sys, time
done = pathlib.Path({done!r})
job = subprocess.Popen({command!r}, cwd={folder!r})
done.write_text(str(job.pid))
time.sleep(120)
"""
JOB = [
    "python",
    recovery.JOB,
    "--rule",
    "capture",
    "--",
    "posenc.steps.capture",
    "--part",
    "1-of-1",
]


@pytest.fixture
def folder(tmp_path) -> Path:
    """A project with a waiting job, and programs named like the front ends."""
    (tmp_path / "project/workflow").mkdir(parents=True)
    (tmp_path / "project" / recovery.JOB).write_text(WAITS)
    for name in ("snakemake", "dvc", "other"):
        (tmp_path / f"modules/{name}").mkdir(parents=True)
        (tmp_path / f"modules/{name}/__init__.py").touch()
    (tmp_path / "bin").mkdir()
    return tmp_path


@pytest.fixture
def start(folder):
    """Start programs in the project that end with the test."""
    started: list[subprocess.Popen] = []

    def run(*command: str, name: str = "", text: str = WAITS, where: str = "project", **more: str):
        """Run a command; ``name`` is the program or module that it calls, and ``text`` its text."""
        if name:
            (folder / "bin" / name).write_text(f"#!{sys.executable}\n{text}")
            (folder / "bin" / name).chmod(0o755)
            (folder / f"modules/{name}/__main__.py").write_text(text)
        given = [sys.executable if part == "python" else part for part in command]
        given = [str(folder / "bin" / part) if part == name else part for part in given[:1]]
        given += [part.replace("BIN/", f"{folder}/bin/") for part in command[1:]]
        environment = {**os.environ, "PYTHONPATH": str(folder / "modules"), **more}
        environment = {key: value for key, value in environment.items() if value}
        process = subprocess.Popen(given, cwd=folder / where, env=environment)
        started.append(process)
        seen = psutil.Process(process.pid)
        # The kernel shows it a moment later.
        wait_for(lambda: seen.cmdline()[-1:] == given[-1:])
        return seen

    yield run
    for process in started:
        for job in [*_children(process.pid), process]:
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                job.kill()
        process.wait()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def spawning(folder: Path, command: list[str]) -> str:
    """The text of a program that starts another one in the project."""
    given = [sys.executable if part == "python" else part for part in command]
    done = str(folder / "spawned")
    return SPAWNS.format(done=done, command=given, folder=str(folder / "project"))


def spawned(folder: Path) -> psutil.Process:
    pid = wait_for(lambda: (folder / "spawned").exists() and (folder / "spawned").read_text())
    return psutil.Process(int(pid))


def end_orphans(folder: Path, is_alone: bool = True) -> list[str]:
    said: list[str] = []
    recovery.end_orphans(folder / "project", said.append, is_alone)
    return said


def is_there(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


CALLS = {
    "by its name": ("snakemake", "--cores", "2"),
    "as a module": ("python", "-m", "snakemake", "--cores", "2"),
    "as a module, unbuffered": ("python", "-u", "-m", "snakemake", "--cores", "2"),
    "as a module, with options": ("python", "-X", "utf8", "-B", "-m", "snakemake", "--cores", "2"),
    "by its path": ("python", "BIN/snakemake", "--cores", "2"),
    "by its path, unbuffered": ("python", "-u", "BIN/snakemake", "--cores", "2"),
    "by its path, with options": ("python", "-X", "utf8", "-W", "ignore", "BIN/snakemake", "-c2"),
    "by its code": ("python", "-c", "from snakemake import __main__", "--cores", "2"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_job_of_a_snakemake_that_is_at_work_is_left_alone(folder, start, call):
    """However that was called: it holds the project."""
    start(*CALLS[call], name="snakemake", text=spawning(folder, JOB))
    job = spawned(folder)
    assert end_orphans(folder, is_alone=False) == []
    assert is_there(job)


def test_a_job_without_its_snakemake_is_ended_with_what_it_started(folder, start):
    (folder / "project" / recovery.JOB).write_text(spawning(folder, ["python", "-c", WAITS]))
    job = start(*JOB)
    child = spawned(folder)
    assert end_orphans(folder) == ["ended 2 processes that a killed run had left running"]
    assert not is_there(job) and not is_there(child)
    assert end_orphans(folder) == []


@pytest.mark.parametrize("call", CALLS)
def test_a_snakemake_of_a_stage_whose_dvc_was_killed_is_ended_with_its_jobs(folder, start, call):
    run = start(*CALLS[call], name="snakemake", text=spawning(folder, JOB), DVC_STAGE="models")
    job = spawned(folder)
    assert end_orphans(folder, is_alone=False) == [
        "ended 2 processes that a killed run had left running"
    ]
    assert not is_there(run) and not is_there(job)


@pytest.mark.parametrize(
    "call",
    [
        ("python", "-m", "dvc", "repro"),
        ("python", "-X", "utf8", "-W", "ignore", "BIN/dvc", "repro"),
        ("python", "-c", "from dvc import __main__", "repro"),
    ],
    ids=["as a module", "by its path", "by its code"],
)
def test_a_snakemake_that_stands_alone_or_below_its_dvc_is_left_alone(folder, start, call):
    alone = start("snakemake", name="snakemake", DVC_STAGE="")
    below = [sys.executable, "-m", "snakemake", "--cores", "2"]
    start(*call, name="dvc", text=spawning(folder, below), DVC_STAGE="x")
    child = spawned(folder)
    assert end_orphans(folder) == []
    assert is_there(alone) and is_there(child)


def test_what_works_in_another_project_or_is_no_job_is_left_alone(folder, start):
    shutil.copytree(folder / "project", folder / "elsewhere")
    others = [
        start(*JOB, where="elsewhere"),
        start("python", "-c", WAITS),
        start("python", "-m", "other", recovery.__name__, name="other"),
    ]
    assert end_orphans(folder) == []
    assert all(is_there(process) for process in others)


# --- What lies about ---------------------------------------------------------------------------


def test_unfinished_files_and_the_lock_of_a_killed_run_are_removed(tmp_path):
    gone = ["data/studies/mine/.numbers.json.x.unfinished", "paper/.index.html.7.unfinished",
            "data/studies/mine/activations/decoder/.zero.retired/shard-0"]  # fmt: skip
    stay = ["data/studies/mine/numbers.json", "data/partial/mine.part", "notes.unfinished",
            "data/studies/mine/partial/trial.unfinished"]  # fmt: skip
    locks = [".snakemake/locks/0.input.lock", ".snakemake/locks/0.output.lock"]
    for name in (*gone, *stay, *locks):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    said: list[str] = []
    recovery.clean_up(tmp_path, said.append)
    assert said == [
        "removed 3 unfinished files of a run that was killed",
        "removed the lock of a run that was killed; what it had not finished is made again",
    ]
    assert not any((tmp_path / name).exists() for name in (*gone, *locks))
    assert all((tmp_path / name).exists() for name in stay)
    recovery.clean_up(tmp_path, said.append)
    assert len(said) == 2, "nothing is left to do"


@pytest.mark.parametrize(
    ("content", "removed"),
    [
        ("", True),
        ('{"write": {}, "read', True),
        ("[]", True),
        ('{"write": {}, "read": {}}', False),
        (None, False),
    ],
)
def test_a_list_of_paths_in_use_that_was_cut_is_removed(tmp_path, content, removed):
    """DVC writes it in place and does not start while it is cut."""
    path = tmp_path / ".dvc/tmp/rwlock"
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_text(content)
    said = []
    recovery.clean_up(tmp_path, said.append)
    assert path.exists() is (content is not None and not removed)
    assert len(said) == removed


def test_dvc_starts_again_after_recovery(tmp_path):
    def dvc(*arguments: str) -> str:
        command = [sys.executable, "-m", "dvc", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
        )
        return done.stdout + done.stderr

    dvc("init", "--no-scm", "--quiet")
    (tmp_path / "a.txt").write_text("a")
    stage = "{cmd: cp a.txt b.txt, deps: [a.txt], outs: [b.txt]}"
    (tmp_path / "dvc.yaml").write_text(f"stages: {{b: {stage}}}")
    cut = tmp_path / ".dvc/tmp/rwlock"
    cut.write_text('{"write"')
    assert "corrupted" in dvc("repro") and not (tmp_path / "b.txt").exists()
    recovery.clean_up(tmp_path, print)
    assert "corrupted" not in dvc("repro")
    assert (tmp_path / "b.txt").read_text() == "a"


def test_the_list_of_a_dvc_that_is_at_work_is_left_alone(folder, start):
    path = folder / "project/.dvc/tmp/rwlock"
    path.parent.mkdir(parents=True)
    path.write_text('{"write"')
    start("python", "-m", "dvc", "push", name="dvc")
    recovery.clean_up(folder / "project", pytest.fail)
    assert path.exists()


# --- Who may start -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "is_refused"),
    [
        (["repro"], True),
        (["repro", "models@default"], True),
        (["exp", "run", "-S", "a=1"], True),
        (["exp", "run", "--temp"], False),
        (["exp", "run", "--queue"], False),
        (["status"], False),
        (["exp", "show"], False),
    ],
)
@pytest.mark.parametrize("call", [("-m", "dvc"), ("-X", "utf8", "-W", "ignore", "BIN/dvc")])
def test_snakemake_waits_for_a_dvc_that_reproduces_in_the_folder(
    folder, start, call, arguments, is_refused
):
    process = start("python", *call, *arguments, name="dvc")
    if not is_refused:
        recovery.refuse_dvc(folder / "project")
        return
    with pytest.raises(BusyError, match=rf"\(process {process.pid}\) is running in this folder"):
        recovery.refuse_dvc(folder / "project")


def test_a_dvc_that_reproduces_elsewhere_is_not_waited_for(folder, start):
    (folder / "elsewhere").mkdir()
    start("python", "-m", "dvc", "repro", name="dvc", where="elsewhere")
    recovery.refuse_dvc(folder / "project")
