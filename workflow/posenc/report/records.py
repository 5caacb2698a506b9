"""What documents are typeset from, and numbers that they may print, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

from posenc.artifacts.numbers import Entry

ALL_DECODERS = "all_decoders"
"""Stands in the place of a model for what decoders have in common."""
LONG = "long"
"""Stands in the place of a data set for documents beyond a model's trained length."""


class Source(TypedDict):
    """Where others published numbers."""

    title: str
    citation: str
    kind: str
    note: str


class PublishedValue(TypedDict):
    """A number that others published."""

    source: str
    quantity: str
    condition: str
    model: str
    weights: list[str]
    """Hub models that count as the published one."""
    value: str
    """As printed."""
    ours: list[str]
    """Keys of the same quantity here."""
    table: NotRequired[str]
    """That it stands in, where it is not that of results."""


class Published(TypedDict):
    """What ``published.yaml`` holds, by name."""

    sources: dict[str, Source]
    values: dict[str, PublishedValue]


@dataclass(frozen=True)
class Results:
    """The study, its measurements in order, and what others found.

    Attributes
    ----------
    study
        What data/config/study.json holds.
    measurements, trainings
        Of the study's runs, and of the models that it trains.
    published
        Published numbers.
    versions
        What real versions of the library were found to do with a mask (docs/mask-versions.json).
    verifications
        What ``verification.json`` says about each model that was fetched, by its name.
    """

    study: Mapping[str, Any]
    measurements: Sequence[Mapping[str, Any]]
    trainings: Sequence[Mapping[str, Any]]
    published: Published
    versions: Mapping[str, Any]
    verifications: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, measurement: str) -> list[Mapping[str, Any]]:
        """The runs of one measurement."""
        return [value for value in self.measurements if value["measurement"] == measurement]


SHORTER = {"position_embeddings": "positions", "relative_attention": "relative",
           "extrapolation": ""}  # fmt: skip
"""What keys call a measurement, where that is not its name."""


@dataclass(frozen=True)
class Place:
    """What a number is of, and the files that it was read from.

    A part that it does not have is empty. What a study lacks is of no file.

    Attributes
    ----------
    model, dataset, condition, measurement, quantity
        Names of the study.
    files
        Paths of measurements, or of the summary of a training.
    called
        What its key calls the model and the data set, where that is not their names.
    """

    model: str = ""
    dataset: str = ""
    condition: str = ""
    measurement: str = ""
    quantity: str = ""
    files: tuple[str, ...] = ()
    called: tuple[str, str] = field(default=("", ""), compare=False)

    def __str__(self) -> str:
        parts = (self.model, self.dataset, self.condition, self.measurement, self.quantity)
        return ".".join(filter(None, parts))

    @property
    def key(self) -> str:
        """What documents name the number by."""
        model, dataset = self.called[0] or self.model, self.called[1] or self.dataset
        word = SHORTER.get(self.measurement, self.measurement)
        if self.measurement == "conditions" and not self.condition:  # masks, and decoders
            word = ""
        first = (model, dataset, self.condition, word) if model else (word, dataset)
        return ".".join(filter(None, (*first, self.quantity)))


class Recorded(TypedDict, total=False):
    """A number in ``numbers.json`` and in a study's record.

    Attributes
    ----------
    value
        In all digits.
    shown
        How it is printed.
    low, high
        Ends of the interval of an estimate.
    rounding
        What rounding may leave of it, where that is not the share of float32.
    not_run
        Why there is no number, in place of the others.
    """

    value: float
    shown: str
    low: float
    high: float
    rounding: float
    not_run: str


class Numbers(dict[str, Entry]):
    """Numbers by key.

    Attributes
    ----------
    places
        What each is of, by key.
    missing
        Measurements that the study should have and that are not there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, Place] = {}
        self.missing: list[Place] = []

    def put(self, place: Place, entries: Mapping[str, Entry]) -> None:
        """Add the quantities of a place."""
        before = place.key
        for quantity, entry in entries.items():
            key = f"{before}.{quantity}"
            self[key] = entry
            self.places[key] = Place(  # faster than replace, and there are thousands
                place.model, place.dataset, place.condition, place.measurement, quantity,
                place.files, place.called,
            )  # fmt: skip
