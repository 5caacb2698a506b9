"""What DVC put in place, Snakemake learns before it plans its jobs.

Snakemake knows its own outputs by a record of when and from what it made each. A file that
``dvc checkout``, ``dvc pull`` or a restoring ``dvc repro`` wrote, that was copied, or that was
damaged, is another one than its record says. DVC's lock file then decides: where the stage's
inputs and outputs are those that were recorded, the file is current, and Snakemake is told so; all
else is made again. A date alone never decides, so nothing stale passes for current.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import place
from .files import write_json

RECORDS = Path(".snakemake/metadata")
LOCK = Path("dvc.lock")
INDEX = "index.parquet"
END = re.compile(rb'[^\\]"endtime": ([0-9.e+]+)')
"""When a job ended, in Snakemake's record of its output. A record lists all inputs and can be long:
to decode it takes several times as long as to look for the one value."""
STANDS_FOR_FOLDER = (INDEX, "masks.json")
"""Files that are the last of their folder to be written, and hold the checksums of the others."""
MARK = "POSENC_AGREEING"
"""Set for the Snakemake that is called from here, which does not ask again."""


class AgreementError(RuntimeError):
    """DVC or Snakemake cannot say what is current."""


def recorded_end(path: Path) -> float | None:
    """When Snakemake finished making a file, in seconds; None where it has no record of it."""
    try:
        found = END.search(_record(path).read_bytes())
    except OSError:
        return None
    return float(found[1]) if found else None


def _record(path: Path) -> Path:
    # Snakemake's own naming: long names are split into folders.
    name, longest = urlsafe_b64encode(str(path).encode()).decode(), 255
    parts = [name[i : i + longest - 1] for i in range(0, len(name), longest - 1)]
    return RECORDS.joinpath(*("@" + part for part in parts[:-1]), parts[-1])


def is_foreign(path: Path) -> bool:
    """Whether a file exists that is not as Snakemake left it.

    An index stands for its folder, in which it is the last to be written.
    """
    try:
        changed = path.stat().st_mtime
        if changed != recorded_end(path):
            return True
        beside = path.parent.iterdir() if path.name in STANDS_FOR_FOLDER else ()
        return any(other.stat().st_mtime > changed for other in beside)
    except FileNotFoundError:
        return False


def adopt_parts(outputs: Iterable[Path], folder: str, parts: list[str]) -> None:
    """Make the number of jobs that a capture is spread over no matter of what is current.

    Snakemake records the receipts of the parts among the inputs of a store, and would make the
    store again when another number of parts is asked for; its shards are the same.

    Parameters
    ----------
    outputs
        All outputs of the study's rules.
    folder
        Where the receipts lie.
    parts
        Names of the parts now, such as ``1-of-4``.
    """
    for path in outputs:
        if path.name != INDEX:
            continue
        record = _record(path)
        try:
            written = json.loads(record.read_text(encoding="utf-8"))
            receipts = [name for name in written["input"] if name.startswith(f"{folder}/")]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no record, or one of another form: made again, which is never wrong
        models = {Path(name).name.split(".")[0] for name in receipts}
        now = sorted(f"{folder}/{model}.{part}.json" for model in models for part in parts)
        if sorted(receipts) != now:
            others = set(written["input"]) - set(receipts)
            write_json(record, {**written, "input": sorted([*others, *now])})


def as_recorded(paths: list[Path]) -> list[Path]:
    """Those of DVC's files that have the content that was recorded.

    DVC goes by dates and sizes once it has put a file in place, also when its own copy was damaged.
    """
    from dvc.api import DVCFileSystem
    from dvc_data.index import DataIndexDirError

    recorded, whole = DVCFileSystem(), []
    for path in paths:
        try:
            digest = recorded.info(str(path)).get("md5")
        except DataIndexDirError:
            digest = None  # without its cache, DVC does not know what a folder holds
        with open(path, "rb") as file:
            # What has no digest is git's.
            if digest is None or hashlib.file_digest(file, "md5").hexdigest() == digest:
                whole.append(path)
    return whole


def locked() -> dict[str, dict[str, list[str]]]:
    """Paths that each stage of ``dvc.lock`` reads and makes, as ``deps`` and ``outs``."""
    if not LOCK.exists():
        return {}
    from ruamel.yaml import YAML

    stages = YAML(typ="safe").load(LOCK.read_text(encoding="utf-8")) or {}
    return {
        name: {kind: [part["path"] for part in stage.get(kind, [])] for kind in ("deps", "outs")}
        for name, stage in stages.get("stages", {}).items()
    }


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one lies in the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def current_stages(stages: dict[str, dict[str, list[str]]], changed: Iterable[str]) -> set[str]:
    """Stages that are current, together with all that they depend on.

    Parameters
    ----------
    stages
        From :func:`locked`.
    changed
        Stages of which DVC finds an input or output changed.
    """
    stale = {name for name in stages if name in set(changed)}
    grown = True
    while grown:
        made = [out for name in stale for out in stages[name]["outs"]]
        more = {
            name
            for name in stages.keys() - stale
            if any(overlap(dep, out) for dep in stages[name]["deps"] for out in made)
        }
        grown = bool(more)
        stale |= more
    return stages.keys() - stale


def agree(outputs: list[Path], study: str, say: Callable[[str], None]) -> None:
    """Make Snakemake's records fit the files that are there.

    Parameters
    ----------
    outputs
        All outputs of the study's rules.
    study
        Name of the study, for the Snakemake that is called.
    say
        Receives one line when something was found.

    Raises
    ------
    AgreementError
        If DVC cannot be asked.
    """
    foreign = [path for path in outputs if is_foreign(path)]
    if not foreign:
        return
    # What DVC cannot vouch for is made again.
    stages = {} if place.without_dvc(Path.cwd()) else locked()
    made = {name: stage["outs"] for name, stage in stages.items()}
    known = [p for p in foreign if any(overlap(str(p), o) for outs in made.values() for o in outs)]
    current = current_stages(stages, status()) if known else set()
    fresh = [out for name in current for out in made[name]]
    kept = [path for path in foreign if any(overlap(str(path), out) for out in fresh)]
    kept = as_recorded(kept) if kept else []
    stale = [path for path in foreign if path not in set(kept)]
    # A file without a record that is older than its inputs is made again.
    with_record = [str(path) for path in stale if _record(path).exists()]
    for path in stale:
        os.utime(path, (1, 1))  # Snakemake takes 0 for no date
    if with_record:
        _snakemake(study, "--cleanup-metadata", *with_record)
    if kept:
        _snakemake(study, "--touch", "--force", "--quiet", "all", "--", *map(str, kept))
    say(
        f"{len(foreign)} files are not as Snakemake left them: DVC knows {len(kept)} as current"
        + (f", {len(stale)} are made again" if stale else "")
    )


def status() -> list[str]:
    """Stages of which DVC finds an input or output changed.

    Raises
    ------
    AgreementError
        If DVC fails, for example because another DVC command is at work.
    """
    result = _run("dvc", "status", "--json")
    try:
        changed: dict[str, Any] = json.loads(result.stdout)
    except ValueError:
        raise AgreementError(f"`dvc status` fails: {result.stderr.strip()}") from None
    # Its only outputs are sections of params.yaml, which Snakemake has written just now.
    return [name for name in changed if name != "check"]


def _run(*command: str) -> subprocess.CompletedProcess:
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, MARK: "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def _snakemake(study: str, *arguments: str) -> None:
    result = _run("snakemake", "--cores", "1", "--config", f"study={study}", *arguments)
    if result.returncode:
        raise AgreementError(f"`snakemake {arguments[0]}` fails: {result.stderr.strip()[-2000:]}")


def hold_dvc_lock():
    """Hold DVC's lock until this process ends, however it ends.

    DVC would else remove the outputs of a stage first, and find only then that Snakemake is at
    work.

    Returns
    -------
    object
        To be kept; None where there is no DVC repository.

    Raises
    ------
    AgreementError
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
        raise AgreementError(
            "a DVC command is at work in this folder; start again when it has ended"
        ) from None
    return lock
