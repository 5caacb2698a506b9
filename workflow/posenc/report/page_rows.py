"""Every number of a study as a row of a table: what it is, of what, and the file it comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.measurements.results import Results
from posenc.report import quantities as keys
from posenc.report.position_quantities import estimate
from posenc.report.records import Entry, NotRun, Number
from posenc.report.words import label

LONG = "long"
ALL_DECODERS = "all_decoders"
"""Stands in the place of a model for what decoders have in common."""
SHORTER = {"positions": "position_embeddings", "relative": "relative_attention"}
"""Measurements that keys call by a shorter name."""
RUN, CELL, MODEL, STUDY = 3, 2, 1, 0
EXPECTED = {
    "similarity": RUN, "perplexity": RUN, "probes": RUN, "components": RUN, "spectra": RUN,
    "heads": RUN, "norms": CELL, "reference": CELL, "layer_norm": CELL, "lags": CELL,
    "conditions": CELL, "position_embeddings": MODEL, "readback": MODEL,
    "relative_attention": MODEL, "random_causal": STUDY, "hard_attention": RUN,
    "embedding_sums": MODEL, "superposition": STUDY, "tokenizers": STUDY, "scaling": STUDY,
    "pretraining": STUDY, "memory_networks": STUDY,
}  # fmt: skip
"""What a study measures when it has it, by how many of model, data set and condition it is of."""
NAMES = ("name", "variant", "condition", "level", "task", "scheme", "tokenizer", "label")
"""What an item of a list is called by, where it has a name."""
ASIDE = ("provenance", "run", "spec", "parameters", "training", "sha256")
"""Parts of a measurement that are no results."""


@dataclass(frozen=True)
class Source:
    """A measurement's file, what it measures, and of which run."""

    path: str
    measurement: str
    run: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A number or why there is none; an empty name where it is of no model, data set, condition."""

    model: str
    dataset: str
    condition: str
    measurement: str
    quantity: str
    label: str
    entry: Entry
    sources: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The row's key, with the names of the study in place of roles."""
        place = (self.model, self.dataset, self.condition, self.measurement, self.quantity)
        return ".".join(part for part in place if part)


class MissingError(ValueError):
    """A number that the study should have is not there; the message has its name."""


Place = tuple[str, str, str, str, str]
"""Model, data set, condition, measurement, quantity."""


def place_of(key: str, study: Mapping[str, Any]) -> Place | None:
    """What a key of :mod:`posenc.report.quantities` is of; None if the study has no such thing."""
    corpora = study["study"]["corpora"]
    roles = {**keys.model_roles(study), **keys.dataset_roles(study)}
    roles |= dict(zip(["japanese"], corpora, strict=False))
    first, *rest = key.split(".")
    dataset = condition = ""
    if first == "constant":
        return None
    if first == "matrix":
        model = rest.pop(0)
    elif first == "decoders":
        model = ALL_DECODERS
    elif first in roles or first in (*study["models"], *study["schemes"]):
        model = roles.get(first, first)
    else:  # of the study as a whole
        model = ""
    measurement = "" if model != "" else first
    if len(rest) > 1 and (rest[0] in roles or rest[0] in (*study["datasets"], *corpora, LONG)):
        dataset = rest.pop(0)
        dataset = roles.get(dataset, dataset)
        known = (*study["conditions"], *keys.SPOKEN_CONDITIONS, *keys.SPOKEN_LONG)
        if len(rest) > 1 and rest[0] in known:
            condition = rest.pop(0)
    if model is None or dataset is None:
        return None
    if dataset == LONG:
        measurement = "extrapolation"
    elif measurement == "" and (rest[0] == "masks" or rest == ["count"]):
        measurement = "conditions"
    elif measurement == "":
        measurement = rest.pop(0)
        measurement = SHORTER.get(measurement, measurement)
    return model, dataset, condition, measurement, ".".join(rest)


