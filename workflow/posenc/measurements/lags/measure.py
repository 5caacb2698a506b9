"""Offsets that weights alone predict against offsets where the attention is (C3, C6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError, read_sealed, sha256_file, unbundled
from posenc.artifacts.results import Interval
from posenc.measurements.declaration import INTACT
from posenc.measurements.frame import Config, Output, Resampling, StudyJob, bootstrap, seal
from posenc.measurements.heads.result import Attention
from posenc.measurements.heads.result import Head as ObservedHead
from posenc.measurements.lags import result
from posenc.measurements.lags.declaration import MEASUREMENT, Lags
from posenc.measurements.relative_attention.result import Head as PredictedHead
from posenc.measurements.relative_attention.result import RelativeOffsets
from posenc.metrics.bootstrap import Estimate
from posenc.metrics.lags import agreement, compare, correlated, over_layers

COMPARED = {
    "peak": ("score_peak", "peak"),
    "profile_peak": ("profile_peak", "peak"),
    "peak_mean": ("score_peak", "mean"),
    "profile_mean": ("profile_mean", "mean"),
}
"""Predicted and observed value of each comparison.

score_peak: the offset with the highest mean score of positions alone; profile_peak, profile_mean:
the peak and the mean offset of the attention that positions alone would give; peak, mean: those of
the attention on text. Means are within the window.
"""


def main(
    config: Config,
    output: Output,
    inputs: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="of relative_attention and heads")
    ],
) -> None:
    """Join the two measurements, head by head, and write OUTPUT."""
    parameters = read_section(config, StudyJob[Lags]).parameters
    read = [
        (path, dict(measurement)) for path in inputs for measurement in unbundled(read_sealed(path))
    ]
    # Documents say of each result whether it was computed in bfloat16.
    precisions = [
        {**measurement["run"], "precision": measurement["precision"]}
        for _, measurement in read
        if "precision" in measurement
    ]
    measured = measure(parameters, [measurement for _, measurement in read])
    measured = measured.model_copy(update={"conditions": precisions})
    digests = {name_of(measurement): sha256_file(path) for path, measurement in read}
    seal(output, MEASUREMENT, {}, measured, parameters, digests)


def measure(parameters: Lags, measurements: Sequence[dict]) -> result.Lags | result.NoLags:
    """Compare all heads of each model on each data set, and of all models together.

    Raises
    ------
    ArtifactError
        If the two measurements keep different offsets.
    """
    joined = list(join(measurements))
    if not joined:
        return result.NoLags(
            status="not run",
            reason="no model has both its weights and the attention of its intact run measured",
            confidence=parameters.confidence,
            comparisons=[],
        )
    comparisons = [
        comparison(parameters, [names["model"]], names["dataset"], points)
        for names, points in joined
    ]
    for dataset in dict.fromkeys(names["dataset"] for names, _ in joined):
        here = [
            (run_names["model"], points)
            for run_names, points in joined
            if run_names["dataset"] == dataset
        ]
        if len(here) > 1:
            models = [model for model, _ in here]
            together = [point for _, points in here for point in points]
            comparisons.append(comparison(parameters, models, dataset, together))
    return result.Lags(confidence=parameters.confidence, comparisons=comparisons)


def join(measurements: Sequence[dict]) -> Iterator[tuple[dict[str, str], list[result.Point]]]:
    """Runs of intact models, and what is predicted and observed of each head."""
    weights = {
        measurement["run"]["model"]: measurement
        for measurement in measurements
        if measurement["measurement"] == "relative_attention"
        and measurement["status"] == "measured"
    }
    for observed in measurements:
        names = observed["run"]
        if observed["measurement"] != "heads" or observed["status"] != "measured":
            continue
        if names["condition"] != INTACT or names["model"] not in weights:
            continue
        predicted, attention = RelativeOffsets.of(weights[names["model"]]), Attention.of(observed)
        if predicted.offsets != attention.offsets:
            raise ArtifactError(
                f"{names['model']}: weights have offsets to {predicted.offsets[-1]}, attention "
                f"to {attention.offsets[-1]}: set offsets of measurements.relative_attention and "
                f"measurements.heads in params.yaml to the same"
            )
        heads = zip(predicted.heads, attention.heads, strict=True)
        yield names, [point(names["model"], *both) for both in heads]


def point(model: str, predicted: PredictedHead, observed: ObservedHead) -> result.Point:
    """What is predicted and observed of one head."""
    if (predicted.layer, predicted.head) != (observed.layer, observed.head):
        raise ArtifactError(f"{model}: the two measurements list different heads; rerun both")
    return result.Point(
        model=model,
        layer=observed.layer,
        head=observed.head,
        score_peak=predicted.predicted_lag,
        profile_peak=predicted.profile.peak,
        profile_mean=predicted.profile.mean_offset,
        peak=observed.peak.offset,
        mean=observed.mean_offset,
        stability=observed.peak.stability,
    )


def comparison(
    parameters: Lags, models: list[str], dataset: str, points: list[result.Point]
) -> result.Comparison:
    """All comparisons of some heads; heads are resampled within their model."""
    settings = bootstrap(parameters)
    first = [head for head in points if head.layer == 0]
    results = {}
    for name, of_heads in compared(settings, models, points).items():
        heads = Heads.of(points, models, name)
        results[name] = result.Correlation(
            **{field: getattr(of_heads, field) for field in of_heads.model_fields_set},
            over_layers=heads.over_layers(settings),
            by_layer=heads.by_layer(),
        )
    return result.Comparison(
        run=result.Compared(models=models, dataset=dataset, condition=INTACT),
        heads=len(points),
        results=results,
        # What weights alone predict supposes an input that only the first block really has.
        first_layer=compared(settings, models, first),
        held_out=held_out(settings, models, points),
        points=points,
    )


class Heads(NamedTuple):
    """The heads of which a comparison has both values, [heads] each."""

    predicted: NDArray[np.float64]
    found: NDArray[np.float64]
    layers: NDArray[np.int64]
    groups: NDArray[np.int64]
    """Model of each, by its place in the list of models."""

    @classmethod
    def of(cls, points: Sequence[result.Point], models: list[str], name: str) -> Heads:
        """Those of ``points`` that have both values of a comparison."""
        predicted, observed = COMPARED[name]
        values = [(getattr(head, predicted), getattr(head, observed)) for head in points]
        both = [place for place, pair in enumerate(values) if None not in pair]
        return cls(
            np.array([values[place][0] for place in both], np.float64),
            np.array([values[place][1] for place in both], np.float64),
            np.array([points[place].layer for place in both], np.int64),
            np.array([models.index(points[place].model) for place in both], np.int64),
        )

    def correlation(self) -> float:
        """The rank correlation; NaN where it is not defined."""
        return float(correlated(self.predicted, self.found, self.groups, ranked=True))

    def over_layers(self, settings: Resampling) -> result.OverLayers:
        """The same with layers as the units of chance."""
        spearman, p, undefined = over_layers(
            self.predicted, self.found, self.layers, groups=self.groups, **settings
        )
        return result.OverLayers(spearman=interval(spearman), p=p, undefined=undefined)

    def by_layer(self) -> list[result.LayerCorrelation]:
        """The rank correlation among the heads of each layer, None where it is not defined."""
        rows = []
        for layer in np.unique(self.layers).tolist():
            inside = self.layers == layer  # [heads]
            value = Heads(*(values[inside] for values in self)).correlation()
            spearman = None if np.isnan(value) else value
            rows.append(result.LayerCorrelation(layer=layer, spearman=spearman))
        return rows


def compared(
    settings: Resampling, models: list[str], points: list[result.Point]
) -> dict[str, result.OfHeads]:
    """The results of each comparison."""
    results = {}
    for name, (predicted, observed) in COMPARED.items():
        x, y, _, groups = Heads.of(points, models, name)
        correlations = compare(x, y, groups=groups, **settings)
        of_heads = result.OfHeads(
            predicted=predicted,
            found=observed,
            heads=len(x),
            spearman=interval(correlations.spearman),
            pearson=interval(correlations.pearson),
            reason=correlations.reason,
            undefined=correlations.undefined,
        )
        # Means are never the same.
        if observed == "peak" and len(x):
            same = agreement(x, y, groups=groups, **settings)
            agreed = result.Agreement(
                share=Interval.of(same.share), chance=Interval.of(same.chance), p=same.p
            )
            of_heads = of_heads.model_copy(update={"agreement": agreed})
        results[name] = of_heads
    return results


def interval(estimate: Estimate | None) -> Interval | None:
    """An estimate as a result has it."""
    return None if estimate is None else Interval.of(estimate)


def held_out(settings: Resampling, models: list[str], points: list[result.Point]) -> result.HeldOut:
    """The comparison that is best in the even layers, judged in the odd ones.

    Of several comparisons the best one looks better than it is: it is judged where it was not
    chosen.
    """
    even, odd = ([head for head in points if head.layer % 2 == rest] for rest in (0, 1))
    values = {name: Heads.of(even, models, name).correlation() for name in COMPARED}
    defined = {name: value for name, value in values.items() if not np.isnan(value)}
    if not defined:
        return result.HeldOut(chosen=None, even=None, odd=None)
    chosen = max(defined, key=defined.__getitem__)
    of_even, of_odd = (
        Heads.of(part, models, chosen).over_layers(settings).spearman for part in (even, odd)
    )
    return result.HeldOut(chosen=chosen, even=of_even, odd=of_odd)


def name_of(measurement: dict) -> str:
    """What a measurement is called among the inputs of another."""
    run = measurement["run"]
    keys = [key for key in ("model", "dataset", "condition") if key in run]
    return "/".join([measurement["measurement"], *(run[key] for key in keys)])


if __name__ == "__main__":
    run(main)
