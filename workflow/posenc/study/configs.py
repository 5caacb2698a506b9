"""What each job reads of ``params.yaml``, and which code it runs, as files in ``data/config``.

What a rule reads is compared by content, so a file is written only when it changes. Each phase has
a folder of its own, which its DVC stage follows.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from posenc.artifacts import imports
from posenc.artifacts.files import sha256_file
from posenc.datasets.section import Evaluation
from posenc.experiments.declaration import CORPORA, LABELLED, Trials
from posenc.measurements.declaration import DATASETS, MASKS, MATRICES, TOKENIZER, TOKENS, WEIGHTS
from posenc.models.section import Reading
from posenc.study.declared import EXPERIMENTS, MEASUREMENTS
from posenc.study.evaluations import Written, condition_jobs, evaluated_under
from posenc.study.facts import facts
from posenc.study.names import CALIBRATION, LONG, NO_MODEL
from posenc.study.params import Params
from posenc.study.phases import PHASE_OF_STEP, PHASES, phase_of_command
from posenc.study.plan import OF_MODELS, chosen, experiment, figures, scheme

CONFIG = Path("data/config")
MEASURED, OTHERS = CONFIG / "measurements", CONFIG / "others"
"""Of measurements; of data sets and models that the active study does not name."""


class MeasurementJob(TypedDict, total=False):
    """What a measurement of one model depends on; its declaration says which of it."""

    parameters: Written
    reading: Written
    matrix: None
    """In place of one, there is the model."""
    datasets: list[str]
    conditions: list[str] | dict[str, Written]
    """Of activations, names; of masks, what they say."""
    documents: int | None
    device: str
    calibration: str | None
    """Data set that masks are learned from."""


class TextJob(TypedDict):
    """Documents of a data set that a model reads."""

    dataset: str
    reading: Written
    evaluation: Written


def sections(params: Params) -> Iterator[tuple[Path, Any]]:
    """Pairs of a path under ``data/config`` and the JSON value that it holds.

    A file holds exactly what one job reads, or the checksums of the modules that a step imports, so
    that an edit reaches no other job; Snakemake's rules and DVC's stages name the same files.
    """
    yield from of_parameters(params)
    for module in imports.commands():
        code = imports.described(module)
        yield CONFIG / phase_of_command(module) / "code" / f"{module}.json", code
    for name, what in PHASES.items():
        if what.text:
            text = {path: _digest(imports.ROOT / path) for path in what.text}
            yield CONFIG / name / "text.json", text


def of_parameters(params: Params) -> Iterator[tuple[Path, Any]]:
    """The pairs that hold parts of ``params.yaml``."""
    for kind in ("datasets", "models"):
        for name, section in getattr(params, kind).items():
            for step, part in section.steps().items():
                yield of_step(params, kind, name, step), part.model_dump()
    study = params.study
    for name in study.models:
        yield from _jobs(params, name)
    for name in study.schemes:
        yield from _scheme_jobs(params, name)
    for kind, name in itertools.product(chosen(params, MEASUREMENTS), study.matrices):
        if MATRICES in MEASUREMENTS[kind].reads:
            yield (
                MEASURED / kind / f"{name}.json",
                {
                    "parameters": getattr(params.parameters, kind).model_dump(),
                    "reading": None,
                    "matrix": params.matrices[name].model_dump(),
                },
            )
    yield from _experiment_jobs(params)
    for measurement in chosen(params, MEASUREMENTS):
        if MEASUREMENTS[measurement].of:
            continue
        parameters = getattr(params.parameters, measurement).model_dump()
        yield MEASURED / f"{measurement}.json", {"parameters": parameters}
    for name in ["style", *figures(params)]:
        part = getattr(params.figures, name)
        yield CONFIG / "figures" / f"{name}.json", part.model_dump()
    runs = {kind: getattr(study, kind) for kind in ("models", "datasets", "conditions")}
    yield CONFIG / "figures" / "runs.json", runs
    said = facts(params)
    for phase in ("numbers", "page"):
        yield CONFIG / phase / "study.json", said


def _digest(path: Path) -> str | None:
    return sha256_file(path) if path.exists() else None


def of_step(params: Params, kind: str, name: str, step: str) -> Path:
    """The file with the part of ``params.yaml`` that a step of a data set or model reads.

    Parameters
    ----------
    params
        The parameters.
    kind
        ``datasets`` or ``models``.
    name
        Its key there.
    step
        A key of its section's ``steps()``.
    """
    study = params.study
    named = {
        "datasets": {*study.all_datasets, *study.corpora},
        "models": {*study.models, *study.schemes},
    }[kind]
    place = CONFIG if name in named else OTHERS
    return place / PHASE_OF_STEP[kind, step] / f"{name}.{step}.json"


def _jobs(params: Params, name: str) -> Iterator[tuple[Path, Any]]:
    """What the jobs of one model's runs read."""
    study, model = params.study, params.models[name]
    reading = model.reading.model_dump()
    for job, texts in _texts(params, name).items():
        yield CONFIG / "tokens" / job / f"{name}.json", {"texts": texts}
    if name in study.captured:
        yield (
            CONFIG / "activations" / f"{name}.json",
            {
                "reading": reading,
                "activations": params.activations.model_dump(),
                "datasets": study.datasets,
                "conditions": {c: params.conditions[c].model_dump() for c in study.conditions},
            },
        )
    for measurement in chosen(params, MEASUREMENTS):
        what = MEASUREMENTS[measurement]
        if not what.of or "evaluations" in what.reads:
            continue
        if name in getattr(study, what.subjects):
            yield (
                MEASURED / measurement / f"{name}.json",
                _measurement_job(params, measurement, name),
            )
    jobs = condition_jobs(params, name)
    yield CONFIG / "masks" / f"{name}.json", jobs["masks"]
    yield CONFIG / "evaluations" / f"{name}.json", jobs["evaluations"]
    yield MEASURED / "conditions" / f"{name}.json", jobs["conditions"]


