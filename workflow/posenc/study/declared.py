"""What can be measured and trained: the folders that declare a measurement or an experiment.

This is the only place that looks for them. Each step imports only its own declaration, so a new
one leaves the code of all others as it is; documents read what ``data/config/study.json`` says.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pydantic import Field, create_model

from posenc import experiments, measurements
from posenc.artifacts.discovery import discovered
from posenc.config.base import Name, Section
from posenc.drawing.exhibit import Exhibit
from posenc.drawing.section import Inches, Style
from posenc.experiments.declaration import Experiment
from posenc.figures.catalogue import FIGURES, declared_in
from posenc.measurements.declaration import (
    ACTIVATIONS,
    DATASETS,
    MASKS,
    TOKENIZER,
    TOKENS,
    WEIGHTS,
    Measurement,
)

D = TypeVar("D")


def _declarations(package: ModuleType, kind: type[D], attribute: str, file: str) -> dict[str, D]:
    """What the folders of a package declare in a file, by name.

    Raises
    ------
    ValueError
        If a measurement's name is not that of its folder.
    """
    declarations = {}
    for name, module in discovered(package.__name__, file).items():
        declared = getattr(module, attribute, None)
        if isinstance(declared, kind):
            if (called := getattr(declared, "name", name)) != name:
                raise ValueError(
                    f"{module.__name__} declares the measurement {called!r}: call it {name!r}, as "
                    "its folder"
                )
            declarations[name] = declared
    return declarations


def _kinds(
    measurements: dict[str, Measurement], experiments: dict[str, Experiment]
) -> dict[str, Measurement | Experiment]:
    if both := sorted(measurements.keys() & experiments.keys()):
        raise ValueError(f"a measurement and an experiment are both called {both[0]!r}")
    return {**measurements, **experiments}


MEASUREMENTS = _declarations(measurements, Measurement, "MEASUREMENT", "declaration")
"""By name, which is the folder's."""
EXPERIMENTS = _declarations(experiments, Experiment, "EXPERIMENT", "section")
"""By name, which is the folder's."""
KINDS = _kinds(MEASUREMENTS, EXPERIMENTS)
"""Both: what a study can have results of."""

GIVEN = frozenset({ACTIVATIONS, TOKENS, MASKS, DATASETS, TOKENIZER, WEIGHTS, *MEASUREMENTS})
"""What a measurement can read without a rule of its own."""
ALWAYS = tuple(name for name, declared in MEASUREMENTS.items() if declared.always)
"""Measurements that every study has."""
OPTIONAL = tuple(
    name
    for name, declared in MEASUREMENTS.items()
    if not declared.always and declared.parameters_of is None
)
"""Measurements that a study may choose."""
FURTHER = tuple(name for name, declared in MEASUREMENTS.items() if declared.parameters_of)
"""Measurements that a study has where it has their subjects."""


def _section(doc: str, name: str, base: type[Section], fields: Mapping[str, Any]) -> Any:
    """A section with the fields of another one, and more: the type and default of each."""
    return create_model(name, __base__=base, __doc__=doc, **fields)


def _changes(section: type[Section]) -> Any:
    """A section any of whose keys may be left out."""
    fields = {}
    for key, field in section.model_fields.items():
        optional = copy.copy(field)
        optional.default, optional.default_factory = None, None
        fields[key] = (field.annotation, optional)
    return _section(section.__doc__ or "", f"{section.__name__}Changes", Section, fields)


def _may_be_left_out(section: type[Section]) -> Any:
    """How a field of this section is declared: with its defaults, or as required."""
    if any(field.is_required() for field in section.model_fields.values()):
        return section, ...
    return section, Field(default_factory=section)


def _sized(name: str, exhibit: Exhibit) -> type[Section]:
    """The section of a figure, of the size that its exhibit declares."""
    title = "".join(word.capitalize() for word in name.split("_"))
    return create_model(
        f"{title}Figure",
        __base__=exhibit.section,
        __doc__=exhibit.section.__doc__,
        __module__=declared_in(name),
        width=(Inches, exhibit.width),
        height=(Inches, exhibit.height),
    )


class _Chosen(Section):
    @property
    def kinds(self) -> list[str]:
        """Those that the study has."""
        return [kind for kind in EXPERIMENTS if getattr(self, kind) is not None]


if TYPE_CHECKING:
    # Their fields follow from the declarations, which a type checker does not know.
    Measurements: TypeAlias = Any
    Experiments: TypeAlias = Any
    Chosen: TypeAlias = Any
    Changes: TypeAlias = Any
    Figures: TypeAlias = Any
else:
    Measurements = _section(
        "One entry per measurement.",
        "Measurements",
        Section,
        {name: _may_be_left_out(MEASUREMENTS[name].parameters) for name in (*ALWAYS, *OPTIONAL)},
    )
    """The ``measurements`` section."""
    Experiments = _section(
        "One entry a kind of experiment: named sizes, of which a study takes one at most.",
        "Experiments",
        Section,
        {
            name: (dict[Name, experiment.section], Field(default_factory=dict))
            for name, experiment in EXPERIMENTS.items()
        },
    )
    """The ``experiments`` section."""
    Chosen = _section(
        "Which size of each kind of experiment a study has; one that is left out is not run.",
        "Chosen",
        _Chosen,
        dict.fromkeys(EXPERIMENTS, (Name | None, None)),
    )
    """The ``experiments`` of a study."""
    Changes = _section(
        "What a study changes of the `measurements` section.",
        "Changes",
        Section,
        {
            name: (part := _changes(MEASUREMENTS[name].parameters), Field(default_factory=part))
            for name in (*ALWAYS, *OPTIONAL)
        },
    )
    """The ``parameters`` of a study."""
    Figures = _section(
        "What all figures share, and one entry per figure.",
        "Figures",
        Section,
        {
            "style": _may_be_left_out(Style),
            **{name: _may_be_left_out(_sized(name, exhibit)) for name, exhibit in FIGURES.items()},
        },
    )
    """The ``figures`` section."""


def place_of(kind: str, *names: str) -> str:
    """A file of a kind of results, below the study's folder; without names, what holds them all.

    Examples
    --------
    >>> place_of("norms", "decoder", "reviews"), place_of("norms"), place_of("scaling")
    ('measurements/norms/decoder/reviews.json', 'measurements/norms', 'measurements/scaling.json')
    """
    path = "/".join(("measurements", kind, *names))
    return f"{path}.json" if len(names) == len(KINDS[kind].of) else path


def facts(measured: list[str]) -> dict[str, Mapping[str, object]]:
    """What documents say about the measurements and experiments that a study has.

    Each with what one file of it covers, and the folder or file that holds it.
    """
    entries: dict[str, Mapping[str, object]] = {}
    for name, declared in KINDS.items():
        if name not in measured:
            continue
        entries[name] = {**declared.facts(), "in": name}
        for kind in set(getattr(declared, "also", ())) & set(measured):
            entries[kind] = {**declared.facts(), "in": name}
    return entries
