"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

HARD_ATTENTION = (
    "queries", "entropy", "uniform", "soft", "hard", "mean", "optimal", "mean_over_optimal",
    "worse", "samples", "samples_optimal", "noise", "noise_anywhere",
    *(f"values.{name}" for name in ("soft", "hard", "noise", "noise_anywhere", "mean", "optimal",
                                    "samples", "samples_optimal")),
)  # fmt: skip


def hard_attention(measurement: Mapping[str, Any]) -> Facts:
    """Read-outs, and the variance of the gradient with each baseline against that with none.

    First of hidden states, then of values.
    """
    readouts = ("soft", "hard", "noise", "noise_anywhere")
    numbers: Facts = {"queries": Number(measurement["tokens"])}
    for key in ("entropy", "uniform", *readouts):
        numbers[key] = estimate(measurement[key])
    none, mean, optimal = measurement["baselines"]
    numbers["mean"], numbers["optimal"] = estimate(mean["ratio"]), estimate(optimal["ratio"])
    numbers["mean_over_optimal"] = estimate(mean["over_optimal"])
    numbers["worse"] = estimate(mean["worse"])
    numbers["samples"] = estimate(none["samples_to_signal"])
    numbers["samples_optimal"] = estimate(optimal["samples_to_signal"])
    values = measurement["values"]
    numbers |= {f"values.{key}": estimate(values[key]) for key in readouts}
    numbers |= {f"values.{key}": estimate(values["ratio"][key]) for key in ("mean", "optimal")}
    samples = values["samples_to_signal"]
    numbers["values.samples"] = estimate(samples["none"])
    numbers["values.samples_optimal"] = estimate(samples["optimal"])
    return numbers


WORDS = {
    "entropy": "entropy of the attention pattern (nats)",
    "uniform": "objective of the uniform read-out",
    "soft": "objective of the soft read-out",
    "hard": "objective of the hard read-out",
    "mean": "variance with the mean as baseline, as a share",
    "optimal": "variance with the best baseline, as a share",
    "mean_over_optimal": "variance with the mean over that with the best baseline",
    "worse": "share of queries that the mean makes worse",
    "samples": "samples until the signal exceeds the noise",
    "samples_optimal": "the same with the best baseline",
    "noise": "squared error of reading one drawn key, as a share of the soft read-out's square",
    "noise_anywhere": "the same of reading any key",
    "values": "heads' own values in place of hidden states",
}
QUANTITIES = Quantities(read=hard_attention, names=HARD_ATTENTION, words=WORDS)
FIGURE = Exhibit(
    "E1 and E2: soft and hard attention",
    ("hard_attention",),
    height=2.8,
    caption="Variance of the estimated gradient of hard attention against the number of "
    "samples, and against that without a baseline.",
    alt="Line charts: variance of the gradient against the number of samples for each "
    "baseline, and points of its ratio to that without a baseline.",
)
