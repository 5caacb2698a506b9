"""Recording a study in DVC: its entries of ``dvc.lock``, beside those of other studies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

from posenc.artifacts.files import JsonObject, atomic_file
from posenc.study.params import Params
from posenc.study.phases import PHASES, PIPELINE, is_pipeline_ours

LOCK = Path("dvc.lock")


class RecordError(RuntimeError):
    """The results cannot be recorded."""


def _entries() -> dict[str, JsonObject]:
    """What DVC has recorded, by stage."""
    from ruamel.yaml import YAML

    if not LOCK.exists():
        return {}
    return (YAML(typ="safe", pure=False).load(LOCK.read_text("utf-8")) or {}).get("stages") or {}


def _md5(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def record(
    params: Params,
    run: Callable[..., CompletedProcess],
    is_current: Callable[[], bool],
    has_documents: bool = True,
) -> list[str]:
    """Commit the active study's results to DVC, if they are current before and after.

    Parameters
    ----------
    params
        The parameters that the results were judged by.
    run
        Runs a command and returns what it printed.
    is_current
        Judges whether there is nothing to make.
    has_documents
        Whether LaTeX made the study's documents.

    Returns
    -------
    list of str
        Stages that were dropped from the lock file, because no study has them.

    Raises
    ------
    RecordError
        If something is to be made, DVC fails, or something was edited meanwhile; the lock file is
        as it was then.
    """
    if not is_current():
        raise RecordError("the study is not complete or not current: run `snakemake` first")
    earlier = LOCK.read_bytes() if LOCK.exists() else None
    study = params.study.name
    try:
        result = run("dvc", "commit", "--force", *_targets(study, has_documents))
        if result.returncode:
            raise RecordError(result.stderr.strip() or result.stdout.strip())
        # DVC reads files when it notes them: what was saved meanwhile is not what was judged.
        if not _is_of_now(study) or not is_current():
            raise RecordError(
                "params.yaml, the code or a text was edited meanwhile: run `snakemake`, then record"
            )
        return _drop_retired(params)
    except RecordError:
        if earlier is None:
            LOCK.unlink(missing_ok=True)
        else:
            with atomic_file(LOCK) as temporary:
                temporary.write_bytes(earlier)
        raise


def _targets(study: str, has_documents: bool) -> list[str]:
    """What DVC has to record: its file as a whole, or by stage where not all of it is ours.

    DVC reads and writes its whole lock file for each target.
    """
    if has_documents and is_pipeline_ours():
        return [str(PIPELINE)]
    documents = () if has_documents else ("paper",)
    return [f"{stage}@{study}" for stage in ("check", *PHASES) if stage not in documents]


def _is_of_now(study: str) -> bool:
    """Whether the lock file has what people write as it is now."""
    for dep in _entries().get(f"check@{study}", {}).get("deps", ()):
        path = Path(dep["path"])
        if path.is_file() and _md5(path) != dep["md5"]:
            return False
    return True


def _drop_retired(params: Params) -> list[str]:
    """Remove entries of stages that no study has; those of other studies stay."""
    named = {f"{stage}@{study}" for stage in ("check", *PHASES) for study in params.studies}
    retired = [name for name in _entries() if name not in named]
    if retired:
        from dvc.utils.serialize import modify_yaml

        with modify_yaml(str(LOCK)) as lock:
            for name in retired:
                del lock["stages"][name]
    return retired


def unrecorded(study: str) -> Iterator[str]:
    """Say which phases of a study have results that are not recorded, a line each."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            status = repo.status()
    except DvcException as error:
        yield f"DVC cannot say what is recorded: {error}"
        return
    for stage in sorted(status):
        name, _, of = stage.partition("@")
        if of == study and name in PHASES:
            yield f"not recorded: {name} of study {study!r}; `posenc record` records it"
