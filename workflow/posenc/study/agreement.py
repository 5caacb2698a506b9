"""What is current is settled before Snakemake plans its jobs, by contents and not by dates.

Each file is recognised by its bytes (:mod:`posenc.study.ledger`), and the inputs that it was made
of are compared with those that are there. A file that no job here made, as after ``git clone`` and
``dvc pull``, is current where DVC's lock file knows both its bytes and its inputs. Snakemake is
then given the dates and records that say the same; everything else is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from posenc.artifacts.files import mark_for_remaking, write_json
from posenc.study import place
from posenc.study.ledger import (
    INDEX,
    STANDS_FOR_FOLDER,
    Job,
    Ledger,
    damaged_part,
)
from posenc.study.records import read_record, record_path, was_edited_meanwhile

LOCK = Path("dvc.lock")
MARK = "POSENC_AGREEING"
"""Set for the Snakemake that is called from here, which does not ask again."""


class AgreementError(RuntimeError):
    """DVC or Snakemake cannot say what is current."""


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
        record = record_path(path)
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


def remember(outputs: Iterable[Path], read: Callable = read_record) -> None:
    """Take what Snakemake has finished into the ledger, while its files are as it left them.

    To be called when a run ends, and before the next is planned.

    Parameters
    ----------
    outputs
        All outputs of the study's rules.
    read
        Gives the record that is to be believed.
    """
    outputs = [path for path in outputs if path.exists()]
    made = set(map(str, outputs))
    with Ledger() as ledger:
        grown = False
        for path in outputs:
            if ledger.is_as_left(path) or ledger.is_changed_beside(path):
                continue
            # A disk forgot something since the file was looked at: no job made it so.
            if ledger.is_altered(path):
                continue
            record = read(path)
            if record is None or (read is read_record and was_edited_meanwhile(record, made)):
                continue
            # Dates do not tell whether a disk forgot something, or another job wrote beside it.
            if damaged_part(path) is not None:
                continue
            ledger.add(path, record)
            grown = True
        if grown:
            ledger.forget_unused()


def agree(outputs: list[Path], study: str, say: Callable[[str], None]) -> list[Path]:
    """Make Snakemake's dates and records say what the contents of files say.

    Parameters
    ----------
    outputs
        All outputs of the study's rules.
    study
        Name of the study, for the Snakemake that is called.
    say
        Receives one line when files were found that Snakemake had not left so.

    Returns
    -------
    list of Path
        Outputs that were there and are gone.

    Raises
    ------
    AgreementError
        If DVC cannot be asked.
    """
    gone, recognised, again = [], 0, 0
    learn_from_dvc([path for path in outputs if path.exists()], study)
    with Ledger() as ledger:
        for path in outputs:
            if not path.exists():
                if ledger.was_seen(path):
                    gone.append(path)
                continue
            left = ledger.left_by(path) if ledger.is_as_left(path) else None
            jobs = _known_jobs(ledger, path, left)
            job = next((job for job in jobs if not ledger.changed_inputs(job)), left)
            if job is None:
                record_path(path).unlink(missing_ok=True)
                mark_for_remaking(path)
                again += 1
                continue
            if job != left:
                ledger.put_back(path, job)
                recognised += 1
            changed = ledger.changed_inputs(job)
            if not changed:
                ledger.put_back_passing(job)
            # Snakemake compares the checksums of newer inputs, and of no others.
            if changed and not any(os.stat(name).st_mtime_ns > job.mtime for name in changed):
                mark_for_remaking(path)
    if recognised or again:
        made = f", {again} are made again" if again else ""
        found = recognised + again
        say(f"{found} files are not as Snakemake left them: {recognised} are recognised{made}")
    return gone


def _known_jobs(ledger: Ledger, path: Path, left: Job | None) -> list[Job]:
    """Jobs that made a file as it is; none where it, or a file that it stands for, is damaged."""
    if left is None:
        return [] if damaged_part(path) is not None else ledger.made_by(path)
    return [left] if not ledger.changed_inputs(left) else [left, *ledger.made_by(path)]


def learn_from_dvc(paths: list[Path], study: str) -> None:
    """Take into the ledger what DVC put in place, and recorded with the inputs that are there.

    The same bytes may be known from other inputs: a stage that DVC ran makes them again. Snakemake
    writes the records, and touches other jobs on its way that it finds out of date: what it says
    of these is not believed, and :func:`agree` undoes it.
    """
    with Ledger() as ledger:
        # After an edit alone, every file is as it was left: DVC has nothing to add.
        any_is_foreign = any(not ledger.is_as_left(path) for path in paths)
        unknown = [
            path
            for path in paths
            if any_is_foreign and all(ledger.changed_inputs(job) for job in ledger.made_by(path))
        ]
    kept = recorded_by_dvc(unknown) if unknown else set()
    if kept:
        for path in kept:
            record_path(path).unlink(missing_ok=True)
        _touch(study, kept)
        remember(kept, lambda path: json.loads(record_path(path).read_text(encoding="utf-8")))


def recorded_by_dvc(paths: list[Path]) -> set[Path]:
    """Those of some files that DVC recorded with these bytes, made of the inputs that are there.

    Only stages of today's ``dvc.yaml`` count: the lock file keeps those of earlier ones.

    Raises
    ------
    AgreementError
        If DVC fails, for example because another DVC command is at work.
    """
    # What DVC cannot vouch for is made again.
    if not LOCK.exists() or place.without_dvc(Path.cwd()):
        return set()
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            changed = set(repo.status())
            recorded: dict[Path, str] = {}
            for stage in repo.index.stages:
                if stage.cmd and stage.addressing not in changed:
                    for out in stage.outs:
                        recorded |= _digests(out, Path(repo.root_dir))
    except DvcException as error:
        raise AgreementError(f"`dvc status` fails: {error}") from None
    return {path for path in paths if _is_recorded(path, recorded)}


def drop_retired() -> list[str]:
    """Remove from ``dvc.lock`` the stages that ``dvc.yaml`` does not have under any study.

    DVC keeps them for ever, and reads them in each command.

    Returns
    -------
    list of str
        Their names.
    """
    from dvc.utils.serialize import modify_yaml
    from ruamel.yaml import YAML

    if not LOCK.exists():
        return []
    files = (Path("dvc.yaml"), LOCK, Path("params.yaml"))
    stages, lock, params = (YAML(typ="safe").load(path.read_text("utf-8")) for path in files)
    named = _stage_names(stages["stages"], params["studies"].values())
    retired = [name for name in lock.get("stages") or {} if name not in named]
    if retired:
        with modify_yaml(str(LOCK)) as lock:
            for name in retired:
                del lock["stages"][name]
    return retired


def _stage_names(stages: Mapping[str, Any], studies: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of all stages, those of a template under each study."""
    studies, names = list(studies), set()
    for template, stage in stages.items():
        loops = [stage["foreach"]] if "foreach" in stage else list(stage.get("matrix", {}).values())
        if not loops:
            names.add(template)
        for study in studies if loops else ():
            items = ("-".join(map(str, one)) for one in product(*(_items(x, study) for x in loops)))
            names |= {f"{template}@{item}" for item in items}
    return names


