"""Damage a file of the finished tiny study at random; plain reruns must end with the same bytes.

Not collected by pytest: ``python -m tests.faults.corruptions --corruptions 20`` from the project's
root. Each round flips a byte of a file, truncates, empties or deletes it, runs plain ``snakemake``
and compares every artifact with an undisturbed run. Two kinds:

loud
    The file's time changes, as with any write. One plain run must repair it.
silent
    The file keeps its time, as when a disk forgets: nobody can know before the file is read. So
    something that is made from it is removed as well. The first plain run repairs it, or ends with
    one line that names the file; then the second one repairs it.

Files that nothing reads (a PNG, a finished PDF, metrics, plots) are damaged loudly only.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tests.faults.kills import CAPTURE, SNAKEMAKE, STUDY, TRAINING, State, remove, start
from tests.workflow.conftest import Project, make_project

ACTIVATIONS, MEASUREMENTS = f"{STUDY}/activations", f"{STUDY}/measurements"
DOCUMENTS = (f"{STUDY}/pdf",)
# DVC leaves them to git or the workspace.
UNCACHED = ("paper/build", "data/config")


@dataclass(frozen=True)
class Victim:
    """A kind of file, and what must be made from it again so that it is read.

    Attributes
    ----------
    pattern
        Files to choose from.
    readers
        What to remove with a silent damage; empty where nothing reads the file.
    """

    pattern: str
    readers: tuple[str, ...] = ()


VICTIMS = (
    Victim("data/raw/*/*", ("data/documents", "data/corpora", *TRAINING.paths)),
    Victim("data/documents/*.parquet", ("data/corpora", *TRAINING.paths)),
    Victim("data/documents/*.parquet", (f"{STUDY}/tokens/minilm", *CAPTURE.paths)),
    Victim("data/tokenizers/minilm/*", (f"{STUDY}/tokens/minilm", *CAPTURE.paths)),
    Victim("data/tokenizers/decoder/*", ("data/corpora", *TRAINING.paths)),
    Victim("data/corpora/*.parquet", TRAINING.paths),
    Victim("data/models/minilm/*", CAPTURE.paths),
    Victim("data/models/decoder/*", TRAINING.paths[2:]),
    Victim("data/training/*/*", (f"{STUDY}/training", f"{STUDY}/figures", f"{STUDY}/generated")),
    Victim(f"{STUDY}/training/*/*", (f"{STUDY}/figures", f"{STUDY}/generated")),
    Victim(f"{STUDY}/tokens/minilm/*", CAPTURE.paths),
    Victim(f"{STUDY}/tokens/decoder/*", TRAINING.paths[2:]),
    Victim(f"{ACTIVATIONS}/*/*/*/shard-*", (f"{MEASUREMENTS}/similarity",)),
    Victim(f"{ACTIVATIONS}/*/*/*/index.parquet", (f"{MEASUREMENTS}/similarity",)),
    Victim(f"{ACTIVATIONS}/*/*/*/index.parquet", (f"{MEASUREMENTS}/perplexity",)),
    Victim(f"{ACTIVATIONS}/decoder/*/*/losses.parquet", (f"{MEASUREMENTS}/perplexity",)),
    Victim(f"{MEASUREMENTS}/*/*/*/*.json", (f"{STUDY}/figures", f"{STUDY}/generated")),
    Victim(f"{STUDY}/figures/*.pdf", DOCUMENTS),
    Victim(f"{STUDY}/figures/*.json", DOCUMENTS),
    Victim(f"{STUDY}/figures/*.svg"),
    Victim(f"{STUDY}/generated/*", DOCUMENTS),
    Victim(f"{STUDY}/generated/tables/*", DOCUMENTS),
    Victim(f"{STUDY}/pdf/*.pdf"),
    Victim(f"{STUDY}/receipts/**/*.json"),
    Victim("paper/build/*/*.pdf", DOCUMENTS),
    Victim("paper/build/*/*.json", DOCUMENTS),
    Victim(f"{STUDY}/metrics.json"),
    Victim(f"{STUDY}/plots/*.csv"),
    Victim(f"{STUDY}/plots/layers/*.csv"),
    # Every run writes them from params.yaml, so silent damage is impossible.
    Victim("data/config/**/*.json"),
)


def flip(path: Path, random_: random.Random) -> str:
    """Change one byte in place."""
    content = bytearray(path.read_bytes())
    place = random_.randrange(len(content))
    before = content[place]
    content[place] ^= random_.randrange(1, 256)
    path.write_bytes(content)
    return f"byte {place} of {len(content)} from {before:#04x} to {content[place]:#04x}"


def truncate(path: Path, random_: random.Random) -> str:
    """Cut the end off."""
    size = path.stat().st_size
    kept = random_.randrange(1, size)
    os.truncate(path, kept)
    return f"{kept} bytes left of {size}"


def empty(path: Path, random_: random.Random) -> str:
    """Leave nothing in the file."""
    path.write_bytes(b"")
    return "emptied"


def gone(path: Path, random_: random.Random) -> str:
    """Delete the file."""
    path.unlink()
    return "deleted"


# Most bytes of a disk go wrong within a file.
WAYS: tuple[Callable[[Path, random.Random], str], ...] = (flip, flip, flip, truncate, empty, gone)


def choose(project: Project, random_: random.Random, *patterns: str) -> Path:
    """One of the existing files, hidden ones left out."""
    candidates = sorted(
        path
        for pattern in patterns
        for path in project.folder.glob(pattern)
        if path.is_file() and not path.name.startswith(".")
    )
    return random_.choice(candidates)


def name_of(project: Project, path: Path) -> str:
    """A file's path from the project's root."""
    return str(path.relative_to(project.folder))


def damage(path: Path, random_: random.Random, silent: bool) -> str:
    """Damage a file; keep its time if silent."""
    way = random_.choice([way for way in WAYS if path.stat().st_size > 1 or way in (empty, gone)])
    before = path.stat()
    done = way(path, random_)
    if silent and path.exists():
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return done


# What a round did, the file that a failing run must name, and how many runs it may take.
Round = tuple[str, str, int]


def artifact(project: Project, random_: random.Random) -> Round:
    """Damage a file that the workflow made."""
    silent = random_.random() < 0.6
    victim = random_.choice([victim for victim in VICTIMS if victim.readers or not silent])
    return damaged(project, random_, victim, silent)


def damaged(project: Project, random_: random.Random, victim: Victim, silent: bool) -> Round:
    """Damage a file of a kind."""
    path = choose(project, random_, victim.pattern)
    name = name_of(project, path)
    done = damage(path, random_, silent)
    # Missing files are made again when needed.
    if silent or not path.exists():
        remove(project, victim.readers)
    return f"{'silent' if silent else 'loud'}, {name}: {done}", name, 1 + silent


def run_until(project: Project, *patterns: str) -> None:
    """Run Snakemake until a file is there, and kill it."""
    run = start(project, *SNAKEMAKE)
    while run.poll() is None and not any(list(project.folder.glob(p)) for p in patterns):
        time.sleep(0.02)
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()


def half_done_capture(project: Project, random_: random.Random) -> Round:
    """Damage a finished shard, or its receipt, of a capture that was killed."""
    model = random_.choice(["minilm", "decoder"])
    remove(project, (f"{ACTIVATIONS}/{model}", f"{MEASUREMENTS}/*/{model}"))
    captures = f"{STUDY}/captures"
    # Some shards are finished, or all are and wait to be gathered.
    awaited = random_.choice([f"{captures}/{model}/*/*00001*.json", f"{captures}/{model}.*.json"])
    run_until(project, awaited)
    path = choose(project, random_, f"{captures}/{model}/*/*")
    name = name_of(project, path)
    return f"half-done capture, {name}: {damage(path, random_, False)}", name, 2


def half_done_training(project: Project, random_: random.Random) -> Round:
    """Damage the checkpoint of a training that was killed."""
    remove(project, TRAINING.paths)
    name = "data/partial/decoder/checkpoint.pt"
    run_until(project, name)
    done = damage(project.folder / name, random_, False)
    return f"half-done training, {name}: {done}", name, 1


def record(project: Project, random_: random.Random) -> Round:
    """Damage a record of Snakemake's."""
    path = choose(project, random_, ".snakemake/metadata/*")
    name = name_of(project, path)
    return f"record, {name}: {damage(path, random_, False)}", name, 1


