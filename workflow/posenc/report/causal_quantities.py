"""Numbers of position probes under other masks: ``MODEL.DATASET.causal_probes.zero.best``, ..."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.report.position_quantities import PLACES, estimate
from posenc.report.records import Entry

WINDOWS = ("window_4", "window_16", "window_64")
VARIANTS = ("intact", "zero", "random", "non_causal", "no_first_key", *WINDOWS)
"""Variants whose probes are spoken of."""
BEYOND = ("error", "causal", "embedding", "chance", "difference", "gain")
CAUSAL_PROBES = (
    *(f"{name}.{part}" for name in VARIANTS for part in (*PLACES, "difference")),
    *(f"{name}.beyond.{part}" for name in WINDOWS for part in BEYOND),
    "chance",
)  # fmt: skip


def causal_probes(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Errors of a ridge probe by variant, at the embedding, where they are least, and last.

    ``difference`` is from the model without its table, at the layer where that one's error is
    least; ``beyond`` is of the same layer, or of the last before it that has enough tokens there.
    """
    by_name = {entry["variant"]: entry["layers"] for entry in one["variants"]}
    reason = "the model, or the study, has no such variant"

    def error(layer: Mapping[str, Any]) -> float:
        return layer["error"]["value"]

    layer = by_name["zero"].index(min(by_name["zero"], key=error))
    found = {"chance": estimate(one["chance"])}
    for name in VARIANTS:
        layers = by_name.get(name)
        parts = dict.fromkeys((*PLACES, "difference"))
        if layers:
            ends = layers[0], min(layers, key=error), layers[-1]
            parts = dict(zip(PLACES, (end["error"] for end in ends), strict=True))
            parts["difference"] = layers[layer]["difference"]
        found |= {f"{name}.{part}": estimate(value, reason) for part, value in parts.items()}
        if name in WINDOWS:
            there = [own["beyond"] for own in (layers or [])[: layer + 1] if own["beyond"]]
            beyond = there[-1] if there else dict.fromkeys(BEYOND)
            why = "too few tokens are beyond the receptive field" if layers else reason
            found |= {f"{name}.beyond.{part}": estimate(beyond[part], why) for part in BEYOND}
    return found


OF_CELLS = {"causal_probes": (causal_probes, CAUSAL_PROBES)}
"""As in :mod:`posenc.report.position_quantities`."""
