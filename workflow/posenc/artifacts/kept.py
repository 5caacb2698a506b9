"""Second names for finished results, so that none is lost: hard links, which take no space.

Failed runs, DVC (before a stage, or at ``dvc checkout``) and people remove files. What was removed
is put back if its receipt still says what is there now. Of each job, only the last result is kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from posenc.artifacts import receipts
from posenc.artifacts.contents import Contents
from posenc.artifacts.files import UNFINISHED, ArtifactError, told
from posenc.artifacts.holder import is_held
from posenc.artifacts.receipts import STANDS_FOR_FOLDER, Receipt

PLACE = Path("data/kept")
OBJECTS = PLACE / "objects"
PARTS = PLACE / "parts"


class MovedError(ArtifactError):
    """What a job read was changed while it was at work."""


def _object(sha256: str) -> Path:
    return OBJECTS / sha256[:2] / sha256


def _link(source: Path, target: Path) -> None:
    """Give a file a second name in place of whatever has it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}{UNFINISHED}")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def keep(path: Path, receipt: Receipt) -> None:
    """Keep a finished result and its receipt; where the disk has no hard links, do nothing.

    Parameters
    ----------
    path
        The receipt's.
    receipt
        The receipt itself; its outputs are there and whole.
    """
    with contextlib.suppress(OSError):
        for name, sha256 in receipt.outputs.items():
            held = _object(sha256)
            if not held.exists() or not os.path.samefile(held, name):
                _link(Path(name), held)
        held = PLACE / path
        if not held.exists() or not os.path.samefile(held, path):
            _link(path, held)


@contextlib.contextmanager
def parts(path: Path, outputs: Collection[str]) -> Iterator[None]:
    """Keep each file that a job finishes, beginning with those of a run that was interrupted.

    A job that was killed goes on from the runs and masks that it had finished, also where DVC has
    emptied their folder since. The step judges by itself whether they are current; after a
    :class:`MovedError` it could not, and all that the job has written goes.

    Parameters
    ----------
    path
        The receipt's.
    outputs
        Files that the job makes.
    """
    folder = _parts_of(path)

    def belongs(name: Path) -> bool:
        return os.fspath(name) in outputs or any(
            os.fspath(name.parent / whole) in outputs for whole in STANDS_FOR_FOLDER
        )

    written: list[Path] = []

    def keep_part(name: Path) -> None:
        written.append(name)
        with contextlib.suppress(OSError):
            if belongs(name):
                _link(name, folder / name)

    held = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    # What stands for a folder comes last: it is not there without the others.
    back = sorted(filter(belongs, held), key=lambda name: name.name in STANDS_FOR_FOLDER)
    with contextlib.suppress(OSError):
        _clear(back)
        for name in back:  # in place of the last whole result, which is older
            _link(folder / name, name)
    with told(keep_part):
        try:
            yield
        except MovedError:
            # After its front end was killed, what is there may be of who came since, such as DVC.
            for name in written if is_held(Path()) else ():
                name.unlink(missing_ok=True)
            forget_parts(path)
            raise
    forget_parts(path)


def forget_parts(path: Path) -> None:
    """Of a job whose result is whole, by the path of its receipt."""
    shutil.rmtree(_parts_of(path), ignore_errors=True)


def _parts_of(path: Path) -> Path:
    return PARTS / quote(os.fspath(path), safe="")


def keep_all(contents: Contents, study: str) -> None:
    """Keep the results of a study that are whole, as after ``dvc pull``."""
    for folder in (Path("data") / receipts.FOLDER, Path("data/studies") / study / receipts.FOLDER):
        for path in folder.rglob("*.json"):
            held = PLACE / path
            if path.name.startswith(".") or (held.exists() and os.path.samefile(held, path)):
                continue
            receipt = receipts.read(path)
            if receipt is not None and all(
                contents.digest(name) == sha256 for name, sha256 in receipt.outputs.items()
            ):
                keep(path, receipt)