def views(study: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The study, and once more for each name that a role hides, with that name first.

    Keys of a role take precedence over those of a model or data set that is called the same.
    """
    yield study
    for kind, of in (("models", keys.model_roles), ("datasets", keys.dataset_roles)):
        for name, meant in of(study).items():
            listed = study["study"][kind]
            if name in listed and meant != name:
                first = [name, *(other for other in listed if other != name)]
                turned = {**study, "study": {**study["study"], kind: first}}
                if of(turned)[name] != name:
                    raise MissingError(f"{kind} names {name!r}, which is a role: call it otherwise")
                yield turned


def collect(results: Results) -> dict[Place, Entry]:
    """All numbers of a study by what they are of.

    Raises
    ------
    MissingError
        If a measurement lacks a number, or a number lacks an end of its interval.
    """
    found: dict[Place, Entry] = {}
    for study in views(results.study):
        try:
            numbers = keys.collect(study, results.measurements, results.trainings)
        except (KeyError, TypeError, IndexError) as error:
            raise MissingError(_culprit(study, results, error)) from error
        for key, entry in numbers.items():
            place = place_of(key, study)
            if place is not None:
                found.setdefault(place, entry)
    for place, entry in [*_series(results), *_others(results, found)]:
        found.setdefault(place, entry)
    for place, entry in found.items():
        if isinstance(entry, Number):
            numbers_of = [entry.value, *({entry.low, entry.high} - {None})]
            whole = (entry.low is None) == (entry.high is None)
            if not whole or not all(_is_finite(value) for value in numbers_of):
                raise MissingError(f"{'.'.join(filter(None, place))} is no number: {entry}")
    return found


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _culprit(study: Mapping[str, Any], results: Results, error: Exception) -> str:
    """Which measurement lacks what the keys read."""
    try:
        keys.collect(study, [], [])
    except (KeyError, TypeError, IndexError) as own:
        return f"the study lacks {own}"
    for one in results.measurements:
        try:
            keys.collect(study, [one], [])
        except (KeyError, TypeError, IndexError) as own:
            run = ".".join(str(part) for part in one["run"].values())
            return f"the measurement {one['measurement']} of {run or 'the study'} lacks {own}"
    for one in results.trainings:
        lacking = [key for key in keys.TRAINING if key not in one]
        if lacking:
            return f"the training of {one['model']} lacks {', '.join(lacking)}"
    return f"a measurement lacks {error}"


def _series(results: Results) -> Iterator[tuple[Place, Entry]]:
    """The points of curves that figures draw and that have no keys: sweeps, and losses by position.

    Quantities that are null are undefined there and left out, as in the figures.
    """
    for one in results.of("conditions"):
        run = (one["run"]["model"], one["run"]["dataset"])
        for sweep, content in one["sweeps"].items():
            for row in content["rows"]:
                for name, value in row.items():
                    if isinstance(value, Mapping):
                        quantity = f"sweep.{sweep}.{row['value']:g}.{name}"
                        yield (*run, row["condition"], "conditions", quantity), estimate(value)
    for one in results.of("extrapolation"):
        for condition in one.get("conditions") or ():
            for bucket in condition["buckets"]:
                quantity = f"positions.{bucket['from']}–{bucket['to'] - 1}.nll_per_token"
                place = (one["run"]["model"], LONG, condition["condition"], "extrapolation")
                yield (*place, quantity), estimate(bucket["nll_per_token"])


def _others(results: Results, found: Mapping[Place, Entry]) -> Iterator[tuple[Place, Entry]]:
    """All estimates of measurements of which no number has a key."""
    known = {place[3] for place in found} | {"extrapolation"}
    for one in results.measurements:
        kind, run = one["measurement"], one["run"]
        if kind in known:
            continue
        place = (run.get("model", run.get("matrix", "")), run.get("dataset", ""),
                 run.get("condition", ""), kind)  # fmt: skip
        if one["status"] != "measured":
            yield (*place, "all"), NotRun(one["reason"])
        for path, entry in estimates(one):
            yield (*place, ".".join(path)), entry


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


def rows_of(results: Results, sources: Sequence[Source]) -> list[Row]:
    """All numbers of a study as rows, in order of presentation.

    Parameters
    ----------
    results
        All that is shown.
    sources
        The files that were read.

    Returns
    -------
    list of Row
        Without what a document may speak of and the study does not have.

    Raises
    ------
    MissingError
        If a number that the study should have is not there.
    """
    study = results.study
    found = collect(results)
    conditions = {"", *study["conditions"], *study["study"]["extrapolation"]["conditions"]}
    models = {"", ALL_DECODERS, *study["models"], *study["matrices"], *study["schemes"]}
    by_kind: dict[str, list[Source]] = {}
    for source in sources:
        by_kind.setdefault(source.measurement, []).append(source)
    rows = [
        Row(*place, _label(place), entry, _sources(place, by_kind, study))
        for place, entry in found.items()
        if isinstance(entry, Number)
        # Of what a study does not have there is nothing to say; nor of what a mask is not.
        or (place[0] in models and place[2] in conditions and not place[4].startswith("masks."))
    ]
    check(rows, results)
    orders = [
        ["", *study["models"], ALL_DECODERS, *study["schemes"], *study["matrices"]],
        ["", *study["datasets"], *study["study"]["corpora"], LONG],
        ["", *study["conditions"]],
        list(dict.fromkeys(row.measurement for row in rows)),
    ]

    def order(row: Row) -> list[int]:
        place = (row.model, row.dataset, row.condition, row.measurement)
        return [
            names.index(name) if name in names else len(names)
            for name, names in zip(place, orders, strict=True)
        ]

    return sorted(rows, key=order)


def _label(place: Place) -> str:
    _, _, _, measurement, quantity = place
    first, *middle = quantity.split(".")
    if first in ("sweep", "positions") and measurement in ("conditions", "extrapolation"):
        *value, name = middle  # a value may have a point of its own
        title = f"{value[0]} {'.'.join(value[1:])}" if first == "sweep" else f"positions {value[0]}"
        return f"{title} · {label(measurement, name)}"
    return label(measurement, quantity)


def _sources(
    place: Place, by_kind: Mapping[str, list[Source]], study: Mapping[str, Any]
) -> tuple[str, ...]:
    """Files that a number comes from: of what has no data set, the last one; of all, all."""
    model, dataset, condition, measurement, _ = place
    decoders = [name for name, one in study["models"].items() if one["is_decoder"]]
    models = decoders if model == ALL_DECODERS else [model]
    wanted = {"dataset": dataset, "condition": condition}
    paths = []
    for source in by_kind.get(measurement, ()):
        of = source.run.get("model", source.run.get("matrix"))
        if of is not None and model and of not in models:
            continue
        if all(not name or source.run.get(part) in (None, name) for part, name in wanted.items()):
            paths.append(source.path)
    return tuple(dict.fromkeys(paths if model == ALL_DECODERS else paths[-1:]))


def check(rows: Iterable[Row], results: Results) -> None:
    """Refuse a study that lacks a measurement, or a measurement that lacks a number.

    Raises
    ------
    MissingError
        It names the first that is missing.
    """
    study = results.study
    quantities: dict[tuple[str, str], dict[str, None]] = {}
    places: dict[tuple[str, str, str, str], set[str]] = {}
    measured = set()
    for row in rows:
        place = (row.model, row.dataset, row.condition, row.measurement)
        places.setdefault(place, set()).add(row.quantity)
        if isinstance(row.entry, Number) and not row.quantity.startswith(("sweep.", "masks.")):
            measured.add(place)
            quantities.setdefault((row.model, row.measurement), {}).setdefault(row.quantity)
    of_study = {row.measurement for row in rows if not row.model}
    for place in expected(study):
        if place[3] in of_study and not any(place[:3]):
            continue
        if place not in places:
            raise MissingError(f"{_named(place)}: there is no such measurement; rerun the workflow")
        if place in measured and place[3] in EXPECTED and place[3] != "conditions":
            for quantity in quantities[place[0], place[3]]:
                if quantity not in places[place]:
                    raise MissingError(f"{_named(place)}.{quantity} is missing")
    trained = {one["model"] for one in results.trainings}
    for model in study["study"]["trained"]:
        if model not in trained:
            raise MissingError(f"{model}.training: there is no such summary; rerun the workflow")


def _named(place: Sequence[str]) -> str:
    return ".".join(part for part in place if part)


def expected(study: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Model, data set, condition and measurement of all that a study measures."""
    of = study["study"]
    for kind, parts in EXPECTED.items():
        if kind not in study["measured"]:
            continue
        if parts == STUDY:
            yield "", "", "", kind
        for model in of["models"] if parts > STUDY else ():
            if parts == MODEL:
                yield model, "", "", kind
            for dataset in of["datasets"] if parts > MODEL else ():
                conditions = [""] if parts == CELL else of["conditions"]
                for condition in study["conditions"] if kind == "conditions" else conditions:
                    yield model, dataset, condition, kind
    for name in of["matrices"]:
        yield name, "", "", "position_embeddings"
    for model in of["models"]:
        yield model, LONG, "", "extrapolation"
    for model in of["pretrained"] if "downstream" in study["measured"] else ():
        yield model, "", "", "downstream"
