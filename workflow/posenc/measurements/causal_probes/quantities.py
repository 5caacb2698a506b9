"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import ENDS, Facts, with_spoken
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.artifacts.results import Interval
from posenc.drawing.exhibit import PAPER, Exhibit
from posenc.measurements.probes.quantities import PLACES

if TYPE_CHECKING:
    from posenc.measurements.causal_probes.result import Layer, VariantProbes

WINDOW = "window_"
WINDOWS = tuple(f"{WINDOW}{end}" for end in ENDS)
MASKED = ("zero_alibi", "zero_closed", "placebo_heads", "zero_fitted", "fitted")
VARIANTS = ("intact", "zero", "random", "non_causal", "no_first_key", *MASKED)
"""Variants whose probes documents report, besides windows."""
BEYOND = ("error", "causal", "embedding", "chance", "difference", "gain")
PRINTED: Fields = {"chance": Printed("error of the best constant (tokens)")}
OF_VARIANTS = (
    *(f"{name}.{part}" for name in (*VARIANTS, *WINDOWS) for part in (*PLACES, "difference")),
    *(f"{name}.beyond.{part}" for name in WINDOWS for part in BEYOND),
)


def of_variants(result: VariantProbes) -> Facts:
    """Errors of a ridge probe by variant, at the embedding, where they are least, and last.

    ``difference`` is from the model without its table, at the layer where that one's error is
    least; ``beyond`` is of the same layer, or of the last before it that has enough tokens there.
    """
    by_name = {variant.variant: variant.layers for variant in result.variants}
    reason = Printed(absent="the model, or the study, has no such variant")
    few = Printed(absent="too few tokens are beyond the receptive field")
    layer = by_name["zero"].index(min(by_name["zero"], key=error))
    windows = () if any(name.startswith(WINDOW) for name in by_name) else WINDOWS
    facts: Facts = {}
    for name in with_spoken((*VARIANTS, *windows), by_name):
        layers = by_name.get(name, [])
        parts: dict[str, Interval | None] = dict.fromkeys((*PLACES, "difference"))
        if layers:
            ends = layers[0], min(layers, key=error), layers[-1]
            parts |= zip(PLACES, (end.error for end in ends), strict=True)
            parts["difference"] = layers[layer].difference
        facts |= {f"{name}.{part}": number(value, reason) for part, value in parts.items()}
        if name.startswith(WINDOW):
            there = [own.beyond for own in layers[: layer + 1] if own.beyond]
            for part in BEYOND:
                value = getattr(there[-1], part) if there else None
                facts[f"{name}.beyond.{part}"] = number(value, few if layers else reason)
    return facts


def error(layer: Layer) -> float:
    """Error at a layer."""
    return layer.error.value


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
}
QUANTITIES = quantities(__package__, "VariantProbes", PRINTED, of_variants, OF_VARIANTS, WORDS)
FIGURE = Exhibit(
    "B4 probes",
    ("causal_probes",),
    (PAPER,),
    height=3.4,
    caption="Error of a ridge probe of position by layer, for the first decoder examined. "
    "Left: as it is, and without positions, with its own weights and random ones, without a "
    "causal mask, with the first key hidden, and with attention limited to a window of the last "
    "few tokens. Right: under masks in the place of positions. All probes learn from the same "
    "tokens.",
    alt="Two line charts: error of the position in tokens against layer, a line for each "
    "variant of a decoder and for each mask, and the level of the best constant.",
    drawn="first data set",
)
