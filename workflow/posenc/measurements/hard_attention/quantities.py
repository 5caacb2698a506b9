"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.hard_attention.result import Attention

PRINTED: Fields = {
    "tokens": Printed(name="queries"),
    "entropy": Printed("entropy of the attention pattern (nats)"),
    "uniform": Printed("entropy of a uniform pattern (nats)"),
    "soft": Printed("objective of the soft read-out"),
    "hard": Printed("objective of the hard read-out"),
    "noise": Printed(
        "squared error of reading one drawn key, as a share of the soft read-out's square"
    ),
    "noise_anywhere": Printed("the same of reading any key"),
    "values": Printed("heads' own values in place of hidden states"),
    "values.soft": Printed(),
    "values.hard": Printed(),
    "values.noise": Printed(),
    "values.noise_anywhere": Printed(),
}
BASELINES = (
    "mean", "optimal", "mean_over_optimal", "worse", "samples", "samples_optimal",
    *(f"values.{name}" for name in ("mean", "optimal", "samples", "samples_optimal")),
)  # fmt: skip


def of_baselines(result: Attention) -> Facts:
    """The variance of the gradient with each baseline against that with none."""
    none, mean, optimal = result.baselines
    ratio, samples = result.values.ratio, result.values.samples_to_signal
    return {
        "mean": number(mean.ratio),
        "optimal": number(optimal.ratio),
        "mean_over_optimal": number(mean.over_optimal),
        "worse": number(mean.worse),
        "samples": number(none.samples_to_signal),
        "samples_optimal": number(optimal.samples_to_signal),
        "values.mean": number(ratio.mean),
        "values.optimal": number(ratio.optimal),
        "values.samples": number(samples.none),
        "values.samples_optimal": number(samples.optimal),
    }


WORDS = {
    "mean": "variance with the mean as baseline, as a share",
    "optimal": "variance with the best baseline, as a share",
    "mean_over_optimal": "variance with the mean over that with the best baseline",
    "worse": "share of queries that the mean makes worse",
    "samples": "samples until the signal exceeds the noise",
    "samples_optimal": "the same with the best baseline",
}
QUANTITIES = quantities(__package__, "Attention", PRINTED, of_baselines, BASELINES, WORDS)
FIGURE = Exhibit(
    "E1 and E2: soft and hard attention",
    ("hard_attention",),
    height=2.8,
    caption="Variance of the estimated gradient of hard attention against the number of "
    "samples, and against that without a baseline.",
    alt="Line charts: variance of the gradient against the number of samples for each "
    "baseline, and points of its ratio to that without a baseline.",
    drawn="first data set",
)
