"""Fetch a data set's raw file: from the web, this machine, the hub, or the seeded grammar."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

from posenc.artifacts.files import atomic_file, sha256_file
from posenc.datasets import folder, public
from posenc.datasets.download import copy, download
from posenc.datasets.errors import DatasetError
from posenc.datasets.raw_file import RawFile
from posenc.datasets.section import (
    Format,
    HubSource,
    PathSource,
    PublicSource,
    SampleSource,
    Source,
    UrlSource,
)

BATCH_ROWS = 4096


def fetch(source: Source, format: Format, target: Path, *, name: str = "NAME") -> None:
    """Fetch a data set's raw file to ``target``, verified and atomically.

    Parameters
    ----------
    source
        Where the data set comes from.
    format
        A key of ``posenc.datasets.section.SPLITS``.
    target
        Where the raw file goes. While a download is under way, or after it was interrupted, what
        came lies at ``download.part_path(target)``, from which the next call continues.
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
            _fetch_path(source, format, target, name)
        case PublicSource():
            _fetch_public(source, format, target, name)
        case HubSource():
            _fetch_hub(source, target, key)
        case SampleSource():
            from posenc.datasets.generated.sample import write_sample

            write_sample(source, format, target)


def check_path(source: PathSource, format: str, name: str) -> None:
    """Look for a data set on this machine, and compare its checksum with the one that is meant.

    Parameters
    ----------
    source
        Where it is.
    format
        Of the data set: ``imdb`` and ``text`` may be a folder.
    name
        The data set's key in ``params.yaml``, for messages.

    Raises
    ------
    DatasetError
        If it is not there, or has another checksum.
    """
    _check_digest(source, checksum_of(find(source, format, name)), name)


def checksum_of(path: Path) -> str:
    """The checksum of a file, or of a folder."""
    return folder.digest(RawFile(path)) if path.is_dir() else sha256_file(path)


def find(source: PathSource, format: str, name: str) -> Path:
    """The file or folder that a data set is copied from.

    Parameters
    ----------
    source, format, name
        As :func:`check_path`.

    Raises
    ------
    DatasetError
        If it is not there, or is a folder that the format does not read.
    """
    path, key = Path(source.path), f"datasets.{name}.source.path"
    folder.check_format(path, format, f"name a file as {key} in params.yaml")
    if not path.is_file() and not path.is_dir():
        raise DatasetError(
            f"{path}: no such file; put the file there, or change {key} in params.yaml "
            f"(a path from the project's root, which is {Path.cwd()})"
        )
    return path


def _check_digest(source: PathSource, actual: str, name: str) -> None:
    if actual != source.sha256:
        raise DatasetError(
            f"{source.path} is not what was expected: sha256 {actual}, but datasets.{name}.source."
            f"sha256 in params.yaml says {source.sha256}; get it again, or, if this is what you "
            f"mean, run `posenc repin {name}`, which writes `sha256: {actual}` there"
        )


def _fetch_path(source: PathSource, format: str, target: Path, name: str) -> None:
    raw = RawFile.of_source(source, name, find(source, format, name))
    with atomic_file(target) as temporary:
        _check_digest(source, _take_in(raw, temporary, format), name)


def _fetch_public(source: PublicSource, format: Format, target: Path, name: str) -> None:
    place = public.copy_here(source, name)
    if place is None:
        cure = f"get it with a browser, and name your copy with `posenc take {name} PATH`"

        def recognise(part: Path) -> None:
            public.check(RawFile(part, source.url, instead=cure), source, format, name)

        download(source.url, recognise, target, key=f"datasets.{name}.source")
        return
    own = public.own_copy(place, name)
    with atomic_file(target) as temporary:
        _take_in(own, temporary, format)
        taken = RawFile(temporary, own.name, instead=own.instead)
        public.check(taken, source, format, name)


def _take_in(raw: RawFile, temporary: Path, format: str) -> str:
    """Copy a file of this machine, or pack a folder, and return its checksum."""
    if not raw.path.is_dir():
        return copy(raw.path, temporary)
    digest = folder.pack(raw, temporary, format)
    for line in raw.notes():
        print(line, file=sys.stderr)
    return digest


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
