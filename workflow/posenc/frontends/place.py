"""What the project's folder allows: DVC needs git, and Snakemake needs to write."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from posenc.artifacts.holder import BusyError

REFUSALS = (errno.EROFS, errno.EACCES, errno.EPERM)


class ReadOnlyError(RuntimeError):
    """Something has to be written in a folder that cannot be."""


def without_dvc(root: Path) -> str | None:
    """Why DVC is not used in a copy of the project; None where it is.

    Parameters
    ----------
    root
        The project's folder.
    """
    if not (root / ".dvc").is_dir():
        return "there is no folder .dvc here: copy the whole project"
    if (problem := _unreadable(root)) is not None:
        return problem
    if any(_is_checkout(folder) for folder in (root.resolve(), *root.resolve().parents)):
        return None
    from dvc.config import Config

    if Config(str(root / ".dvc"))["core"].get("no_scm"):
        return None
    way_out = "`dvc config --local core.no_scm true` lets DVC work without one"
    return f"this copy has no git repository; {way_out}"


def _unreadable(root: Path) -> str | None:
    """Which of DVC's files is no YAML, such as one with the marks of a merge."""
    for name in ("dvc.yaml", "dvc.lock"):
        try:
            yaml.compose((root / name).read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except FileNotFoundError:
            continue
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = "" if mark is None else f" (line {mark.line + 1})"
            way_out = f"`git checkout {name}` brings the committed file back"
            return f"DVC cannot read {name}{line}: {way_out}"
    return None


def _is_checkout(folder: Path) -> bool:
    git = folder / ".git"
    if git.is_file():  # of a worktree: it names a folder, which a copy may not have
        named = git.read_text(encoding="utf-8", errors="replace").removeprefix("gitdir:").strip()
        return (folder / named).is_dir()
    return git.is_dir()


def commit(root: Path) -> str:
    """The commit that is checked out, and whether something was edited since; in words."""
    try:
        outputs = [
            subprocess.run(
                ["git", *command], cwd=root, capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (("rev-parse", "HEAD"), ("status", "--porcelain", "-uno"))
        ]
    except (OSError, subprocess.CalledProcessError):
        return "none, there is no git repository here"
    return f"{outputs[0]}{', with edits that are not committed' if outputs[1] else ''}"


def refuse_read_only(root: Path) -> None:
    """Stop where nothing can be written: Snakemake keeps records even of a dry run.

    Raises
    ------
    ReadOnlyError
        With the folder, and the way out.
    """
    for folder in (root, root / ".snakemake"):
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            raise _refusal(folder)


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Say in one line which folder cannot be written when a write is refused.

    Raises
    ------
    ReadOnlyError
        With the folder, and the way out.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        # The file itself may be a temporary one.
        raise _refusal(root / os.path.dirname(error.filename or "")) from None


def _refusal(folder: Path) -> ReadOnlyError:
    return ReadOnlyError(
        f"{folder.resolve()} cannot be written, and planning writes as running does: "
        f"work in a copy of the project that is yours (cp -a, or git clone)"
    )


def hold_dvc_lock() -> Any:
    """Hold DVC's lock until this process ends, however it ends.

    Otherwise DVC would first remove the outputs of a stage, and only then find Snakemake at work.

    Returns
    -------
    object
        The lock, to be kept; None where there is no DVC repository.

    Raises
    ------
    BusyError
        If a DVC command holds it.
    """
    if not Path(".dvc").is_dir():
        return None
    from dvc.lock import LockError, make_lock

    folder = Path(".dvc/tmp")
    folder.mkdir(exist_ok=True)
    lock = make_lock(str(folder / "lock"), tmp_dir=str(folder))
    try:
        lock.lock()
    except LockError:
        raise BusyError(
            "a DVC command is running in this folder; start again when it has ended"
        ) from None
    return lock
