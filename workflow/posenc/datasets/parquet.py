"""Parquet files: what ``fetch`` exported from the hub, the hub's own files, and others."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from posenc.datasets.errors import check_once, shown
from posenc.datasets.raw_file import RawFile
from posenc.datasets.rows import SPLIT, Row, Table, unknown_split
from posenc.datasets.streams import PARQUET, opened

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCH_ROWS = 4096


def table_of(raw: RawFile, splits: Collection[str], aliases: Mapping[str, str]) -> Table:
    """A Parquet file as a table; where it has a column ``split``, its rows come split by split.

    Parameters
    ----------
    raw
        The file, compressed or not.
    splits
        The splits of the format, in their order.
    aliases
        The format's name for a split that the hub calls otherwise.

    Raises
    ------
    DatasetError
        If the file is damaged, or, when it is read, has a column twice, or a split under two names.
    """
    with _parquet(raw) as file:
        schema = file.schema_arrow
    names = tuple(schema.names)

    def read(columns: Collection[str]) -> Iterator[Row]:
        wanted = [name for name in dict.fromkeys((*columns, SPLIT)) if name in names]
        check_once(raw, [name for name in names if name in wanted])
        with _parquet(raw) as file:
            table = _with_rows(file.read(wanted).select(wanted))
        for numbers, part in _in_order(raw, table, splits, aliases):
            rows = (row for batch in part.to_batches(BATCH_ROWS) for row in batch.to_pylist())
            for number, values in zip(numbers, rows, strict=True):
                yield Row(f"row {number}", values)

    texts = tuple(part.name for part in schema if _holds_text(part.type))
    return Table(PARQUET, "", tuple(dict.fromkeys(names)), texts, read)


@contextlib.contextmanager
def _parquet(raw: RawFile) -> Iterator[pq.ParquetFile]:
    import pyarrow.parquet as pq

    with opened(raw) as stream:
        file = io.BytesIO(stream.file.read()) if stream.compression else raw.path
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            yield parquet


def _with_rows(table: pa.Table) -> pa.Table:
    """The same table, of which rows can be taken: views of texts become texts."""
    import pyarrow as pa
    import pyarrow.types as types

    fields = [
        part.with_type(pa.large_string()) if types.is_string_view(part.type) else part
        for part in table.schema
    ]
    return table.cast(pa.schema(fields))


def _holds_text(kind: Any) -> bool:
    import pyarrow.types as types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _in_order(
    raw: RawFile, table: pa.Table, splits: Collection[str], aliases: Mapping[str, str]
) -> Iterator[tuple[Iterable[int], pa.Table]]:
    """Rows of each split with their numbers, in the order of the format; all rows without any."""
    import numpy as np
    import pyarrow as pa

    if SPLIT not in table.column_names:
        yield range(1, len(table) + 1), table
        return
    values = table[SPLIT].to_pylist()
    for number, value in enumerate(values, start=1):
        if not isinstance(value, str | None):
            raise unknown_split(raw, f"row {number}", value, splits)
    named = np.array(values, dtype=object)  # [rows]
    originals: dict[Any, Any] = {}
    for name in dict.fromkeys(named.tolist()):
        known = aliases.get(name, name)
        if known in originals:
            raise raw.fault(
                f"has the splits {shown(originals[known])} and {shown(name)}, which are two names "
                f"of one",
                "keep one of them",
            )
        originals[known] = name
    # What the format does not know comes last, and is refused there.
    for split in (*splits, *(name for name in originals if name not in splits)):
        if split in originals:
            chosen = named == originals[split]  # [rows]
            yield np.flatnonzero(chosen) + 1, table.filter(pa.array(chosen))
