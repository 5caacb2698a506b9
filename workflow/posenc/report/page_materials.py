"""What a study was run on, in words for its page: models, how they compare, data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from posenc.architectures.needs import Need
from posenc.figures.catalogue import FIGURES
from posenc.report.counts import drawn_of
from posenc.report.page_numbers import typographic
from posenc.report.records import Results
from posenc.tokens.coverage import Coverage


class Verification(TypedDict):
    """How a model compares with the library.

    Attributes
    ----------
    library
        Its version.
    checks
        How many numbers were compared.
    largest
        Difference of these.
    lacks
        What the model cannot be used for, and why.
    """

    library: str
    checks: str
    largest: str
    lacks: list[str]


class Model(TypedDict):
    """A model, and how it compares with the library where it was compared."""

    name: str
    verified: Verification | None
    text: str


class Materials(TypedDict):
    """Models, and data sets with their ``name`` and ``text``."""

    models: list[Model]
    datasets: list[dict[str, str]]


class ShownCoverage(TypedDict):
    """How much a model reads of a data set; ``cut`` counts documents, ``percent`` is of tokens."""

    model: str
    dataset: str
    cut: str
    documents: str
    percent: str
    tokens: str
    is_cut: bool


def source_of(source: Mapping[str, Any]) -> str:
    """Where weights or documents come from, in words."""
    words = {
        "train": "trained by the workflow",
        "package": "package {package}",
        "hub": "{id} of the hub",
        "path": "file {path}",
        "url": "published archive",
        "public": "published data set",
        "sample": "generated, seed {seed}",
    }
    return words.get(source["kind"], source["kind"]).format(**source)


def synthetic(study: Mapping[str, Any]) -> list[str]:
    """Data sets of a study whose texts are generated."""
    datasets = study["datasets"].items()
    return [name for name, dataset in datasets if dataset["source"]["kind"] == "sample"]


def verified(verification: Mapping[str, Any]) -> Verification:
    """What a model's comparison with the library says, for the page.

    Parameters
    ----------
    verification
        What its ``verification.json`` holds.
    """
    differences = [check["difference"] for check in verification["checks"]]
    compared = [difference for difference in differences if difference is not None]
    of_position = (Need.TABLE, Need.ROTATION)  # how positions enter a model is no lack
    return {
        "library": verification["library"],
        "checks": f"{len(compared)}",
        "largest": typographic(f"{max(compared, default=0):.1e}"),
        "lacks": [
            f"{need}: {reason}"
            for need, reason in verification["can"].items()
            if reason and need not in of_position
        ],
    }


def materials(results: Results) -> Materials:
    """Models and data sets of the study, in words."""
    study, verifications = results.study, results.verifications
    models: list[Model] = [
        {
            "name": name,
            "verified": verified(verifications[name]) if name in verifications else None,
            "text": f"{model['title'] + ', ' if model['title'] else ''}"
            f"{'decoder' if model['is_decoder'] else 'encoder'}, {model['family']} family, "
            f"up to {model['max_tokens']} tokens; {source_of(model['source'])}",
        }
        for name, model in study["models"].items()
    ]
    models += [
        {"name": name, "verified": None, "text": f"decoder, only probed; positions: {scheme}"}
        for name, scheme in study["schemes"].items()
    ]
    datasets = [
        {
            "name": name,
            "text": f"format of {dataset['format']}, split {dataset['evaluation']['split']}; "
            f"{source_of(dataset['source'])}",
        }
        for name, dataset in study["datasets"].items()
    ]
    return {"models": models, "datasets": datasets}


def coverages(results: Results) -> dict[tuple[str, str], ShownCoverage]:
    """How much each model reads of each data set, as the page says it; by model and data set."""
    said: dict[tuple[str, str], ShownCoverage] = {}
    for measurement in results.of("conditions"):
        coverage = Coverage(**measurement["coverage"])
        model, dataset = (measurement["run"][part] for part in ("model", "dataset"))
        said[model, dataset] = {
            "model": model, "dataset": dataset, "cut": f"{coverage.cut:,}",
            "documents": f"{coverage.documents:,}", "percent": coverage.percent,
            "tokens": f"{coverage.read:,}", "is_cut": coverage.cut > 0,
        }  # fmt: skip
    return said


def cut_behind(
    results: Results, figure: str, coverage: Mapping[tuple[str, str], ShownCoverage]
) -> list[ShownCoverage]:
    """What is cut of the documents that a figure is of."""
    drawn = (m["run"] for m in drawn_of(results, FIGURES[figure]) if m["status"] == "measured")
    runs = dict.fromkeys((run.get("model", ""), run.get("dataset", "")) for run in drawn)
    return [coverage[run] for run in runs if run in coverage and coverage[run]["is_cut"]]
