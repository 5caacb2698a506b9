"""Read rows of a Parquet file that ``fetch`` exported from the hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posenc.datasets.errors import AGAIN, DatasetError, check_once


def read_hub_rows(
    path: Path, columns: tuple[str, ...], splits: tuple[str, ...], aliases: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield rows split by split, each with its ``split`` and its ``number`` within it.

    Parameters
    ----------
    path
        Parquet file with a column ``split``.
    columns
        Names of the other columns that are needed.
    splits
        The splits of the format, in their order.
    aliases
        The format's name for a split that the hub calls otherwise.

    Raises
    ------
    DatasetError
        If the file is damaged, lacks a column, has one twice, or has a split that the format
        does not know, or knows under two names.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            missing = [name for name in (*columns, "split") if name not in names]
            if missing:
                raise DatasetError(
                    f"{path} has no column {', '.join(map(repr, missing))} (it has "
                    f"{', '.join(names)}); check source.id and source.configuration in params.yaml"
                )
            check_once(path, [name for name in names if name in (*columns, "split")])
            table = file.read([*columns, "split"])
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path} is truncated or corrupt ({error}); {AGAIN}") from error
    originals: dict[str, str] = {}
    for name in pc.unique(table["split"]).to_pylist():
        known = aliases.get(name, name)
        if known not in splits:
            raise DatasetError(
                f"{path} has the split {name!r}; the format has {', '.join(splits)}: check "
                f"source.id and source.configuration in params.yaml"
            )
        if known in originals:
            raise DatasetError(
                f"{path} has the splits {originals[known]!r} and {name!r}, which are two names of "
                f"one: keep one of them"
            )
        originals[known] = name
    for split in (split for split in splits if split in originals):
        batches = table.filter(pc.equal(table["split"], originals[split])).to_batches(4096)
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, row in enumerate(rows):
            yield {**row, "split": split, "number": number}
