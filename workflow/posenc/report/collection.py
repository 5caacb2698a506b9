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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from posenc.artifacts.numbers import ENDS, Entry, NotRun, Number, Reader, facts_of
from posenc.experiments.tokenizers.quantities import SPOKEN, tokenizers
from posenc.measurements.conditions import quantities as of_conditions
from posenc.measurements.declaration import CELL, MODEL, RUN, STUDY
from posenc.measurements.lags.quantities import LAGS, compared
from posenc.report import quantities as keys
from posenc.report.readers import QUANTITIES
from posenc.report.records import ALL_DECODERS, LONG, Numbers, Place, Results

LEFT_OUT = {
    "captured": ("models", "activations of {} are not kept"),
    "examined": ("models", "{} is not looked into layer by layer"),
    "finetuned": ("pretrained", "no classifier is made of {}"),
}
"""By a list of models: the one that it is a part of, and why others of it have no measurement."""


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
        Runs that a document may speak of but that the study lacks are ``NotRun``. A measurement
        that the study should have and that is not there leaves no key.
    """
    study, made = results.study, _Collection(results, roles)
    made.numbers.put(Place(measurement="constant"), {"zero": Number(0), "one": Number(1)})
    for cell, why in made.cells():
        made.runs(cell, why)
    for cell, why in made.cells():
        made.conditions(cell, why)
    made.decoders()
    for place, why in made.models():
        made.long(place, why)
        made.masks(place, why)
    of_cells, of_models = made.read_of(CELL), made.read_of(MODEL)
    for cell, why in made.cells():
        made.lags(cell, why, [cell.model])
        made.kinds(cell, why, of_cells)
    for place, why in made.models():
        made.kinds(place, why, of_models)
    made.matrices()
    for place, why in made.with_datasets(Place()):
        made.lags(place, why, study["study"]["captured"])
    of_schemes = made.read_of(CELL, schemes=True)
    for scheme, dataset in itertools.product(study["schemes"], study["study"]["datasets"]):
        made.kinds(Place(scheme, dataset, keys.INTACT), None, of_schemes)
    made.kinds(Place(), None, made.read_of(STUDY))
    made.tokenizers()
    for place, why in made.models():
        made.training(place, why)
    return made.numbers


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
        self.found = {("training", one["model"], "", ""): one for one in results.trainings}
        for one in results.measurements:
            run = {"model": one["run"].get("matrix", ""), **one["run"]}
            of = self.study["measurements"].get(one["measurement"], {"of": RUN})["of"]
            # A file of a model may name the data set of its experiment; one of a model and a data
            # set may hold the runs of all conditions.
            names = (run.get(part, "") if part in of or "dataset" in of else "" for part in RUN)
            self.found[one["measurement"], *names] = one

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
        """Numbers of a measurement, which may be ``of`` more than they, or why there are none."""
        if why is not None:
            self.numbers.put(place, dict.fromkeys(names, NotRun(why)))
        elif (one := self.find(of or place)) is None:
            self.numbers.missing.append(place)
        else:
            self.numbers.put(replace(place, files=(one["file"],)), facts_of(one, read, names))

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
        """The same of data sets, beside what a place has."""
        for key, name in self.names("datasets"):
            lacking = None if name else keys.no(key)
            yield replace(place, dataset=name, called=(place.called[0], key)), lacking

    def cells(self) -> Iterator[tuple[Place, str | None]]:
        """The same of models and data sets."""
        for place, no_model in self.models():
            for cell, no_dataset in self.with_datasets(place):
                yield cell, no_model or no_dataset

    def under(
        self, place: Place, why: str | None, conditions: Iterable[str], spoken: Iterable[str]
    ) -> Iterator[tuple[Place, str | None]]:
        """The same of conditions of the study, and of those that documents speak of."""
        for name in dict.fromkeys([*conditions, *spoken]):
            lacking = None if name in conditions else f"no condition {name} in this study"
            yield replace(place, condition=name), why or lacking

    def left_out(self, kind: str, place: Place) -> str | None:
        """Why a measurement is not of a model of the study; None where it is."""
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

        ``schemes``: of models that are trained to compare schemes of positions.
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
                self.add(here, lacking, read, QUANTITIES[kind].names)

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
            read = partial(of_conditions.evaluated, condition=place.condition)
            self.add(place, lacking, read, of_conditions.CONDITIONS, of=cell)
        one = None if why else self.find(cell)
        if why is None and one is None:
            return  # Its conditions are missing.
        if one is not None:
            own = replace(cell, measurement="coverage")
            self.add(own, None, of_conditions.coverage_facts, of_conditions.COVERAGE, of=cell)
        own = replace(cell, measurement="categories")
        self.add(own, why, of_conditions.categories, of_conditions.CATEGORIES, of=cell)
        fitted = of_conditions.with_controls(one) if one else []
        for name in dict.fromkeys([*keys.SPOKEN_FITS, *fitted]):
            place = replace(cell, condition=name, measurement="adaptation")
            read = partial(of_conditions.adapted, condition=name)
            self.add(place, why, read, of_conditions.ADAPTATION, of=cell)

    def decoders(self) -> None:
        """What decoders that differ in the seed of their training have in common."""
        numbers, names = self.numbers, keys.seeds(self.study)
        files = tuple(
            one["file"]
            for (kind, model, *_), one in self.found.items()
            if kind == "conditions" and model in names
        )
        every = Place(ALL_DECODERS, measurement="conditions", called=("decoders", ""))
        numbers.put(replace(every, files=files), {"count": Number(len(names))})
        evaluated = (self.study["conditions"], keys.SPOKEN_CONDITIONS)
        for cell, _ in self.with_datasets(every):
            for place, _ in self.under(cell, None, *evaluated):
                # Not by key: another decoder's role may be called as one of them is.
                found = [self.find(replace(place, model=name, condition="")) for name in names]
                own = [one for one in found if one is not None]
                if len(own) == len(names) or not place.dataset:
                    evaluated_by = [of_conditions.evaluated(one, place.condition) for one in own]
                    shares = [entries["recovered"] for entries in evaluated_by]
                    entries = {f"recovered.{key}": one for key, one in keys.spread(shares).items()}
                    numbers.put(replace(place, files=tuple(one["file"] for one in own)), entries)

    def long(self, place: Place, why: str | None) -> None:
        called = (place.called[0], LONG)
        place = replace(place, dataset=LONG, measurement="extrapolation", called=called)
        if self.active["extrapolation"] is None:
            why = "not part of this study"
        self.add(place, why, of_conditions.long_counts, of_conditions.LONG_COUNTS)
        chosen = (self.active["extrapolation"] or {"conditions": []})["conditions"]
        for condition in dict.fromkeys([*chosen, *keys.SPOKEN_LONG]):
            read = partial(of_conditions.long_facts, condition=condition)
            self.add(replace(place, condition=condition), why, read, of_conditions.ENDS, of=place)

    def masks(self, place: Place, why: str | None) -> None:
        place = replace(place, measurement="conditions")
        # They are the same in the files of all data sets.
        of = replace(place, dataset=self.active["datasets"][-1])
        masks = list(dict.fromkeys([*self.study["masks"], *keys.SPOKEN_MASKS]))
        names = [f"masks.{mask}.{key}" for mask in masks for key in of_conditions.MASK]
        self.add(place, why, partial(of_conditions.masks_facts, masks=masks), names, of=of)

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
        one = self.find(place)
        if one is None:
            self.numbers.missing += [place] if self.has("tokenizers", place) else []
            return
        called = {name: "japanese" for name in self.active["corpora"][:1]}
        if self.roles:
            called |= {keys.dataset_roles(self.study)["reviews"] or "": "reviews"}
        for (dataset, quantity), entry in tokenizers(one).items():
            for name in dict.fromkeys([dataset, called.get(dataset, dataset)]):
                own = replace(place, dataset=dataset, files=(one["file"],), called=("", name))
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
