"""Kill runs of the tiny study at random moments; a plain rerun must end with the same bytes.

Not collected by pytest: ``python -m tests.faults.kills --kills 50`` from the project's root. Each
round removes some artifacts, starts Snakemake or DVC, kills a part of the run without warning or
interrupts it like Ctrl-C, runs one plain ``snakemake`` (or ``dvc repro``, after which Snakemake
must have nothing to do), and compares every artifact with an undisturbed run.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer

from posenc.artifacts import kept as second_names
from posenc.artifacts.holder import FRONT_END, JOBS
from posenc.frontends.recovery import JOB
from tests.workflow.conftest import Project, make_project
from tests.workflow.test_front_ends import artifacts

STUDY = "data/studies/default"
CAPTURES = f"{STUDY}/captures/*"
SNAKEMAKE = ("snakemake", "--cores", "2", "--resources", "gpu=1")


@dataclass(frozen=True)
class Removal:
    """Artifacts that a round removes, and DVC's stages that make them.

    Snakemake remakes only what something requested needs: what is removed reaches to the end.
    DVC restores what is missing from its cache, so it is told to run these very stages.
    """

    paths: tuple[str, ...]
    stages: tuple[str, ...]


TRAINING = Removal(
    ("data/models/decoder", "data/training/decoder", f"{STUDY}/activations/decoder",
     f"{STUDY}/measurements/*/decoder"),
    ("models@default", "activations@default", "measurements@default"),
)  # fmt: skip
CAPTURE = Removal(
    (f"{STUDY}/activations/minilm", f"{STUDY}/measurements/*/minilm"),
    ("activations@default", "measurements@default"),
)
REMOVALS = (
    TRAINING,
    CAPTURE,
    Removal(
        (f"{STUDY}/tokens/minilm", *CAPTURE.paths),
        ("tokens@default", *CAPTURE.stages),
    ),
    Removal(
        (
            "data/tokenizers/decoder",
            f"{STUDY}/tokens/decoder",
            "data/corpora/decoder.parquet",
            *TRAINING.paths,
        ),
        ("models@default", "tokens@default", *CAPTURE.stages),
    ),
    Removal(
        (f"{STUDY}/activations/decoder", f"{STUDY}/measurements/*/decoder"),
        ("activations@default", "measurements@default"),
    ),
    # One of several runs: the others stay.
    Removal(
        (f"{STUDY}/activations/*/*/zero", f"{STUDY}/measurements/*/*/*/zero.json"),
        ("activations@default", "measurements@default"),
    ),
    Removal(
        (f"{STUDY}/measurements/similarity",),
        ("measurements@default",),
    ),
    Removal(
        (f"{STUDY}/figures",),
        ("figures@default",),
    ),
    Removal(
        tuple(f"{STUDY}/{name}" for name in ("generated", "plots", "pdf")),
        ("numbers@default", "paper@default"),
    ),
)
VICTIMS = ("front end", "job", "all", "interrupt")


def start(project: Project, *command: str, log: Path | None = None) -> subprocess.Popen:
    """Start a command in a process group of its own; it can be interrupted as from a terminal."""
    with open(log or os.devnull, "wb") as output:
        return subprocess.Popen(
            command,
            cwd=project.folder,
            env=project.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A shell that starts something in the background lets it ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def delete(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def remove(project: Project, patterns: tuple[str, ...]) -> None:
    """Remove artifacts and the second names that would bring them back."""
    shutil.rmtree(project.folder / second_names.PLACE, ignore_errors=True)
    for path in [path for pattern in patterns for path in project.folder.glob(pattern)]:
        if path.exists():
            delete(path)


def jobs_of(project: Project, module: str = "") -> list[psutil.Process]:
    """Running jobs of the project, whatever their parent; of one module only, if given."""
    processes = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        command = process.info["cmdline"] or []
        modules = [part for part in command if part.startswith("posenc.")] * (JOB in command)
        if process.info["cwd"] == str(project.folder) and modules and module in (modules[0], ""):
            processes.append(process)
    return processes


def kill(project: Project, run: subprocess.Popen, victim: str) -> str:
    """Kill a part of a run, or interrupt all of it; return what was killed, if anything was."""
    if run.poll() is not None:
        return ""
    if victim == "all":
        os.killpg(run.pid, signal.SIGKILL)
    elif victim == "front end":
        os.kill(run.pid, signal.SIGKILL)
    elif victim == "interrupt":
        os.killpg(run.pid, signal.SIGINT)
    else:
        jobs = [job for job in jobs_of(project) if "bash" not in job.name()]
        if not jobs:
            run.wait()
            return ""
        jobs[0].kill()
    run.wait()
    return victim


def progress(log: Path, stages: int) -> float:
    """Finished share of a run, by what it says."""
    text = log.read_text(errors="replace")
    if stages:
        return max(0, text.count("Running stage") - 1) / stages
    done = re.findall(r"(\d+) of (\d+) steps", text)
    return int(done[-1][0]) / int(done[-1][1]) if done else 0.0


def disturb(project: Project, random_: random.Random) -> tuple[str, str]:
    """One round: remove artifacts, start, kill. Returns what was done and what was killed."""
    removal = random_.choice(REMOVALS)
    # Another choice would remove the dependencies of single stages.
    if by_dvc := random_.random() < 0.3:
        command = ("dvc", "repro", "--force", "--single-item", *removal.stages)
        removed = [removal]
    else:
        command = SNAKEMAKE
        removed = list({removal, random_.choice(REMOVALS)})
    for choice in removed:
        remove(project, choice.paths)
    victim, share = random_.choice(VICTIMS), random_.random()
    extra = random_.uniform(0, 5) * (1 - share)  # the last jobs are short
    log = project.folder / "logs/killed.log"
    run = start(project, *command, log=log)
    while run.poll() is None and progress(log, by_dvc * len(removal.stages)) < share:
        time.sleep(0.02)
    end = time.monotonic() + extra
    while run.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    killed = kill(project, run, victim)
    if victim == "front end":
        time.sleep(random_.uniform(0, 2))  # what is left goes on for a while
    names = ", ".join(path for choice in removed for path in choice.paths[:1])
    moment = f"{extra:.1f} s after {share:.0%}, killed {killed or 'nothing: it had ended'}"
    return f"{command[0]} without {names}; {moment}", killed


def unfinished(project: Project) -> set[str]:
    """Folders of a killed training or capture, where the next one goes on."""
    paths = [*project.folder.glob("data/partial/*"), *project.folder.glob(CAPTURES)]
    return {str(path.relative_to(project.folder)) for path in paths}


def strays(project: Project) -> list[str]:
    """Temporary files that should be gone after a run that ended well."""
    paths = [path for top in ("data", "paper") for path in (project.folder / top).rglob(".*")]
    names = {str(path.relative_to(project.folder)) for path in paths}
    return sorted(names - unfinished(project) - {str(FRONT_END), str(JOBS)})


def repair(project: Project, by_dvc: bool) -> subprocess.CompletedProcess:
    """One plain run; after DVC's, Snakemake must have nothing to do."""
    if not by_dvc:
        return project.snakemake(check=False)
    result = project.run("dvc", "repro", check=False)
    if result.returncode == 0:
        then = project.snakemake(check=False)
        result.stdout += then.stdout
        result.returncode = then.returncode or int("Nothing to be done" not in then.stdout)
    return result


