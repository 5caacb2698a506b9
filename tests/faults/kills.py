"""Kill runs of the tiny study at random moments; a plain rerun must end with the same bytes.

Not collected by pytest: ``python -m tests.faults.kills --kills 50`` from the project's root. Each
round removes some artifacts, starts Snakemake or DVC, kills a part of the run without warning,
runs plain ``snakemake`` once, and compares every artifact with an undisturbed run.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Annotated

import psutil
import typer

from tests.workflow.conftest import Project, make_project
from tests.workflow.test_front_ends import artifacts

# Snakemake makes again only what something requested needs: what is removed reaches to the end.
REMOVED = (
    ("data/models/decoder", "data/activations/decoder", "data/measurements/*/decoder"),
    ("data/activations/minilm", "data/measurements/*/minilm"),
    ("data/tokens/minilm", "data/activations/minilm", "data/measurements/*/minilm"),
    ("data/measurements/similarity",),
    ("data/figures",),
    ("paper/generated", "data/plots"),
)
# DVC restores what is missing from its cache, unless it is forced.
FRONT_ENDS = (
    ("snakemake", "--cores", "2", "--resources", "gpu=1"),
    ("snakemake", "--cores", "2", "--resources", "gpu=1"),
    ("dvc", "repro", "--force"),
)
VICTIMS = ("front end", "job", "all")


def start(project: Project, *command: str) -> subprocess.Popen:
    """Start a command in a process group of its own."""
    return subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def remove(project: Project, patterns: tuple[str, ...]) -> None:
    """Remove artifacts."""
    for path in [path for pattern in patterns for path in project.folder.glob(pattern)]:
        shutil.rmtree(path)


def kill(run: subprocess.Popen, victim: str) -> str:
    """Kill a part of a run with SIGKILL and return what was killed."""
    if run.poll() is not None:
        return "nothing: it had ended"
    if victim == "all":
        os.killpg(run.pid, signal.SIGKILL)
    elif victim == "front end":
        os.kill(run.pid, signal.SIGKILL)
    else:
        jobs = []
        for process in psutil.Process(run.pid).children(recursive=True):
            try:
                command = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if "-m posenc." in command and "bash" not in command.split()[0]:
                jobs.append(process)
        if not jobs:
            return "nothing: no job was running"
        jobs[0].kill()
        run.wait()
    return victim


def disturb(project: Project, random_: random.Random) -> str:
    """One round: remove artifacts, start, kill. Returns what was done."""
    removed = random_.sample(REMOVED, random_.randint(1, 3))
    for patterns in removed:
        remove(project, patterns)
    front_end = random_.choice(FRONT_ENDS)
    victim, moment = random_.choice(VICTIMS), random_.uniform(0.5, 25)
    run = start(project, *front_end)
    end = time.monotonic() + moment
    while time.monotonic() < end and run.poll() is None:
        time.sleep(0.02)
    killed = kill(run, victim)
    if victim == "front end":
        time.sleep(random_.uniform(0, 2))  # what is left goes on for a while
    names = ", ".join(patterns[0] for patterns in removed)
    return f"{front_end[0]}, {moment:.1f} s, killed {killed}; had removed {names}"


def main(
    kills: Annotated[int, typer.Option()] = 50,
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """Run the rounds, print each and the total, and fail on any difference."""
    random_, different = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        project.snakemake()
        project.run("posenc", "record")
        expected = artifacts(project)
        for number in range(kills):
            done = disturb(project, random_)
            began = time.monotonic()
            result = project.snakemake(check=False)
            found = artifacts(project) if result.returncode == 0 else {}
            wrong = [n for n in expected | found if expected.get(n) != found.get(n)]
            different += bool(wrong)
            verdict = "same bytes" if not wrong else f"DIFFERENT: {', '.join(wrong)}"
            print(f"{number + 1}: {done}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
            if wrong:
                print(result.stdout[-2000:], flush=True)
                project.snakemake("--unlock", check=False)
                project.snakemake(check=False)
    print(f"{kills} kills, {different} differences")
    raise SystemExit(bool(different))


if __name__ == "__main__":
    typer.run(main)
