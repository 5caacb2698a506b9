"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posenc.artifacts.numbers import Facts, NotRun, Number, Quantities
from posenc.artifacts.printing import Printed, number
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.lags.result import Comparison

COMPARED = ("peak", "profile_peak", "peak_mean", "profile_mean")
LAGS = (
    *COMPARED, *(f"{name}.p" for name in COMPARED),
    "lowest_layer", "highest_layer", "chosen.even", "chosen.odd",
    "agreement", "agreement_chance", "heads",
)  # fmt: skip


def lags(comparison: Comparison) -> Facts:
    """Agreement of predicted and found offsets over heads, in each way that they are compared.

    Layers are the units of the intervals, and ``p`` is of permutations within layers. Values of
    single layers are of ``profile_mean``.
    """
    facts: Facts = {}
    for name in COMPARED:
        result = comparison.results[name]
        why = Printed(absent=result.reason or "")
        facts[name] = number(result.over_layers.spearman, why)
        facts[f"{name}.p"] = number(result.over_layers.p, why)
    layers = [layer.spearman for layer in comparison.results["profile_mean"].by_layer]
    defined = [value for value in layers if value is not None]
    facts["lowest_layer"] = number(min(defined, default=None))
    facts["highest_layer"] = number(max(defined, default=None))
    no_correlation = Printed(absent="a correlation is not defined")
    facts["chosen.even"] = number(comparison.held_out.even, no_correlation)
    facts["chosen.odd"] = number(comparison.held_out.odd, no_correlation)
    peak = comparison.results["peak"].agreement
    facts["agreement"] = number(peak.share if peak else None)
    facts["agreement_chance"] = number(peak.chance if peak else None)
    facts["heads"] = Number(comparison.heads)
    return facts


def compared(joined: Mapping[str, Any], models: Sequence[str], dataset: str) -> Facts:
    """Predicted against found offsets, over the heads of some models together."""
    from posenc.measurements.lags.result import Lags

    if joined["status"] != "measured":
        return dict.fromkeys(LAGS, NotRun(joined["reason"]))
    for comparison in Lags.of(joined).comparisons:
        run = comparison.run
        if run.dataset == dataset and sorted(run.models) == sorted(models):
            return lags(comparison)
    return dict.fromkeys(LAGS, NotRun("no heads to compare"))


WORDS = {
    "peak": "rank correlation of predicted and found peaks",
    "profile_mean": "rank correlation of predicted and found mean offsets",
    "profile_peak": "rank correlation of the peaks of predicted and found attention",
    "peak_mean": "rank correlation of predicted peaks and found mean offsets",
    "p": "p of permutations within layers",
    "lowest_layer": "mean offsets, the layer with the lowest rank correlation",
    "highest_layer": "mean offsets, the layer with the highest rank correlation",
    "chosen": "rank correlation of the comparison that is best in the even layers",
    "even": "in the even layers",
    "odd": "in the odd layers",
    "agreement": "share of equal peaks",
    "agreement_chance": "share of equal peaks by chance",
    "heads": "heads",
}
QUANTITIES = Quantities(words=WORDS)
FIGURE = Exhibit(
    "C3 and C6: lags",
    ("lags",),
    height=4.4,
    caption="Offset that weights and positions alone predict for a head against the offset "
    "where its attention is on text.",
    alt="Scatter plots: offset found on text against the offset that weights predict, a "
    "point for each head.",
)