def _items(loop: Any, study: Mapping[str, Any]) -> Iterable[str]:
    """What a template is made for under a study."""
    key = re.fullmatch(r"\$\{study\.(\w+)\}", loop) if isinstance(loop, str) else None
    return (study.get(key[1]) or ()) if key else loop


def _digests(out, root: Path) -> dict[Path, str]:
    """MD5 of each file of a stage's output; of a folder that is not in DVC's cache, of none."""
    place = Path(out.fs_path).relative_to(root)
    if out.hash_info is None or not out.hash_info.value:
        return {}
    if not out.hash_info.isdir:
        return {place: out.hash_info.value}
    tree = out.get_obj()
    return {place.joinpath(*key): digest.value for key, _, digest in tree} if tree else {}


def _is_recorded(path: Path, recorded: dict[Path, str]) -> bool:
    """Whether a file, and what it stands for, has the recorded bytes.

    DVC itself goes by dates and sizes once it has put a file in place.
    """
    files = {path}
    if path.name in STANDS_FOR_FOLDER:
        files |= {other for other in recorded if other.parent == path.parent}
        files |= {other for other in path.parent.iterdir() if not other.name.startswith(".")}
    return all(other in recorded and _md5(other) == recorded[other] for other in files)


def _md5(path: Path) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest()
    except OSError:
        return None


def _touch(study: str, paths: Iterable[Path]) -> None:
    """Have Snakemake record files as they are."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    command = ["snakemake", "--cores", "1", "--config", f"study={study}",
               "--touch", "--force", "--quiet", "all", "--", *map(str, sorted(paths))]  # fmt: skip
    environment = {**os.environ, "PATH": path, MARK: "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode:
        raise AgreementError(f"`snakemake --touch` fails: {result.stderr.strip()[-2000:]}")


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
