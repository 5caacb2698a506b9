"""Every number of a study as a row of a table: what it is, of what, and the file it comes from."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number
from posenc.artifacts.printing import number
from posenc.artifacts.results import Interval
from posenc.measurements.conditions.result import EvaluatedConditions, LongDocuments
from posenc.report import collection
from posenc.report.asked import is_asked
from posenc.report.quantities import SPOKEN_CONDITIONS, SPOKEN_LONG, TRAINING
from posenc.report.records import ALL_DECODERS, LONG, Numbers, Place, Results
from posenc.report.words import label

NAMES = ("name", "variant", "condition", "level", "task", "scheme", "tokenizer", "label")
"""Keys of the name of an item in a list, where it has one."""
ASIDE = ("provenance", "run", "spec", "parameters", "training", "sha256")
"""Parts of a measurement that are not results."""


class MissingError(ValueError):
    """A number that the study should have is not there; the message has its name."""


def collect(results: Results) -> dict[Place, Entry]:
    """All numbers of a study by what they are of.

    Raises
    ------
    MissingError
        If there is no measurement that the study should have, a measurement lacks a number, or a
        number lacks an end of its interval.
    """
    try:
        numbers = collection.collect(results, roles=False)
    except (KeyError, TypeError, IndexError) as error:
        raise MissingError(_culprit(results, error)) from error
    check(numbers)
    entries: dict[Place, Entry] = {}
    known = (*results.study["conditions"], *SPOKEN_CONDITIONS, *SPOKEN_LONG)
    for key, place in numbers.places.items():
        if place.condition not in known and place.measurement == "extrapolation":
            # Conditions of long documents alone are listed among the quantities.
            quantity = ".".join(filter(None, (place.condition, place.quantity)))
            place = replace(place, condition="", quantity=quantity)
        if place.measurement != "constant":
            entries.setdefault(place, numbers[key])
    for place, entry in [*_series(results), *_others(results, entries)]:
        entries.setdefault(place, entry)
    for place, entry in entries.items():
        if isinstance(entry, Number):
            numbers_of = [entry.value, *({entry.low, entry.high} - {None})]
            whole = (entry.low is None) == (entry.high is None)
            if not whole or not all(_is_finite(value) for value in numbers_of):
                raise MissingError(f"{place} is no number: {entry}")
    return entries


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _culprit(results: Results, error: Exception) -> str:
    """Which measurement lacks what the keys read."""
    bare = replace(results, measurements=[], trainings=[])
    try:
        collection.collect(bare)
    except (KeyError, TypeError, IndexError) as own:
        return f"the study lacks {own}"
    for measurement in results.measurements:
        try:
            collection.collect(replace(bare, measurements=[measurement]))
        except (KeyError, TypeError, IndexError) as own:
            run = ".".join(str(part) for part in measurement["run"].values())
            return (
                f"the measurement {measurement['measurement']} of {run or 'the study'} lacks {own}"
            )
    for training in results.trainings:
        lacking = [key for key in TRAINING if key not in training]
        if lacking:
            return f"the training of {training['model']} lacks {', '.join(lacking)}"
    return f"a measurement lacks {error}"


def _series(results: Results) -> Iterator[tuple[Place, Entry]]:
    """The points of curves that figures draw and that have no keys: sweeps, and losses by position.

    Quantities that are null are undefined there and left out, as in the figures.
    """
    for measurement in _measured(results, "conditions"):
        for sweep, content in EvaluatedConditions.of(measurement).sweeps.items():
            for row in content.rows:
                for name, value in row:
                    if isinstance(value, Interval):
                        quantity = f"sweep.{sweep}.{row.value:g}.{name}"
                        yield _place(measurement, quantity, row.condition), number(value)
    for measurement in _measured(results, "extrapolation"):
        for entry in LongDocuments.of(measurement).conditions:
            for bucket in entry.buckets:
                quantity = f"positions.{bucket.begin}–{bucket.to - 1}.nll_per_token"
                place = _place(measurement, quantity, entry.condition)
                yield place, number(bucket.nll_per_token)


def _measured(results: Results, kind: str) -> Iterator[Mapping[str, Any]]:
    """The files of one kind that hold a result."""
    return (run for run in results.of(kind) if run["status"] == "measured")


def _place(measurement: Mapping[str, Any], quantity: str, condition: str = "") -> Place:
    """The place of a measurement's number, under its own condition or the given one."""
    run = measurement["run"]
    return Place(
        run.get("model", run.get("matrix", "")), run.get("dataset", ""),
        run.get("condition", condition), measurement["measurement"], quantity,
        (measurement["file"],),
    )  # fmt: skip


