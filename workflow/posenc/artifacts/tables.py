"""Parquet files with metadata, each sealed with its own checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.artifacts.files import (
    SEAL,
    UNSEALED,
    ArtifactError,
    atomic_file,
    check_parquet,
    seal_parquet,
)

if TYPE_CHECKING:
    import pyarrow as pa


def write_table(table: pa.Table, path: Path, metadata: Mapping[str, Any]) -> None:
    """Write a Parquet file atomically, with JSON metadata ``posenc`` and its own checksum."""
    import pyarrow.parquet as pq

    text = json.dumps(metadata, sort_keys=True)
    table = table.replace_schema_metadata({"posenc": text, SEAL: UNSEALED})
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)
        seal_parquet(temporary)


def read_table(path: Path, columns: list[str] | None = None) -> tuple[pa.Table, Mapping[str, Any]]:
    """Read a Parquet file written by :func:`write_table`, verified by its own checksum.

    Raises
    ------
    DamagedError
        If the file is truncated or altered.
    ArtifactError
        If it is absent, or not written by this project.
    """
    import pyarrow.parquet as pq

    check_parquet(path)
    table = pq.read_table(path, columns=columns)
    metadata = (table.schema.metadata or {}).get(b"posenc")
    if metadata is None:
        raise ArtifactError(f"{path} was not written by this project: it has no metadata")
    return table, json.loads(metadata)
