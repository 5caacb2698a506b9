"""What a killed run leaves behind, found and repaired before the next one plans its jobs.

A process that is killed outright cannot clean up: Snakemake leaves its lock, its jobs go on writing
without it, and a Snakemake whose DVC was killed goes on alone. Whoever holds the project
(:mod:`posenc.artifacts.holder`) knows that all of these are left over.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from posenc.artifacts.files import UNFINISHED
from posenc.artifacts.holder import BusyError

JOB = "workflow/job.py"
"""What runs every job: `python workflow/job.py ... -- posenc.steps.capture ...`."""
LOOKS = (
    "dryrun", "summary", "detailed_summary", "dag", "rulegraph", "filegraph", "d3dag", "lint",
    "list_rules", "list_target_rules", "list_changes", "list_input_changes", "list_params_changes",
    "list_untracked", "list_conda_envs", "print_compilation", "containerize", "archive",
    "generate_unit_tests", "unlock",
)  # fmt: skip
"""Options of Snakemake, as its parser calls them, with which it runs no job."""


def _here(root: Path) -> Iterator[psutil.Process]:
    """Other processes that work in the project, without this one's own line of ancestors."""
    me = psutil.Process()
    own = {me.pid, *(process.pid for process in me.parents())}
    for process in psutil.process_iter():
        try:
            if process.pid not in own and Path(process.cwd()) == root:
                yield process
        except (psutil.Error, OSError):
            continue  # ended meanwhile, or another user's


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _runs(process: psutil.Process, program: str) -> bool:
    """Whether a process is a program, however its interpreter was called."""
    code = re.compile(rf"\b(from|import) {program}\b")
    return any(os.path.basename(part) == program or code.search(part) for part in _command(process))


def _is_left_of_dvc(process: psutil.Process) -> bool:
    """Whether it is a Snakemake of a DVC stage whose DVC is gone."""
    try:
        return (
            _runs(process, "snakemake")
            and "DVC_STAGE" in process.environ()
            and not any(_runs(parent, "dvc") for parent in process.parents())
        )
    except psutil.Error:
        return False  # it is ending anyway, or another user's


def end_orphans(root: Path, say: Callable[[str], None], is_alone: bool = True) -> None:
    """End what a killed run left running, and wait until it is gone.

    Parameters
    ----------
    root
        The project's folder.
    say
        Receives a line, if anything was ended.
    is_alone
        Whether no other front end is at work: then every job is left over. Otherwise only what is
        of a DVC that was killed.
    """
    orphans = [
        process
        for process in _here(root.resolve())
        if (is_alone and JOB in _command(process)) or _is_left_of_dvc(process)
    ]
    orphans += [child for process in orphans for child in _children(process)]
    for process in orphans:
        try:
            process.kill()
        except psutil.Error:
            continue
    if orphans:
        psutil.wait_procs(orphans, timeout=10)
        say(f"ended {len(orphans)} processes that a killed run had left running")


def clean_up(root: Path, say: Callable[[str], None]) -> None:
    """Remove the unfinished files and the lock of a killed run; to be called by the holder.

    Parameters
    ----------
    root
        The project's folder.
    say
        Receives one line for each thing that was found.
    """
    # Of single files, and of folders that were just being replaced.
    unfinished = [
        path
        for top in ("data", "paper")
        for name in (f".*{UNFINISHED}", ".*.retired")
        for path in (root / top).rglob(name)
    ]
    for path in unfinished:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if unfinished:
        say(f"removed {len(unfinished)} unfinished files of a run that was killed")
    if not any(_runs(process, "dvc") for process in _here(root.resolve())):
        mend_dvc(root, say)
    locks = list((root / ".snakemake" / "locks").glob("*.lock"))
    for lock in locks:
        lock.unlink(missing_ok=True)
    if locks:
        say("removed the lock of a run that was killed; what it had not finished is made again")


def mend_dvc(root: Path, say: Callable[[str], None]) -> None:
    """Remove DVC's list of the paths in use, if a kill or a full disk cut it: no DVC would start.

    DVC writes it in place. It names processes, of which none is left.
    """
    path = root / ".dvc" / "tmp" / "rwlock"
    try:
        whole = isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
    except OSError:
        return
    except ValueError:
        whole = False
    if not whole:
        path.unlink(missing_ok=True)
        say("removed DVC's list of the paths in use, which a killed run had cut")


@functools.cache
def _parsed(arguments: tuple[str, ...]) -> argparse.Namespace | bool:
    """A command line of Snakemake's; where there is none, whether it ends without an error."""
    from snakemake.cli import get_argument_parser

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return get_argument_parser().parse_args(arguments)
    except SystemExit as end:  # --help and --version, or what is no command line of Snakemake
        return not end.code


def only_looks(arguments: Sequence[str]) -> bool:
    """Whether a call of Snakemake runs no job: a dry run, a summary, a graph, a list, ``--unlock``.

    Snakemake itself knows only when the Snakefile has been read: ``workflow.dryrun`` is false until
    then. ``--touch`` is a run.

    Parameters
    ----------
    arguments
        What follows ``snakemake`` on the command line.
    """
    options = _parsed(tuple(arguments))
    if isinstance(options, bool):
        return options
    if (options.report or options.reporter) and not options.report_after_run:
        return True
    return options.executor == "dryrun" or any(getattr(options, name, None) for name in LOOKS)


def is_forced(arguments: Sequence[str]) -> bool:
    """Whether a call of Snakemake orders jobs again whose results are current."""
    options = _parsed(tuple(arguments))
    if isinstance(options, bool):
        return False
    return any(getattr(options, name, None) for name in ("force", "forceall", "forcerun"))


def refuse_dvc(root: Path) -> None:
    """Stop when DVC reproduces stages in the project, before anything is planned.

    Raises
    ------
    BusyError
        If it does, with the number of its process.
    """
    for process in _here(root.resolve()):
        command = _command(process)
        reproduces = "repro" in command or ("exp" in command and "run" in command)
        elsewhere = {"--temp", "--queue"} & set(command)
        if _runs(process, "dvc") and reproduces and not elsewhere:
            raise BusyError(
                f"`dvc {' '.join(command[2:])}` (process {process.pid}) is running in this folder; "
                f"start again when it has ended"
            )


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []
