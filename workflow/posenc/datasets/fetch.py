"""Fetch a data set's raw file: from the web, this machine, the hub, or the seeded grammar."""

from __future__ import annotations

import errno
from pathlib import Path

from posenc.artifacts.files import atomic_file, sha256_file
from posenc.datasets import folder
from posenc.datasets.download import copy, download
from posenc.datasets.errors import DatasetError
from posenc.datasets.section import (
    HubSource,
    PathSource,
    SampleSource,
    Source,
    UrlSource,
)

BATCH_ROWS = 4096


def fetch(source: Source, format: str, target: Path, *, name: str = "NAME") -> None:
    """Fetch a data set's raw file to ``target``, verified and atomically.

    Parameters
    ----------
    source
        Where the data set comes from.
    format
        A key of ``posenc.datasets.section.SPLITS``.
    target
        Where the raw file goes. While a download is under way, or after it was interrupted, the
        hidden ``.{target.name}.part`` lies beside it, from which the next call continues.
    name
        The data set's key in ``params.yaml``, for messages.

    Raises
    ------
    DatasetError
        If the file cannot be had or does not have its checksum; nothing is left at ``target``.
    """
    target = Path(target)
    key = f"datasets.{name}.source"
    match source:
        case UrlSource():
            download(source.url, source.sha256, target, key=key)
        case PathSource():
            _fetch_path(source, format, target, key)
        case HubSource():
            _fetch_hub(source, target, key)
        case SampleSource():
            from posenc.datasets.generated.sample import write_sample

            write_sample(source, format, target)


def check_path(source: PathSource, format: str, key: str) -> None:
    """Look for a data set on this machine, and compare its checksum with the one that is meant.

    Parameters
    ----------
    source
        Where it is.
    format
        Of the data set: ``imdb`` may be a folder.
    key
        Of the source in ``params.yaml``, for messages.

    Raises
    ------
    DatasetError
        If it is not there, or has another checksum.
    """
    path = _find(source, format, key)
    _check_digest(source, folder.digest(path) if path.is_dir() else sha256_file(path), key)


def _find(source: PathSource, format: str, key: str) -> Path:
    path = Path(source.path)
    if not path.is_file() and not (path.is_dir() and format == "imdb"):
        what = "no such file"
        if path.is_dir():
            what = f"is a folder, which format: {format} does not read (imdb does)"
        raise DatasetError(
            f"{path}: {what}; put the file there, or change {key}.path in params.yaml "
            f"(a path from the project's root, which is {Path.cwd()})"
        )
    return path


def _check_digest(source: PathSource, actual: str, key: str) -> None:
    if actual != source.sha256:
        raise DatasetError(
            f"{source.path} is not what was expected: sha256 {actual}, but {key}.sha256 in "
            f"params.yaml says {source.sha256}; get it again, or correct {key}.sha256 if this is "
            f"what you mean"
        )


def _fetch_path(source: PathSource, format: str, target: Path, key: str) -> None:
    path = _find(source, format, key)
    with atomic_file(target) as temporary:
        take = folder.pack if path.is_dir() else copy
        _check_digest(source, take(path, temporary), key)


def _fetch_hub(source: HubSource, target: Path, key: str) -> None:
    """Export every split of a hub data set to one Parquet file with a ``split`` column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    splits = _load_from_hub(source, key)
    with atomic_file(target) as temporary:
        writer = None
        try:
            for split, dataset in splits.items():
                for table in dataset.with_format("arrow").iter(batch_size=BATCH_ROWS):
                    column = pa.array([str(split)] * len(table), pa.string())
                    table = table.append_column("split", column).replace_schema_metadata(None)
                    if writer is None:
                        writer = pq.ParquetWriter(
                            temporary, table.schema, compression="zstd", write_page_checksum=True
                        )
                    writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise DatasetError(f"{source.id} at {source.revision} holds no rows; change {key}.id")


def _load_from_hub(source: HubSource, key: str):
    """Return the hub's splits by name, or say why they cannot be had."""
    import datasets

    try:
        return datasets.load_dataset(source.id, source.configuration, revision=source.revision)
    # The hub's client raises whatever its HTTP library, its cache or its parsers raise.
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        reason = " ".join(str(error).split())
        raise DatasetError(
            f"the data set {source.id} at revision {source.revision} cannot be had from the hub "
            f"({type(error).__name__}: {reason[:300]}). If the hub cannot be reached from this "
            f"machine, name a local file in params.yaml: "
            f"{key}: {{kind: path, path: ..., sha256: ...}}; otherwise check {key}.id, "
            f".configuration and .revision"
        ) from error
