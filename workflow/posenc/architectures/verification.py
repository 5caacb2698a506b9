"""What was verified of a model, in lines, from the file beside its weights: without loading it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.architectures.needs import Need
from posenc.architectures.table import VERIFICATION
from posenc.artifacts.files import read_json

NEEDS = (Need.LOSS, Need.PATTERNS, Need.REMOVABLE, Need.PACKED, Need.MAPS, Need.NORM_PATH)
"""What is said about a model beside how its positions come in."""


def lines_of(name: str, record: Mapping[str, Any]) -> list[str]:
    """What a verification says, in a few lines."""
    kind = "decoder" if record["is_causal"] else "encoder"
    sizes = f"{record['n_layers']} layers of {record['n_heads']} heads, d_model {record['d_model']}"
    positions = {"none": "no positions that are known"}.get(
        record["position"], f"positions by a {record['position']}"
    )
    can = record["can"]
    holds = [need for need in NEEDS if can.get(need, "") is None]
    lines = [
        f"{name}: {record['model_type']}, {kind}, {sizes}, {positions}",
        f"compared with transformers {record['library']}: {', '.join(holds) or 'nothing'} hold",
    ]
    lines += [f"not {need}: {can[need]}" for need in (*NEEDS, Need.TURNS) if can.get(need)]
    return lines


def fetched(name: str) -> list[str] | None:
    """What was found out about a model when the workflow fetched it; None if it was not."""
    path = Path("data/models", name, VERIFICATION)
    return lines_of(name, read_json(path)) if path.is_file() else None