def _others(results: Results, entries: Mapping[Place, Entry]) -> Iterator[tuple[Place, Entry]]:
    """All estimates of measurements of which no number has a key."""
    known = {place.measurement for place in entries}
    for measurement in results.measurements:
        if measurement["measurement"] in known:
            continue
        if measurement["status"] != "measured":
            yield _place(measurement, "all"), NotRun(measurement["reason"])
        for path, entry in estimates(measurement):
            yield _place(measurement, ".".join(path)), entry


def estimates(value: Any) -> Iterator[tuple[tuple[str, ...], Number]]:
    """Everything in a measurement that has a value and an interval, with its path.

    Examples
    --------
    >>> list(estimates({"loss": {"value": 2.0, "low": 1.0, "high": 3.0}}))
    [(('loss',), Number(value=2.0, low=1.0, high=3.0, decimals=None))]
    """
    if isinstance(value, Mapping):
        if {"value", "low", "high"} <= value.keys():
            if _is_finite(value["value"]):
                yield (), Number(value["value"], value["low"], value["high"])
            return
        for name, part in value.items():
            if name not in ASIDE:
                yield from (((str(name), *path), entry) for path, entry in estimates(part))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            own = part if isinstance(part, Mapping) else {}
            name = next((own[key] for key in NAMES if isinstance(own.get(key), str)), str(index))
            yield from (((name, *path), entry) for path, entry in estimates(part))


def rows_of(results: Results) -> dict[Place, Entry]:
    """All numbers of a study by what they are of, in order of presentation.

    Returns
    -------
    dict
        Without what a document may speak of but the study lacks.

    Raises
    ------
    MissingError
        If a number that the study should have is not there.
    """
    study = results.study
    entries = collect(results)
    longer = study["study"]["extrapolation"] or {"conditions": []}
    conditions = {"", *study["conditions"], *longer["conditions"]}
    models = {"", ALL_DECODERS, *study["models"], *study["matrices"], *study["schemes"]}
    rows = {
        place: entry
        for place, entry in entries.items()
        if is_asked(study, place, entry)
        and (
            isinstance(entry, Number)
            # There is nothing to say of what a study lacks, nor of what a mask is not.
            or (
                place.model in models
                and place.condition in conditions
                and not place.quantity.startswith("masks.")
            )
        )
    }
    orders = [
        ["", *study["models"], ALL_DECODERS, *study["schemes"], *study["matrices"]],
        ["", *study["datasets"], *study["study"]["corpora"], LONG],
        ["", *study["conditions"]],
        list(dict.fromkeys(place.measurement for place in rows)),
    ]

    def order(place: Place) -> list[int]:
        own = (place.model, place.dataset, place.condition, place.measurement)
        return [
            names.index(name) if name in names else len(names)
            for name, names in zip(own, orders, strict=True)
        ]

    return {place: rows[place] for place in sorted(rows, key=order)}


def label_of(place: Place, encoders: Collection[str] = ()) -> str:
    """A place's quantity in words; masks of the models ``encoders`` have another unit."""
    measurement, quantity = place.measurement, place.quantity
    first, *middle = quantity.split(".")
    if first == "masks" and place.model in encoders:
        return label("masks_of_encoders", quantity)
    if first in ("sweep", "positions") and measurement in ("conditions", "extrapolation"):
        *value, name = middle  # a value may have a point of its own
        title = f"{value[0]} {'.'.join(value[1:])}" if first == "sweep" else f"positions {value[0]}"
        return f"{title} · {label(measurement, name)}"
    return label(measurement, quantity)


def check(numbers: Numbers) -> None:
    """Refuse a study that lacks a measurement, or one that lacks what others of its model have.

    Raises
    ------
    MissingError
        It names the first that is missing.
    """
    for place in numbers.missing:
        raise MissingError(f"{place}: there is no such measurement; rerun the workflow")
    present: dict[Place, set[str]] = {}
    wanted: dict[tuple[str, str, bool], dict[str, None]] = {}
    measured: dict[Place, tuple[str, str, bool]] = {}
    for key, place in numbers.places.items():
        if place.model:
            run = replace(place, quantity="", files=())
            present.setdefault(run, set()).add(place.quantity)
            if isinstance(numbers[key], Number):
                measured[run] = (place.model, place.measurement, place.condition != "")
                wanted.setdefault(measured[run], {}).setdefault(place.quantity)
    for run, kind in measured.items():
        for quantity in wanted[kind]:
            if quantity not in present[run]:
                raise MissingError(f"{run}.{quantity} is missing")
