"""Read rows of a Parquet file that ``fetch`` exported from the hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posenc.datasets.errors import DatasetError


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
            twice = [name for name in (*columns, "split") if names.count(name) > 1]
            if twice:
                raise DatasetError(
                    f"{path} has the column {', '.join(map(repr, twice))} more than once: which "
                    f"one is meant? Remove or rename the others"
                )
            table = file.read([*columns, "split"])
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(
            f"{path} is truncated or corrupt ({error}); delete it and run again to fetch it anew"
        ) from error
    originals: dict[str, str] = {}
    for name in pc.unique(table["split"]).to_pylist():
        if aliases.get(name, name) not in splits:
            raise DatasetError(
                f"{path} has the split {name!r}; the format has {', '.join(splits)}: check "
                f"source.id and source.configuration in params.yaml"
            )
        if aliases.get(name, name) in originals:
            raise DatasetError(
                f"{path} has the splits {originals[aliases.get(name, name)]!r} and {name!r}, which "
                f"are two names of one: keep one of them"
            )
        originals[aliases.get(name, name)] = name
    for split in (split for split in splits if split in originals):
        rows = table.filter(pc.equal(table["split"], originals[split]))
        number = 0
        for batch in rows.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                yield {**row, "split": split, "number": number}
                number += 1