@dataclass(frozen=True)
class State:
    """What must be the same after each round."""

    artifacts: dict[str, str]
    lock: str

    @classmethod
    def of(cls, project: Project) -> State:
        """Read it from a project."""
        partial = [Path(path) for path in unfinished(project)]
        digests = {
            name: digest
            for name, digest in artifacts(project).items()
            if not any(Path(name).is_relative_to(path) for path in partial)
        }
        return cls(digests, (project.folder / "dvc.lock").read_text())

    def differences(self, project: Project) -> list[str]:
        """Names of what differs in the project now or should not be there."""
        now = State.of(project)
        names = self.artifacts | now.artifacts
        wrong = [name for name in names if self.artifacts.get(name) != now.artifacts.get(name)]
        return wrong + ["dvc.lock"] * (self.lock != now.lock) + strays(project)


def main(
    kills: Annotated[int, typer.Option(min=1)] = 50,
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """Run the rounds, print each and the total, and fail on any difference."""
    random_, killed, rounds, different = random.Random(seed), Counter(), 0, 0
    kept: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        project.snakemake()
        project.run("posenc", "record")
        expected = State.of(project)
        # A run that ended before its moment is compared too, but is no kill.
        while killed.total() < kills:
            done, victim = disturb(project, random_)
            killed.update([victim] * bool(victim))
            rounds += 1
            by_dvc, began = random_.random() < 0.25, time.monotonic()
            result = repair(project, by_dvc)
            wrong = expected.differences(project)
            # DVC restores a half-done result; the half stays until it is made again.
            kept = unfinished(project) if by_dvc else kept & unfinished(project)
            wrong += sorted(unfinished(project) - kept)
            if result.returncode:
                wrong.insert(0, "the repairing run failed")
            different += bool(wrong)
            verdict = "same bytes" if not wrong else f"DIFFERENT: {', '.join(wrong)}"
            by, seconds = "dvc" if by_dvc else "snakemake", time.monotonic() - began
            print(f"{rounds}: {done}; {by} {seconds:.0f} s: {verdict}", flush=True)
            if wrong:
                print(result.stdout[-3000:], flush=True)
                project.snakemake("--unlock", check=False)
                project.run("dvc", "checkout", "--force", check=False)
                project.snakemake(check=False)
    parts = ", ".join(f"{victim} {count}" for victim, count in killed.items())
    print(f"{rounds} rounds, {kills} kills ({parts}), {different} differences, no manual step")
    raise SystemExit(bool(different))


if __name__ == "__main__":
    typer.run(main)
