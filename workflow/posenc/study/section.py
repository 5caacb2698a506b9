"""The ``studies`` section: which models, data sets and conditions are run together."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from posenc.conditions.sweeps import Extrapolation
from posenc.config.base import Documents, Line, Name, Section
from posenc.drawing.exhibit import DOCUMENTS
from posenc.measurements.declaration import MATRICES
from posenc.study.declared import ALWAYS, FURTHER, MEASUREMENTS, OPTIONAL, Changes, Chosen
from posenc.study.explain import suggestion
from posenc.study.names import CALIBRATION, LONG


class OfOneModel(Section):
    """What is evaluated of one model in place of what a study evaluates of the others."""

    evaluated: Annotated[list[Name], Field(default_factory=list)]
    """Conditions that are measured beside the study's ``conditions``."""
    sweeps: Annotated[list[Name], Field(default_factory=list)]
    """Sweeps in place of the study's."""
    documents: Documents | None = None
    """How many documents of each data set; null for ``measurements.conditions.documents``."""


class Study(Section):
    """One study: all models are evaluated; runs are all of captured x data sets x conditions.

    ``models`` are those of ``pretrained`` and ``trained`` together, in the order in which they are
    shown; the validator keeps the three in agreement. What is left out is not part of the study.
    """

    name: Name = ""
    """Its key in `studies`."""
    asks: Line | None = None
    """What it is to find out, in a sentence."""
    title: Annotated[Line, Field(max_length=300)] | None = None
    """Shown in the paper, the slides and the report; of any script, in one line. Its name where it
    is left out."""
    models: Annotated[list[Name], Field(min_length=1)]
    """In order of presentation; the first encoder and the first decoder are the headline."""
    captured: list[Name] = Field(default_factory=list)
    """Those of ``models`` whose activations are kept, in the order of ``models``."""
    examined: list[Name] = Field(default_factory=list)
    """Those of ``models`` that are looked into layer by layer and head by head, which takes long
    of a large one, in the order of ``models``."""
    pretrained: list[Name] = Field(default_factory=list)
    """Those of ``models`` whose weights are fetched."""
    finetuned: list[Name] = Field(default_factory=list)
    """Those of ``pretrained`` that classifiers are made of (A6), in that order."""
    retrained: list[Name] = Field(default_factory=list)
    """Those of ``pretrained`` that are trained on without rotation (F6), in that order."""
    refitted: list[Name] = Field(default_factory=list)
    """Those of ``models`` whose mask is fitted to several texts (A5), in that order."""
    trained: dict[Name, Name] = Field(default_factory=dict)
    """Those of ``models`` that are trained here, and the data set that each learns from."""
    schemes: dict[Name, Name] = Field(default_factory=dict)
    """Decoders that are trained with any scheme of positions and only probed (B4), and the data set
    that each learns from."""
    matrices: list[Name] = Field(default_factory=list)
    """Tables of position embeddings that are measured beside those of ``captured`` (B1, B3), with
    the heads that read them where a file has them (C3, C6)."""
    datasets: Annotated[list[Name], Field(min_length=1)]
    """In order of presentation; the first of each format is the headline."""
    labelled: Name | None = None
    """Data set that classifiers and tokenizers learn from; it is evaluated on too."""
    corpora: list[Name] = Field(default_factory=list)
    """Data sets beside it that tokenizers alone are compared on (D3)."""
    experiments: Chosen = Field(default_factory=Chosen)
    """The size of each kind of experiment."""
    measurements: list[Name] | None = None
    """Those that are made beside `similarity`, `perplexity` and `conditions`; when it is left out,
    all that the study has models for."""
    parameters: Changes = Field(default_factory=Changes)
    """Of its measurements, what differs from the `measurements` section, by measurement and key."""
    figures: list[Name] | None = None
    """Those that are drawn; when it is left out, all whose measurements the study has."""
    documents: list[Literal[DOCUMENTS]] = Field(default_factory=list)  # type: ignore[valid-type]
    """Those that are built; without any, no LaTeX is needed."""
    conditions: Annotated[list[Name], Field(min_length=1)] = ["intact", "zero"]
    """Those whose activations are kept. Begins with ``intact``, which others are compared with."""
    evaluated: Annotated[list[Name], Field(default_factory=list)]
    """Conditions that are measured beside those, without keeping activations."""
    sweeps: Annotated[list[Name], Field(default_factory=list)]
    """Conditions with one parameter varied, each under all of its values."""
    evaluations: dict[Name, OfOneModel] = Field(default_factory=dict)
    """What is evaluated of a model in place of ``evaluated`` and ``sweeps``: for large ones."""
    calibration: Name | None = None
    """Data set whose calibration documents masks are learned from."""
    extrapolation: Extrapolation | None = None
    """Documents longer than a decoder was trained for (A5)."""

    @property
    def texts(self) -> list[str]:
        """What its models read beside the data sets: calibration text, and longer documents."""
        read = {CALIBRATION: self.calibration, LONG: self.extrapolation}
        return [name for name, section in read.items() if section is not None]

    @property
    def all_conditions(self) -> list[str]:
        """Those with activations, then those without, of any model."""
        further = [
            name for evaluation in self.evaluations.values() for name in evaluation.evaluated
        ]
        first = [*self.conditions, *self.evaluated]
        return [*first, *(name for name in dict.fromkeys(further) if name not in first)]

    @property
    def all_sweeps(self) -> list[str]:
        """Those of any model."""
        further = [name for evaluation in self.evaluations.values() for name in evaluation.sweeps]
        return list(dict.fromkeys([*self.sweeps, *further]))

    def evaluation_of(self, model: str) -> OfOneModel:
        """Conditions, sweeps and number of documents that a model is evaluated on."""
        own = self.evaluations.get(model)
        evaluation = own or OfOneModel(evaluated=self.evaluated, sweeps=self.sweeps)
        return evaluation.model_copy(
            update={"evaluated": [*self.conditions, *evaluation.evaluated]}
        )

    @property
    def measured(self) -> list[str]:
        """All measurements of the study; those of experiments and schemes, and trainings, too."""
        chosen = self.measurements
        if chosen is None:
            chosen = [name for name in OPTIONAL if self._has_subjects(name)]
        also = [kind for name in ALWAYS for kind in MEASUREMENTS[name].also]
        if self.extrapolation is None:
            also.remove("extrapolation")
        return [*ALWAYS, *also, *chosen, *FURTHER, "training", *self.experiments.kinds]

    @property
    def all_datasets(self) -> list[str]:
        """Those that models are evaluated on, learn from, or whose masks are learned from."""
        learned_from = [*self.trained.values(), *self.schemes.values()]
        calibration = [] if self.calibration is None else [self.calibration]
        return list(dict.fromkeys([*self.datasets, *learned_from, *calibration]))

    def _has_subjects(self, measurement: str) -> bool:
        """Whether the lists that a measurement covers name any model, or table of positions."""
        declared = MEASUREMENTS[measurement]
        tables = self.matrices if MATRICES in declared.reads else []
        return not declared.reads or bool(getattr(self, declared.subjects) or tables)

    @model_validator(mode="after")
    def _check_lists(self) -> Study:
        named = (
            "models", "captured", "examined", "pretrained", "finetuned", "retrained", "refitted",
            "matrices", "datasets", "all_conditions", "sweeps", "measurements", "figures",
            "documents",
        )  # fmt: skip
        for key in named:
            values = getattr(self, key) or []
            key = "conditions and evaluated" if key == "all_conditions" else key
            for value in values:
                if values.count(value) > 1:
                    raise ValueError(f"{key} names {value!r} twice")
        listed = [*self.pretrained, *self.trained]
        for name in self.models:
            if name in self.pretrained and name in self.trained:
                raise ValueError(f"models names {name!r}, which pretrained and trained both name")
            if name not in listed:
                raise ValueError(
                    f"models names {name!r}, which must be in exactly one of pretrained and trained"
                    f"{suggestion(name, listed)}"
                )
        for name in listed:
            if name not in self.models:
                raise ValueError(f"models lacks {name!r}, which is in pretrained or trained")
        self._check_part("captured", "models")
        self._check_part("examined", "models")
        self._check_part("finetuned", "pretrained")
        self._check_part("retrained", "pretrained")
        self._check_part("refitted", "models")
        for name in self.schemes:
            if name in self.models:
                raise ValueError(f"{name!r} is in models and in schemes: one of them is enough")
        for name in self.corpora:
            if name in self.datasets:
                raise ValueError(f"{name!r} is in datasets and in corpora: one of them is enough")
        for name in self.matrices:
            if name in self.models:
                raise ValueError(f"matrices names {name!r}, which is a model: give it another name")
        for name, own in self.evaluations.items():
            if name not in self.models:
                raise ValueError(f"evaluations names {name!r}, which is not one of models")
            for value in [*self.conditions, *own.evaluated]:
                if [*self.conditions, *own.evaluated].count(value) > 1:
                    raise ValueError(
                        f"conditions and evaluations.{name}.evaluated name {value!r} twice"
                    )
        self._check_choices()
        if self.extrapolation is not None and self.calibration is None:
            raise ValueError(
                "extrapolation reads the evaluation documents of calibration, which is not there: "
                "name a data set, or leave extrapolation out"
            )
        if self.conditions[0] != "intact":
            raise ValueError("conditions must begin with 'intact'")
        return self

    def _check_part(self, key: str, whole: str) -> None:
        """A list names some of another, in its order."""
        values, known = getattr(self, key), getattr(self, whole)
        for value in values:
            if value not in known:
                raise ValueError(
                    f"{key} names {value!r}, which is not in {whole}: add it there too, or take it "
                    f"out of {key}"
                )
        if values != (ordered := [name for name in known if name in values]):
            raise ValueError(
                f"{key} must have the order of {whole}: write {key}: [{', '.join(ordered)}]"
            )

    def _check_choices(self) -> None:
        """Nothing is listed that only something reads which the study does not have."""
        if self.corpora and self.experiments.tokenizers is None:
            raise ValueError(
                f"corpora names {self.corpora[0]!r}, which experiments.tokenizers alone reads: "
                f"choose a size of it, or leave corpora empty"
            )
        for name in self.measurements or ():
            if name in OPTIONAL and not self._has_subjects(name):
                raise ValueError(
                    f"measurements names {name!r}, which is of the models in "
                    f"{MEASUREMENTS[name].subjects}: name some there, or leave it out"
                )
        for name in self.parameters.model_fields_set:
            if name not in self.measured:
                raise ValueError(
                    f"parameters changes {name!r}, which the study does not measure: add it to "
                    f"measurements, or leave it out"
                )
        readers = [
            name for name, measurement in MEASUREMENTS.items() if MATRICES in measurement.reads
        ]
        if self.matrices and not set(readers) & set(self.measured):
            raise ValueError(
                f"matrices names {self.matrices[0]!r}, which {' and '.join(readers)} alone read: "
                f"add one of them to measurements, or leave matrices empty"
            )
        for name in ("relative_attention", "heads"):
            if "lags" in self.measured and name not in self.measured:
                raise ValueError(f"measurements names 'lags', which reads {name!r}: add it too")