def lock(project: Project, random_: random.Random) -> Round:
    """Leave the locks of dead runs, as on a machine that was switched off."""
    locks = project.folder / ".snakemake/locks"
    locks.mkdir(exist_ok=True)
    for kind in ("input", "output"):
        (locks / f"0.{kind}.lock").write_text("data/metrics.json\n")
    ended = subprocess.Popen(["true"])
    ended.wait()
    path = str(project.folder / STUDY / "figures/perplexity.pdf")
    writing = {"write": {path: {"pid": ended.pid, "cmd": "dvc repro"}}}
    (project.folder / ".dvc/tmp/rwlock").write_text(json.dumps(writing))
    remove(project, (f"{STUDY}/figures/perplexity.*",))
    return "locks of runs that are no more", ".snakemake/locks", 1


def cache(project: Project, random_: random.Random) -> Round:
    """Damage a file in DVC's cache, and let DVC bring it back."""
    victim = random_.choice([v for v in VICTIMS if not v.pattern.startswith(UNCACHED)])
    path = choose(project, random_, victim.pattern)
    digest = hashlib.md5(path.read_bytes()).hexdigest()
    cached = project.folder / ".dvc/cache/files/md5" / digest[:2] / digest[2:]
    before = cached.stat()
    cached.chmod(0o644)
    done = flip(cached, random_)
    os.utime(cached, ns=(before.st_atime_ns, before.st_mtime_ns))
    cached.chmod(before.st_mode)
    path.unlink()
    result = project.run("dvc", "repro", check=False)
    remove(project, victim.readers)
    name = name_of(project, path)
    return f"DVC's copy of {name}: {done}; dvc repro ended with {result.returncode}", name, 2


