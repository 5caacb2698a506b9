"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import ENDS, Entry, Quantities, estimate, with_spoken
from posenc.drawing.exhibit import PAPER, Exhibit
from posenc.measurements.probes.quantities import PLACES

WINDOW = "window_"
WINDOWS = tuple(f"{WINDOW}{end}" for end in ENDS)
MASKED = ("zero_alibi", "zero_closed", "placebo_heads", "zero_fitted", "fitted")
VARIANTS = ("intact", "zero", "random", "non_causal", "no_first_key", *MASKED)
"""Variants whose probes documents report, besides windows."""
BEYOND = ("error", "causal", "embedding", "chance", "difference", "gain")
CAUSAL_PROBES = (
    *(f"{name}.{part}" for name in (*VARIANTS, *WINDOWS) for part in (*PLACES, "difference")),
    *(f"{name}.beyond.{part}" for name in WINDOWS for part in BEYOND),
    "chance",
)


def causal_probes(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Errors of a ridge probe by variant, at the embedding, where they are least, and last.

    ``difference`` is from the model without its table, at the layer where that one's error is
    least; ``beyond`` is of the same layer, or of the last before it that has enough tokens there.
    """
    by_name = {entry["variant"]: entry["layers"] for entry in measurement["variants"]}
    reason = "the model, or the study, has no such variant"

    def error(layer: Mapping[str, Any]) -> float:
        return layer["error"]["value"]

    layer = by_name["zero"].index(min(by_name["zero"], key=error))
    numbers = {"chance": estimate(measurement["chance"])}
    windows = () if any(name.startswith(WINDOW) for name in by_name) else WINDOWS
    for name in with_spoken((*VARIANTS, *windows), by_name):
        layers = by_name.get(name)
        parts = dict.fromkeys((*PLACES, "difference"))
        if layers:
            ends = layers[0], min(layers, key=error), layers[-1]
            parts = dict(zip(PLACES, (end["error"] for end in ends), strict=True))
            parts["difference"] = layers[layer]["difference"]
        numbers |= {f"{name}.{part}": estimate(value, reason) for part, value in parts.items()}
        if name.startswith(WINDOW):
            there = [own["beyond"] for own in (layers or [])[: layer + 1] if own["beyond"]]
            beyond = there[-1] if there else dict.fromkeys(BEYOND)
            why = "too few tokens are beyond the receptive field" if layers else reason
            numbers |= {f"{name}.beyond.{part}": estimate(beyond[part], why) for part in BEYOND}
    return numbers


WORDS = {
    "intact": "the model as it is",
    "zero": "without positions",
    "random": "without positions, random weights",
    "non_causal": "without positions, no causal mask",
    "no_first_key": "without positions, the first key hidden",
    "window_": "without positions, the last {} tokens seen",
    "difference": "error, more than without positions alone (tokens)",
    "beyond": "tokens beyond the receptive field",
    "error": "error of the position (tokens)",
    "causal": "error with all earlier tokens seen (tokens)",
    "gain": "error, less than that of the embedding (tokens)",
    "chance": "error of the best constant (tokens)",
}
QUANTITIES = Quantities(read=causal_probes, names=CAUSAL_PROBES, words=WORDS)
FIGURE = Exhibit(
    "B4 probes",
    ("causal_probes",),
    (PAPER,),
    height=3.4,
    caption="Error of a ridge probe of position by layer, for the first decoder examined. "
    "Left: as it is, and without positions, with its own weights and random ones, without a "
    "causal mask, with the first key hidden, and with windows of so many tokens. Right: under "
    "masks in the place of positions. All probes learn from the same tokens.",
    alt="Two line charts: error of the position in tokens against layer, a line for each "
    "variant of a decoder and for each mask, and the level of the best constant.",
)
