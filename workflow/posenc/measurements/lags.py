"""Offsets that weights alone predict against offsets where the attention is (C3, C6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError, read_sealed, sha256_file
from posenc.config.base import Confidence, Samples, Section, Seed
from posenc.measurements.declaration import STUDY, Measurement
from posenc.measurements.frame import Config, Output, StudyJob, bootstrap, seal
from posenc.measurements.results import unbundled
from posenc.metrics.lags import agreement, compare, correlation, over_layers, within

INTACT = "intact"
COMPARED = {
    "peak": ("score_peak", "peak"),
    "profile_peak": ("profile_peak", "peak"),
    "peak_mean": ("score_peak", "mean"),
    "profile_mean": ("profile_mean", "mean"),
}
"""Predicted and found value of each comparison.

score_peak: the offset with the highest mean score of positions alone; profile_peak, profile_mean:
the peak and the mean offset of the attention that positions alone would give; peak, mean: those of
the attention on text. Means are within the window.
"""


class Lags(Section):
    """Offsets that weights predict against offsets where the attention is (C3, C6)."""

    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "lags", Lags, of=STUDY, reads=("relative_attention", "heads"), catalogue=("C3", "C6"),
    uses=("scipy",),
)  # fmt: skip


def main(
    config: Config,
    output: Output,
    inputs: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="of relative_attention and heads")
    ],
) -> None:
    """Join the two measurements, head by head, and write OUTPUT."""
    parameters = read_section(config, StudyJob[Lags]).parameters
    read = [(path, one) for path in inputs for one in unbundled(read_sealed(path))]
    # Documents say of each result whether it was computed in bfloat16.
    precisions = [
        {**one["run"], "precision": one["precision"]} for _, one in read if "precision" in one
    ]
    measured = {**measure(parameters, [one for _, one in read]), "conditions": precisions}
    digests = {name_of(one): sha256_file(path) for path, one in read}
    seal(output, MEASUREMENT, {}, measured, parameters, digests)


def measure(parameters: Lags, measurements: Sequence[dict]) -> dict[str, Any]:
    """Compare all heads of each model on each data set, and of all models together.

    Raises
    ------
    ArtifactError
        If the two measurements keep different offsets.
    """
    joined = list(join(measurements))
    if not joined:
        return {
            "status": "not run",
            "reason": "no model has both its weights and the attention of its intact run measured",
            "confidence": parameters.confidence,
            "comparisons": [],
        }
    comparisons = [
        comparison(parameters, [names["model"]], names["dataset"], points)
        for names, points in joined
    ]
    for dataset in dict.fromkeys(names["dataset"] for names, _ in joined):
        here = [(one["model"], points) for one, points in joined if one["dataset"] == dataset]
        if len(here) > 1:
            models = [model for model, _ in here]
            together = [point for _, points in here for point in points]
            comparisons.append(comparison(parameters, models, dataset, together))
    return {"confidence": parameters.confidence, "comparisons": comparisons}


def join(measurements: Sequence[dict]) -> Iterator[tuple[dict[str, str], list[dict]]]:
    """Runs of intact models, and what is predicted and found of each of their heads."""
    weights = {
        one["run"]["model"]: one for one in measurements
        if one["measurement"] == "relative_attention" and one["status"] == "measured"
    }  # fmt: skip
    for found in measurements:
        names = found["run"]
        if found["measurement"] != "heads" or found["status"] != "measured":
            continue
        if names["condition"] != INTACT or names["model"] not in weights:
            continue
        predicted = weights[names["model"]]
        if predicted["offsets"] != found["offsets"]:
            raise ArtifactError(
                f"{names['model']}: weights have offsets to {predicted['offsets'][-1]}, attention "
                f"to {found['offsets'][-1]}: set offsets of measurements.relative_attention and "
                f"measurements.heads in params.yaml to the same"
            )
        yield (
            names,
            [
                point(names["model"], one, two)
                for one, two in zip(predicted["heads"], found["heads"], strict=True)
            ],
        )


def point(model: str, predicted: dict, found: dict) -> dict[str, Any]:
    """What is predicted and found of one head."""
    if (predicted["layer"], predicted["head"]) != (found["layer"], found["head"]):
        raise ArtifactError(f"{model}: the two measurements list different heads; rerun both")
    return {
        "model": model,
        "layer": found["layer"],
        "head": found["head"],
        "score_peak": predicted["predicted_lag"],
        "profile_peak": predicted["profile"]["peak"],
        "profile_mean": predicted["profile"]["mean_offset"],
        "peak": found["peak"]["offset"],
        "mean": found["mean_offset"],
        "stability": found["peak"]["stability"],
    }


def comparison(
    parameters: Lags, models: list[str], dataset: str, points: list[dict]
) -> dict[str, Any]:
    """All comparisons of some heads; heads are resampled within their model."""
    settings = bootstrap(parameters)
    first = [one for one in points if one["layer"] == 0]
    return {
        "run": {"models": models, "dataset": dataset, "condition": INTACT},
        "heads": len(points),
        "results": compared(settings, models, points),
        # What weights alone predict supposes an input that only the first block really has.
        "first_layer": compared(settings, models, first),
        "held_out": held_out(parameters, models, points),
        "points": points,
    }


def compared(settings: dict[str, Any], models: list[str], points: list[dict]) -> dict[str, Any]:
    """The results of each comparison."""
    results = {}
    for name, (predicted, found) in COMPARED.items():
        both = [one for one in points if None not in (one[predicted], one[found])]
        x, y = ([one[key] for one in both] for key in (predicted, found))
        groups = np.array([models.index(one["model"]) for one in both])
        layers = np.array([one["layer"] for one in both])
        results[name] = {
            "predicted": predicted,
            "found": found,
            "heads": len(both),
            **compare(x, y, groups=groups, **settings),
            "over_layers": over_layers(x, y, layers, groups=groups, **settings),
            "by_layer": by_layer(x, y, layers, groups),
        }
        # Means are never the same.
        if found == "peak" and both:
            results[name]["agreement"] = agreement(x, y, groups=groups, **settings)
    return results


def by_layer(x: Sequence, y: Sequence, layers: NDArray, groups: NDArray) -> list[dict[str, Any]]:
    """The rank correlation among the heads of each layer, None where it is not defined."""
    found = []
    for layer in sorted(set(layers.tolist())):
        inside = layers == layer  # [heads]
        of_layer = (np.asarray(one, np.float64)[inside] for one in (x, y))
        value = correlation(*(within(one, groups[inside], ranked=True) for one in of_layer))
        found.append({"layer": layer, "spearman": None if np.isnan(value) else float(value)})
    return found


def held_out(parameters: Lags, models: list[str], points: list[dict]) -> dict[str, Any]:
    """The comparison that is best in the even layers, judged in the odd ones.

    Of several comparisons the best one looks better than it is: it is judged where it was not
    chosen.
    """
    settings = bootstrap(parameters)
    even, odd = (
        compared(settings, models, [one for one in points if one["layer"] % 2 == rest])
        for rest in (0, 1)
    )
    defined = {name: one["spearman"]["value"] for name, one in even.items() if one["spearman"]}
    if not defined:
        return {"chosen": None, "even": None, "odd": None}
    chosen = max(defined, key=defined.__getitem__)
    return {
        "chosen": chosen,
        "even": even[chosen]["over_layers"]["spearman"],
        "odd": odd[chosen]["over_layers"]["spearman"],
    }


def name_of(measurement: dict) -> str:
    """What a measurement is called among the inputs of another."""
    run = measurement["run"]
    keys = [key for key in ("model", "dataset", "condition") if key in run]
    return "/".join([measurement["measurement"], *(run[key] for key in keys)])


if __name__ == "__main__":
    run(main)
