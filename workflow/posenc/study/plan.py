"""What a study consists of: its models, figures and experiments, and the paths of its files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from posenc.artifacts.places import STUDIES
from posenc.figures.catalogue import FIGURES
from posenc.measurements.declaration import MATRICES
from posenc.models.section import TrainSource
from posenc.study import phases
from posenc.study.declared import EXPERIMENTS, KINDS, place_of
from posenc.study.names import LONG, NO_MODEL
from posenc.study.params import Params

DOCUMENTS = Path("data/documents")
APART = Path("data/texts")
"""Documents of data sets that experiments alone read."""
FORMS = ("pdf", "svg", "json")
"""Files of a figure: two pictures, and what they were made of."""
OF_MODELS = tuple(name for name, experiment in EXPERIMENTS.items() if experiment.of)
"""Experiments with one measurement for each fine-tuned model; the others have one for a study."""


def chosen(params: Params, measurements: Iterable[str]) -> list[str]:
    """Those of some measurements that the active study has."""
    return [name for name in measurements if name in params.study.measured]


def files(params: Params, kind: str) -> list[str]:
    """Paths of the files that the study has of a measurement or experiment, in order.

    They lie below the study's folder. Of one that the study does not have, there are none.
    """
    has_it = kind in params.study.measured and kind in KINDS
    return files_of(params, kind) if has_it else []


def has_files(params: Params, kind: str) -> bool:
    """Whether a measurement, an experiment or trainings make anything of what the study has."""
    return bool(files(params, kind) or (kind == "training" and params.study.trained))


def files_of(params: Params, kind: str, models: Sequence[str] | None = None) -> list[str]:
    """The same of one that the study may lack; of some models, or of all that it is of."""
    study = params.study
    what = KINDS[kind]
    matrices = study.matrices if MATRICES in what.reads else []
    values = {
        "model": [*getattr(study, what.subjects), *matrices] if models is None else models,
        "dataset": evaluated(params) if "evaluations" in what.reads else study.datasets,
        "condition": study.conditions,
    }
    return [place_of(kind, *names) for names in itertools.product(*(values[p] for p in what.of))]


def evaluated(params: Params) -> list[str]:
    """What models are evaluated on: the study's data sets, and longer documents if it has any."""
    return [*params.study.datasets, *(text for text in params.study.texts if text == LONG)]


def figures(params: Params) -> list[str]:
    """The figures of the active study, in order: those that its measurements can be drawn as."""
    measured, named = set(params.study.measured), params.study.figures
    return [
        name
        for name, entry in FIGURES.items()
        if measured.issuperset(entry.measurements) and (named is None or name in named)
    ]


def experiment(params: Params, kind: str) -> Any:
    """The section of the active study's experiment of a kind."""
    return getattr(params.experiments, kind)[getattr(params.study.experiments, kind)]


def trials(params: Params, kind: str) -> list[str]:
    """Paths of the trials of an experiment, below the study's folder, without ``.json``."""
    seeds = experiment(params, kind).seeds
    subjects = params.study.finetuned if kind in OF_MODELS else [NO_MODEL]
    return [f"trials/{kind}/{subject}/{seed}" for subject in subjects for seed in seeds]


def make_folders(params: Params, names: Iterable[str] = phases.PHASES) -> None:
    """Make the folders of phases that DVC's stages name and that a study may have nothing in.

    Not of all phases before each stage: a folder that was not pulled is to be missing, as
    ``dvc repro --allow-missing`` has it, and not empty.
    """
    for path in phases.folders(params.study.name, names):
        path.mkdir(parents=True, exist_ok=True)
    if "numbers" in names:  # tables of the hidden states of each run
        (folder(params) / "plots/layers").mkdir(parents=True, exist_ok=True)


def folder(params: Params) -> Path:
    """Folder of all that is made for the active study alone."""
    return STUDIES / params.study.name


def unfinished(params: Params) -> list[Path]:
    """Folders of what the active study's jobs have begun: checkpoints, trials, shards of runs."""
    own = folder(params)
    trained = [Path("data/partial") / model for model in params.study.trained]
    return [own / "partial", own / "captures", *trained]


def training_dataset(params: Params, model: str) -> str:
    """The data set that a trained model learns from, in whichever study names it.

    Raises
    ------
    ValueError
        If no study trains it.
    """
    for candidate in (params.study, *params.studies.values()):
        learned_from = {**candidate.trained, **candidate.schemes}
        if model in learned_from:
            return learned_from[model]
    raise ValueError(f"no study trains {model!r}: list it under studies.*.trained")


def trained(params: Params) -> list[str]:
    """Models that the workflow trains."""
    return [n for n, model in params.models.items() if isinstance(model.source, TrainSource)]


def scheme(params: Params, model: str) -> str:
    """How positions come into a model that the workflow trains."""
    source = params.models[model].source
    assert isinstance(source, TrainSource)
    return source.positions


def pretrained(params: Params) -> list[str]:
    """Models whose weights are fetched."""
    return [name for name in params.models if name not in trained(params)]


def alternatives(names) -> str:
    """A regular expression that matches exactly these names, and nothing when there are none."""
    return "|".join(map(re.escape, names)) or r"(?!)"
