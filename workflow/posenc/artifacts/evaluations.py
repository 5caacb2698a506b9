"""Evaluations on disk: a row for each condition and document."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from posenc.artifacts.files import if_whole
from posenc.artifacts.precision import Precision
from posenc.artifacts.tables import read_table

SCHEMA = 1
OUTCOMES = pa.schema(
    [
        ("unit", pa.string()),
        ("document_id", pa.string()),
        ("nll", pa.list_(pa.float32())),
        ("bytes", pa.int64()),
        ("tokens", pa.int32()),
        ("cosine", pa.list_(pa.float64())),
    ]
)
"""One row per unit and document: losses in nats, UTF-8 bytes of the scored text, tokens counted for
the cosine, and by hidden state the sum of their cosines with the intact model."""


class Recorded(NamedTuple):
    """What a file holds of a unit: what it is made of, its rows, what it was computed in."""

    identity: Any
    rows: pa.Table
    precision: Precision


def read(path: Path) -> dict[str, Recorded] | None:
    """What a file holds, by unit; None if it is absent or damaged."""
    whole = if_whole(path, read_table)
    if whole is None:
        return None
    table, metadata = whole
    precision = metadata.get("precision", {})
    return {
        unit: Recorded(identity, table.filter(pc.equal(table["unit"], unit)), precision[unit])
        for unit, identity in metadata.get("units", {}).items()
        if unit in precision
    }
