"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

COMPARED = ("peak", "profile_peak", "peak_mean", "profile_mean")
LAGS = (
    *COMPARED, *(f"{name}.p" for name in COMPARED),
    "lowest_layer", "highest_layer", "chosen.even", "chosen.odd",
    "agreement", "agreement_chance", "heads",
)  # fmt: skip


def lags(comparison: Mapping[str, Any]) -> dict[str, Entry]:
    """Agreement of predicted and found offsets over heads, in each way that they are compared.

    Layers are the units of the intervals, and ``p`` is of permutations within layers. Values of
    single layers are of ``profile_mean``.
    """
    facts: dict[str, Entry] = {}
    for name in COMPARED:
        result = comparison["results"][name]
        over_layers, reason = result["over_layers"], result["reason"] or ""
        facts[name] = estimate(over_layers["spearman"], reason)
        facts[f"{name}.p"] = estimate(over_layers["p"], reason)
    layers = [layer["spearman"] for layer in comparison["results"]["profile_mean"]["by_layer"]]
    defined = [value for value in layers if value is not None]
    for name, of in (("lowest", min), ("highest", max)):
        facts[f"{name}_layer"] = estimate(of(defined) if defined else None)
    held_out = comparison["held_out"]
    for half in ("even", "odd"):
        facts[f"chosen.{half}"] = estimate(held_out[half], "a correlation is not defined")
    peak = comparison["results"]["peak"]["agreement"]
    facts["agreement"] = estimate(peak["share"])
    facts["agreement_chance"] = estimate(peak["chance"])
    facts["heads"] = Number(comparison["heads"])
    return facts


def compared(joined: Mapping[str, Any], models: Sequence[str], dataset: str) -> dict[str, Entry]:
    """Predicted against found offsets, over the heads of some models together."""
    if joined["status"] != "measured":
        return dict.fromkeys(LAGS, NotRun(joined["reason"]))
    for comparison in joined["comparisons"]:
        run = comparison["run"]
        if run["dataset"] == dataset and sorted(run["models"]) == sorted(models):
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
    "where its attention is on real text.",
    alt="Scatter plots: offset found on text against the offset that weights predict, a "
    "point for each head.",
)