def restore(path: Path, receipt: Receipt, contents: Contents) -> bool:
    """Put a kept result back in its place, if all of it is whole.

    Returns
    -------
    bool
        Whether it is back.
    """
    for sha256 in receipt.outputs.values():
        if contents.digest(_object(sha256)) != sha256:
            return False
    try:
        _clear([Path(name) for name in receipt.outputs])
        for name, sha256 in receipt.outputs.items():
            if contents.digest(name) != sha256:
                _link(_object(sha256), Path(name))
        _link(PLACE / path, path)
    except OSError:
        return False
    return True


def _clear(wanted: Collection[Path]) -> None:
    """Remove other files from folders that one of the wanted files stands for."""
    for folder in {name.parent for name in wanted if name.name in STANDS_FOR_FOLDER}:
        for other in folder.iterdir() if folder.is_dir() else ():
            if other not in wanted and not other.name.startswith("."):
                is_folder = other.is_dir() and not other.is_symlink()
                shutil.rmtree(other) if is_folder else other.unlink()


def every(study: str = "*") -> list[tuple[Path, Receipt]]:
    """Receipts of kept results, each with its path in the project.

    Parameters
    ----------
    study
        A study's name, for its own receipts and those that studies share; by default, all studies.
    """
    results = []
    for folder in ("data", f"data/studies/{study}"):
        for path in sorted(PLACE.glob(f"{folder}/{receipts.FOLDER}/**/*.json")):
            if not path.name.startswith(".") and (receipt := receipts.read(path)) is not None:
                results.append((path.relative_to(PLACE), receipt))
    return results


def restore_all(
    contents: Contents, study: str, say: Callable[[str], None], within_dvc: bool = False
) -> None:
    """Put back what was removed or replaced, if it is what would be made now.

    Parameters
    ----------
    contents
        What is there.
    study
        The name of the study whose results these are.
    say
        Receives one line, if anything came back.
    within_dvc
        Also put back what is not current: DVC has removed the outputs of a stage, of which jobs
        keep the runs that are current.
    """
    lacking = {}
    for path, receipt in every(study):
        is_whole = all(contents.digest(name) == sha for name, sha in receipt.outputs.items())
        if not is_whole or receipts.read(path) != receipt:
            lacking[path] = receipt
    back = 0
    while lacking:  # another result may have been made of what comes back
        ready = [
            path
            for path, receipt in lacking.items()
            if all(contents.digest(name) == sha256 for name, sha256 in receipt.inputs.items())
        ]
        if not ready:
            break
        for path in ready:
            back += restore(path, lacking.pop(path), contents)
    for path, receipt in lacking.items() if within_dvc else ():
        if not path.exists() and not any(Path(name).exists() for name in receipt.outputs):
            back += restore(path, receipt, contents)
    if back:
        say(f"brought back {back} result{'s' * (back > 1)} that had been removed or changed")


def prune(of_study: Path, wanted: Iterable[Path], unfinished: Iterable[Path] = ()) -> None:
    """Forget results of jobs that a study no longer has, and what no receipt names.

    Parameters
    ----------
    of_study
        The study's folder.
    wanted
        Receipts of its jobs.
    unfinished
        Where its jobs keep what they have not finished, if all of them are done: one that was
        killed may have been replaced by its result in DVC's cache, and does not go on.
    """
    wanted, unfinished = set(wanted), list(unfinished)
    for folder in PARTS.glob("*"):
        path = Path(unquote(folder.name))
        is_done = bool(unfinished) and path in wanted
        if is_done or (path.is_relative_to(of_study) and path not in wanted):
            shutil.rmtree(folder)
    for folder in unfinished:
        shutil.rmtree(folder, ignore_errors=True)
    named = set()
    for path, receipt in every():
        if path.is_relative_to(of_study) and path not in wanted:
            (PLACE / path).unlink(missing_ok=True)
        else:
            named |= set(receipt.outputs.values())
    for held in OBJECTS.glob("*/*"):
        if held.name not in named:
            held.unlink(missing_ok=True)