def _measurement_job(params: Params, measurement: str, name: str) -> MeasurementJob:
    """What a measurement of one model reads of ``params.yaml``."""
    reads, study = MEASUREMENTS[measurement].reads, params.study
    parameters = getattr(params.parameters, measurement).model_dump()
    job: MeasurementJob = {"parameters": parameters}
    if {TOKENS, WEIGHTS} & set(reads):
        job["reading"] = params.models[name].reading.model_dump()
    if MATRICES in reads:
        job["matrix"] = None
    if "dataset" in MEASUREMENTS[measurement].of:
        job["datasets"] = study.datasets
    if MEASUREMENTS[measurement].keeps_runs:
        job["conditions"] = study.conditions
    if MASKS in reads:
        evaluated = evaluated_under(params, name)
        wanted = parameters.get("conditions", evaluated)
        job["conditions"] = {
            c: condition.model_dump() for c, condition in evaluated.items() if c in wanted
        }
    if {DATASETS, TOKENIZER, MASKS} <= {*reads}:
        job["documents"] = study.evaluation_of(name).documents
    if MEASUREMENTS[measurement].learns:
        job["device"], job["calibration"] = params.activations.device, study.calibration
    return job


def _scheme_jobs(params: Params, name: str) -> Iterator[tuple[Path, Any]]:
    """What the jobs of a model that is only probed read."""
    study, model = params.study, params.models[name]
    yield (
        CONFIG / "tokens" / "tokenize" / f"{name}.json",
        {
            "texts": {
                dataset: _text(model.reading, dataset, params.datasets[dataset].evaluation)
                for dataset in study.datasets
            }
        },
    )
    yield (
        MEASURED / "scheme_probes" / f"{name}.json",
        {
            "parameters": params.parameters.probes.model_dump(),
            "reading": model.reading.model_dump(),
            "scheme": scheme(params, name),
            "datasets": study.datasets,
            "device": params.activations.device,
        },
    )


def _experiment_jobs(params: Params) -> Iterator[tuple[Path, Any]]:
    """What the trials of the study's experiments read, and their measurements."""
    for kind in params.study.experiments.kinds:
        section = experiment(params, kind)
        apart = set(Trials.model_fields)
        # Adding a seed leaves the trials of the other seeds as they are.
        job: dict[str, object] = {"parameters": section.model_dump(exclude=apart)}
        if EXPERIMENTS[kind].reads == (LABELLED,):
            job["evaluation"] = params.datasets[section.dataset].evaluation.model_dump()
            job["device"] = params.activations.device
        if CORPORA in EXPERIMENTS[kind].reads:
            job["texts"] = {
                name: {
                    "normalization": params.datasets[name].text.normalization,
                    "evaluation": params.datasets[name].evaluation.model_dump(),
                }
                for name in section.datasets
            }
        for path, reading in _places(params, kind):
            yield CONFIG / "trials" / kind / path, {**job, **reading}
        summary = section.model_dump(include=apart)
        yield (
            MEASURED / f"{kind}.json",
            {"name": getattr(params.study.experiments, kind), **summary},
        )


def _places(params: Params, kind: str) -> Iterator[tuple[str, dict[str, Written]]]:
    """Files that an experiment's trials read, and the part of each that is a model's own."""
    if kind not in OF_MODELS:
        yield f"{NO_MODEL}.json", {}
        return
    for model in params.study.finetuned:
        yield f"{model}.json", {"reading": params.models[model].reading.model_dump()}


def _text(reading: Reading, dataset: str, evaluation: Evaluation, **changed: int) -> TextJob:
    return {
        "dataset": dataset,
        "reading": {**reading.model_dump(), **changed},
        "evaluation": evaluation.model_dump(),
    }


def _texts(params: Params, name: str) -> dict[str, dict[str, TextJob]]:
    """All texts that a study gives to a model: those of its evaluation, and the others."""
    study = params.study
    text = functools.partial(_text, params.models[name].reading)
    texts = {
        "tokenize": {
            dataset: text(dataset, params.datasets[dataset].evaluation)
            for dataset in study.datasets
        }
    }
    if study.calibration is None:
        return texts
    data = params.datasets[study.calibration]
    assert data.calibration is not None  # the study was checked
    texts["texts"] = {CALIBRATION: text(study.calibration, data.calibration)}
    if (beyond := study.extrapolation) is not None:
        longer = data.evaluation.model_copy(update={"documents": beyond.documents})
        texts["texts"][LONG] = text(study.calibration, longer, max_tokens=beyond.tokens)
    return texts
