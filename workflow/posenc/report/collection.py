"""Every number that a document may print, by key.

A key is ``MODEL.DATASET.CONDITION.MEASUREMENT.QUANTITY``. The first model of each kind and the
first data set of each format have a role's name too (``encoder``, ``decoder``; ``reviews``,
``questions``), so that the text of a document fits every study. A role's name takes precedence
over a model or data set that happens to be called the same. What does not belong to a condition
leaves it out (``MODEL.DATASET.reference.bigram.perplexity``), or the data set too
(``MODEL.masks.MASK.loss``, ``MODEL.long.CONDITION.beyond``); ``decoders`` are the seeds
of a training.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from posenc.artifacts.numbers import ENDS, Entry, Facts, NotRun, Number, Reader, facts_of
from posenc.artifacts.results import Result
from posenc.experiments.tokenizers.quantities import SPOKEN, tokenizers
from posenc.experiments.tokenizers.result import Comparison
from posenc.measurements.conditions import quantities as of_conditions
from posenc.measurements.conditions.result import EvaluatedConditions, LongDocuments
from posenc.measurements.declaration import CELL, MODEL, RUN, STUDY
from posenc.measurements.lags.quantities import LAGS, compared
from posenc.report import quantities as keys
from posenc.report.readers import QUANTITIES
from posenc.report.records import ALL_DECODERS, LONG, Numbers, Place, Results

T = TypeVar("T")
LEFT_OUT = {
    "captured": ("models", "activations of {} are not kept"),
    "examined": ("models", "{} is not looked into layer by layer"),
    "finetuned": ("pretrained", "no classifier is made of {}"),
}
"""By a list of models: the list that it is part of, and why other models lack a measurement."""


def collect(results: Results, roles: bool = True) -> Numbers:
    """All numbers of a study by key.

    Parameters
    ----------
    results
        The study, its measurements and trainings, each with the ``file`` that it was read from.
    roles
        Whether there are keys of roles too, or of names alone.

    Returns
    -------
    Numbers
        Runs that a document may speak of but that the study lacks are ``NotRun``. A missing
        measurement that the study should have leaves no key.
    """
    study, collection = results.study, _Collection(results, roles)
    collection.numbers.put(Place(measurement="constant"), {"zero": Number(0), "one": Number(1)})
    for cell, why in collection.cells():
        collection.runs(cell, why)
    for cell, why in collection.cells():
        collection.conditions(cell, why)
    collection.decoders()
    for place, why in collection.models():
        collection.long(place, why)
        collection.masks(place, why)
    of_cells, of_models = collection.read_of(CELL), collection.read_of(MODEL)
    for cell, why in collection.cells():
        collection.lags(cell, why, [cell.model])
        collection.kinds(cell, why, of_cells)
    for place, why in collection.models():
        collection.kinds(place, why, of_models)
    collection.matrices()
    for place, why in collection.with_datasets(Place()):
        collection.lags(place, why, study["study"]["captured"])
    of_schemes = collection.read_of(CELL, schemes=True)
    for scheme, dataset in itertools.product(study["schemes"], study["study"]["datasets"]):
        collection.kinds(Place(scheme, dataset, keys.INTACT), None, of_schemes)
    collection.kinds(Place(), None, collection.read_of(STUDY))
    collection.tokenizers()
    for place, why in collection.models():
        collection.training(place, why)
    return collection.numbers


def add_ends(numbers: Numbers) -> None:
    """Name numbers by the ends of what a study varies, for texts that fit every list of values.

    Of ``strongest.1.cosine`` to ``strongest.16.cosine`` the last is ``strongest.largest.cosine``,
    too, and ``strongest.largest`` is 16; ``window_4.best`` is ``window_smallest.best``.
    """
    families: dict[tuple[str, str], dict[int, str]] = {}

    def add(key: str, entry: Entry, like: str) -> None:
        if not isinstance(numbers.get(key), Number):
            numbers[key], numbers.places[key] = entry, numbers.places[like]

    for key, place in list(numbers.places.items()):
        parts = key.split(".")
        for at in range(len(parts) - place.quantity.count(".") - 1, len(parts)):
            stem, _, last = parts[at].rpartition("_")
            before = ".".join([*parts[:at], f"{stem}_" if stem else ""])
            if last.isdigit():
                families.setdefault((before, ".".join(parts[at + 1 :])), {})[int(last)] = key
            elif last in ENDS:  # of what is not measured
                add(before + last, numbers[key], key)
    for (before, after), by_value in families.items():
        measured = {n: key for n, key in by_value.items() if isinstance(numbers[key], Number)}
        for name, end in ENDS.items():
            value, key = end((measured or by_value).items())
            entry = numbers[key]
            if after:
                add(f"{before}{name}.{after}", entry, key)
            add(before + name, Number(value) if isinstance(entry, Number) else entry, key)


class _Collection:
    """Numbers that are being collected."""

    def __init__(self, results: Results, roles: bool) -> None:
        self.study, self.active, self.roles = results.study, results.study["study"], roles
        self.numbers = Numbers()
        self.known: dict[tuple[int, Callable], Any] = {}
        self.found = {
            ("training", training["model"], "", ""): training for training in results.trainings
        }
        for measurement in results.measurements:
            run = {"model": measurement["run"].get("matrix", ""), **measurement["run"]}
            of = self.study["measurements"].get(measurement["measurement"], {"of": RUN})["of"]
            # A file of a model may name the data set of its experiment; one of a model and a data
            # set may hold the runs of all conditions.
            names = (run.get(part, "") if part in of or "dataset" in of else "" for part in RUN)
            self.found[measurement["measurement"], *names] = measurement

    def find(self, place: Place) -> Mapping[str, Any] | None:
        return self.found.get((place.measurement, place.model, place.dataset, place.condition))

    def add(
        self,
        place: Place,
        why: str | None,
        read: Reader,
        names: Sequence[str],
        of: Place | None = None,
    ) -> None:
        """Add the numbers of a measurement, or why there are none; ``of``: its place, if larger."""
        if why is not None:
            self.numbers.put(place, dict.fromkeys(names, NotRun(why)))
        elif (measurement := self.find(of or place)) is None:
            self.numbers.missing.append(place)
        else:
            self.numbers.put(
                replace(place, files=(measurement["file"],)), facts_of(measurement, read, names)
            )

    def once(self, read: Callable[[Mapping[str, Any]], T]) -> Callable[[Mapping[str, Any]], T]:
        """As ``read``: a file that many numbers or roles are of is read once."""

        def remembered(measured: Mapping[str, Any]) -> T:
            key = id(measured), read  # of what ``results`` holds
            if key not in self.known:
                self.known[key] = read(measured)
            return self.known[key]

        return remembered

    def reader(self, kind: type[Result], read: Callable[..., Facts], *given: Any) -> Reader:
        """Read a file as ``read(result, *given)``."""
        return lambda measured: read(self.once(kind.of)(measured), *given)

    def names(self, kind: str) -> Iterator[tuple[str, str]]:
        """Parts of keys, and the model or data set that each stands for; roles come last."""
        yield from ((name, name) for name in self.active[kind])
        if self.roles:
            roles = (keys.model_roles if kind == "models" else keys.dataset_roles)(self.study)
            yield from ((role, name or "") for role, name in roles.items())

    def models(self) -> Iterator[tuple[Place, str | None]]:
        """Models, and why there is nothing of a role."""
        for key, name in self.names("models"):
            yield Place(name, called=(key, "")), None if name else keys.no(key)

    def with_datasets(self, place: Place) -> Iterator[tuple[Place, str | None]]:
        """The same for data sets, in addition to a place."""
        for key, name in self.names("datasets"):
            lacking = None if name else keys.no(key)
            yield replace(place, dataset=name, called=(place.called[0], key)), lacking

    def cells(self) -> Iterator[tuple[Place, str | None]]:
        """The same for models and data sets."""
        for place, no_model in self.models():
            for cell, no_dataset in self.with_datasets(place):
                yield cell, no_model or no_dataset

    def under(
        self, place: Place, why: str | None, conditions: Iterable[str], spoken: Iterable[str]
    ) -> Iterator[tuple[Place, str | None]]:
        """The same for conditions of the study, and those that documents speak of."""
        for name in dict.fromkeys([*conditions, *spoken]):
            lacking = None if name in conditions else f"no condition {name} in this study"
            yield replace(place, condition=name), why or lacking

    def left_out(self, kind: str, place: Place) -> str | None:
        """Why a measurement leaves out a model of the study; None where it does not."""
        subjects = self.study["measurements"][kind]["subjects"]
        if place.model not in self.active["models"] or place.model in self.active[subjects]:
            return None
        return LEFT_OUT[subjects][1].format(place.model)

    def has(self, kind: str, place: Place) -> bool:
        """Whether there are keys of a measurement.

        Where a model is left out, only a role has them, because documents may speak of it.
        """
        if kind not in self.study["measured"]:
            return False
        if self.left_out(kind, place) is None:
            return True
        whole, _ = LEFT_OUT[self.study["measurements"][kind]["subjects"]]
        return place.called[0] != place.model and place.model in self.active[whole]

    def read_of(self, of: tuple[str, ...], schemes: bool = False) -> list[str]:
        """Measurements and experiments whose numbers are of this, one file or one run each.

        ``schemes``: of models that are trained to compare position schemes.
        """

        def is_of(facts: Mapping[str, Any]) -> bool:
            unit = RUN if facts.get("by_condition") else tuple(facts["of"])
            return unit == of and (facts["subjects"] == "schemes") == schemes

        known = self.study["measurements"]
        return [
            kind
            for kind, quantities in QUANTITIES.items()
            if quantities.read and kind in known and is_of(known[kind])
        ]

    def kinds(self, place: Place, why: str | None, kinds: Iterable[str]) -> None:
        for kind in kinds:
            read = QUANTITIES[kind].read
            if read and self.has(kind, place):
                here = replace(place, measurement=kind)
                lacking = why or self.left_out(kind, place)
                self.add(here, lacking, self.once(read), QUANTITIES[kind].names)

    def runs(self, cell: Place, why: str | None) -> None:
        of_runs = self.read_of(RUN)
        for place, lacking in self.under(
            cell, why, self.active["conditions"], keys.HEADLINE_CONDITIONS
        ):
            self.kinds(place, lacking, of_runs)

    def conditions(self, cell: Place, why: str | None) -> None:
        cell = replace(cell, measurement="conditions")
        for place, lacking in self.under(
            cell, why, self.study["conditions"], keys.SPOKEN_CONDITIONS
        ):
            given = (of_conditions.evaluated, place.model, place.condition)
            read = self.reader(EvaluatedConditions, *given)
            self.add(place, lacking, read, of_conditions.CONDITIONS, of=cell)
        measurement = None if why else self.find(cell)
        if why is None and measurement is None:
            return  # Its conditions are missing.
        fitted: list[str] = []
        if measurement is not None:
            own = replace(cell, measurement="coverage")
            read = self.reader(EvaluatedConditions, of_conditions.coverage_facts)
            self.add(own, None, read, of_conditions.COVERAGE, of=cell)
            fitted = of_conditions.with_controls(self.once(EvaluatedConditions.of)(measurement))
        own = replace(cell, measurement="categories")
        read = self.reader(EvaluatedConditions, of_conditions.categories)
        self.add(own, why, read, of_conditions.CATEGORIES, of=cell)
        for name in dict.fromkeys([*keys.SPOKEN_FITS, *fitted]):
            place = replace(cell, condition=name, measurement="adaptation")
            read = self.reader(EvaluatedConditions, of_conditions.adapted, cell.model, name)
            self.add(place, why, read, of_conditions.ADAPTATION, of=cell)

    def decoders(self) -> None:
        """What decoders that differ in the seed of their training have in common."""
        numbers, names = self.numbers, keys.seeds(self.study)
        files = tuple(
            measurement["file"]
            for (kind, model, *_), measurement in self.found.items()
            if kind == "conditions" and model in names
        )
        every = Place(ALL_DECODERS, measurement="conditions", called=("decoders", ""))
        numbers.put(replace(every, files=files), {"count": Number(len(names))})
        evaluated = (self.study["conditions"], keys.SPOKEN_CONDITIONS)
        for cell, _ in self.with_datasets(every):
            for place, _ in self.under(cell, None, *evaluated):
                # Not by key: another decoder's role may have the name of one of them.
                runs = [self.find(replace(place, model=name, condition="")) for name in names]
                own = [run for run in runs if run is not None]
                if len(own) == len(names) or not place.dataset:
                    shares = [
                        of_conditions.evaluated(
                            self.once(EvaluatedConditions.of)(run),
                            run["run"]["model"],
                            place.condition,
                        )["recovered"]
                        for run in own
                    ]
                    entries = {
                        f"recovered.{key}": entry for key, entry in keys.spread(shares).items()
                    }
                    numbers.put(replace(place, files=tuple(run["file"] for run in own)), entries)

    def long(self, place: Place, why: str | None) -> None:
        called = (place.called[0], LONG)
        place = replace(place, dataset=LONG, measurement="extrapolation", called=called)
        if self.active["extrapolation"] is None:
            why = "not part of this study"
        read = self.reader(LongDocuments, of_conditions.long_counts)
        self.add(place, why, read, of_conditions.LONG_COUNTS)
        chosen = (self.active["extrapolation"] or {"conditions": []})["conditions"]
        for condition in dict.fromkeys([*chosen, *keys.SPOKEN_LONG]):
            read = self.reader(LongDocuments, of_conditions.long_facts, condition)
            self.add(replace(place, condition=condition), why, read, of_conditions.ENDS, of=place)

    def masks(self, place: Place, why: str | None) -> None:
        place = replace(place, measurement="conditions")
        # They are the same in the files of all data sets.
        of = replace(place, dataset=self.active["datasets"][-1])
        masks = list(dict.fromkeys([*self.study["masks"], *keys.SPOKEN_MASKS]))
        names = [f"masks.{mask}.{key}" for mask in masks for key in of_conditions.MASK]
        read = self.reader(EvaluatedConditions, of_conditions.masks_facts, place.model, masks)
        self.add(place, why, read, names, of=of)

    def lags(self, place: Place, why: str | None, models: Sequence[str]) -> None:
        if self.has("lags", place):
            why = why or self.left_out("lags", place)
            read = partial(compared, models=models, dataset=place.dataset)
            place, of = replace(place, measurement="lags"), Place(measurement="lags")
            self.add(place, why, read, LAGS, of=of)

    def matrices(self) -> None:
        facts = self.study["measurements"]
        kinds = [kind for kind in self.read_of(MODEL) if facts[kind].get("of_matrices")]
        for name in dict.fromkeys([*self.study["matrices"], *keys.SPOKEN_MATRICES]):
            lacking = None if name in self.study["matrices"] else f"no matrix {name} in this study"
            place = Place(name, called=(f"matrix.{name}", ""))
            self.kinds(place, lacking, kinds)
        for (name, kind), why in keys.not_of_parts(self.study).items():
            place = Place(name, measurement=kind, called=(f"matrix.{name}", ""))
            self.numbers.put(place, {"all": NotRun(why)})

    def tokenizers(self) -> None:
        place = Place(measurement="tokenizers")
        measurement = self.find(place)
        if measurement is None:
            self.numbers.missing += [place] if self.has("tokenizers", place) else []
            return
        called = {name: "japanese" for name in self.active["corpora"][:1]}
        if self.roles:
            called |= {keys.dataset_roles(self.study)["reviews"] or "": "reviews"}
        for (dataset, quantity), entry in tokenizers(Comparison.of(measurement)).items():
            for name in dict.fromkeys([dataset, called.get(dataset, dataset)]):
                own = replace(
                    place, dataset=dataset, files=(measurement["file"],), called=("", name)
                )
                self.numbers.put(own, {quantity: entry})
        for role, quantities in SPOKEN.items() if self.roles else ():
            own = replace(place, called=("", role))
            lacking = NotRun("the study trains no such tokenizer")
            said = (key for key in quantities if f"{own.key}.{key}" not in self.numbers)
            self.numbers.put(own, dict.fromkeys(said, lacking))

    def training(self, place: Place, why: str | None) -> None:
        if why is None and place.model not in self.active["trained"]:
            why = f"{place.model} is not trained here"
        self.add(replace(place, measurement="training"), why, keys.training_facts, keys.TRAINING)