KINDS = (*[artifact] * 12, *[half_done_capture] * 2, half_done_training, record, lock, cache, cache)


def repaired(project: Project, expected: State, name: str, runs: int) -> tuple[int, str, str]:
    """Run plain Snakemake as often as allowed: return runs taken, what is wrong, output."""
    output = ""
    for number in range(1, runs + 1):
        result = project.snakemake(check=False)
        output += result.stdout
        if result.returncode == 0:
            return number, ", ".join(expected.differences(project)), output
        lines = [line for line in result.stdout.splitlines() if line.startswith("error: ")]
        # Two jobs that read it at once both say it, or the second finds it removed.
        again = all("start again" in line or "start the workflow again" in line for line in lines)
        if not any(name in line for line in lines) or not again or "Traceback" in result.stdout:
            return number, f"did not end with a line that names {name}: {lines}", output
    return runs, f"not repaired by {runs} runs", output


def main(
    corruptions: Annotated[int, typer.Option()] = 20,
    seed: Annotated[int, typer.Option()] = 0,
    only: Annotated[str, typer.Option(help="one kind, for example `cache`")] = "",
    every: Annotated[bool, typer.Option(help="each kind of file, loudly and silently")] = False,
) -> None:
    """Run the rounds, print each and the total, and fail on any difference."""
    random_, different = random.Random(seed), 0
    kinds = [kind for kind in KINDS if only in (kind.__name__, "")]
    rounds = random_.choices(kinds, k=corruptions)
    if every:
        rounds = [
            functools.partial(damaged, victim=victim, silent=silent)
            for victim in VICTIMS
            for silent in (False, True)
            if victim.readers or not silent
        ]
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "project")
        project.snakemake()
        project.run("posenc", "record")
        expected = State.of(project)
        pristine = project.copy(Path(folder) / "pristine")
        for number, kind in enumerate(rounds, start=1):
            done, name, runs = kind(project, random_)
            began = time.monotonic()
            needed, wrong, output = repaired(project, expected, name, runs)
            different += bool(wrong)
            verdict = f"DIFFERENT: {wrong}" if wrong else "same bytes"
            seconds = time.monotonic() - began
            print(f"{number}: {done}; {needed} runs, {seconds:.0f} s: {verdict}", flush=True)
            if wrong:
                print(output[-3000:], flush=True)
            if wrong or kind is cache:  # DVC never writes an object anew
                shutil.rmtree(project.folder)
                pristine.copy(project.folder)
    print(f"{len(rounds)} corruptions, {different} differences")
    raise SystemExit(bool(different))


if __name__ == "__main__":
    typer.run(main)
