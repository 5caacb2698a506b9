"""What heads make of positions alone: where they look, and how much of it is a mask (C3, C6)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.config.base import Length, Section
from posenc.measurements.declaration import MATRICES, MODEL, WEIGHTS, Measurement
from posenc.measurements.of_tables import Subject, of_tables
from posenc.measurements.relative_attention import number, of_head
from posenc.metrics.head_offsets import head_offsets
from posenc.metrics.patterns import softmax
from posenc.metrics.position_scores import distance_parts
from posenc.metrics.relative_attention import position_input

INPUT = "layer normalisation of the position embedding alone: no token embedding is added"


class PositionHeads(Section):
    """What heads make of positions alone: where they look, how much is a mask (C3, C6)."""

    rows: Annotated[Length, Field(ge=16)]
    """How many positions, from the first one on, are measured."""
    offsets: Annotated[Length, Field(ge=2)]
    """Mean offsets are of the attention from -offsets to +offsets."""


MEASUREMENT = Measurement(
    "position_heads", PositionHeads, of=MODEL, reads=(WEIGHTS, MATRICES), catalogue=("C3", "C6")
)


def measure(parameters: PositionHeads, subject: Subject) -> dict[str, Any]:
    """All heads, layer after layer, of a model or of a file with its query and key maps.

    Raises
    ------
    ArtifactError
        If the maps do not fit the table, or there are too few positions for the offsets.
    """
    if subject.heads is None:
        reason = f"{subject.name} is a table alone: it needs query and key maps, and their n_heads"
        return {"status": "not run", "reason": reason, "heads": []}
    heads = subject.heads()
    positions = subject.positions[: parameters.rows]  # [rows, d_model]
    if len(positions) <= 2 * parameters.offsets:
        raise ArtifactError(
            f"{subject.name} has {len(positions)} positions, too few for offsets of "
            f"{parameters.offsets}: lower measurements.position_heads.offsets in params.yaml"
        )
    found = []
    for layer in range(heads.n_layers):
        gain, bias = heads.input_norm(layer)
        if len(gain) != positions.shape[1]:
            raise ArtifactError(
                f"{subject.name}: positions have the width {positions.shape[1]}, layer {layer} "
                f"has {len(gain)}"
            )
        x = position_input(positions, 0.0, gain, bias, heads.eps)  # [rows, d_model]
        x = np.hstack([x, np.ones((len(x), 1))])  # [rows, d_model + 1]
        query, key = heads.heads(layer)  # [n_heads, d_model + 1, d_head] each
        found += of_layer(layer, x, query, key, parameters.offsets, causal=heads.is_decoder)
    return {
        "is_causal": heads.is_decoder,
        "n_layers": heads.n_layers,
        "n_heads": heads.n_heads,
        "rows": len(positions),
        "input": INPUT,
        "heads": found,
    }


def of_layer(
    layer: int,
    x: NDArray[np.float64],  # [rows, d]
    query: NDArray[np.float64],  # [n_heads, d, d_head]
    key: NDArray[np.float64],  # [n_heads, d, d_head]
    offsets: int,
    *,
    causal: bool,
) -> list[dict[str, Any]]:
    """What is kept of the heads of one layer."""
    looked = head_offsets(x, query, key, offsets, causal=causal)
    parts = distance_parts(looked.scores, causal=causal)
    first = softmax(looked.scores.copy(), causal=causal)[..., 0].mean(axis=-1)  # [n_heads]
    return [
        {
            "layer": layer,
            **{k: v for k, v in of_head(looked, head).items() if k in KEPT},
            "deviation": float(parts.deviation[head]),
            "distance_share": number(parts.share[head]),
            "first_score": float(parts.first[head]),
            "first_mass": float(first[head]),
            "distances": {
                "from": 0 if causal else 1 - len(x),
                "bias": np.round(parts.curve[head], 3).tolist(),
            },
        }
        for head in range(len(query))
    ]


KEPT = ("head", "predicted_lag", "profile", "pairs", "pairs_share")
"""Of what :mod:`posenc.measurements.relative_attention` says of a head."""

main = of_tables(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
