"""Defaults are declared beside the code, and ``params.yaml`` holds what differs from them."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticUndefined

from posenc.config.base import Section
from posenc.figures.catalogue import FIGURES
from posenc.study.declared import ALWAYS, MEASUREMENTS, OPTIONAL, Figures, Measurements
from posenc.study.layers import Layers
from posenc.study.params import Params, ParamsError, load, validate
from posenc.study.schema import field_docstrings

from .test_params import changed, raw  # noqa: F401

ROOT = Path(__file__).parents[2]
NAMED = {"mixed_images": {"network", "images"}}
"""What no measurement can know by itself: files."""


def sections_of(kind: type[Section], seen: set[type]) -> Iterator[type[Section]]:
    """A section and all that it holds, each once."""
    if kind in seen:
        return
    seen.add(kind)
    yield kind
    annotations = [field.annotation for field in kind.model_fields.values()]
    while annotations:
        part = annotations.pop()
        annotations += typing.get_args(part)
        if isinstance(part, type) and issubclass(part, Section):
            yield from sections_of(part, seen)


SECTIONS = [
    section
    for section in sections_of(Params, set())
    # Left out: functions, whose docstrings describe parameters, and a study's changes.
    if section.__module__ != "posenc.config.registry" and not section.__name__.endswith("Changes")
]


@pytest.mark.parametrize("name", [*ALWAYS, *OPTIONAL])
def test_a_measurement_needs_only_what_it_cannot_know(name):
    fields = MEASUREMENTS[name].parameters.model_fields
    required = {key for key, field in fields.items() if field.is_required()}
    assert required == NAMED.get(name, set())
    assert Measurements.model_fields[name].is_required() == bool(required)


def test_figures_and_what_is_kept_need_nothing():
    figures = Figures()
    for name, entry in FIGURES.items():
        section = getattr(figures, name)
        assert isinstance(section, entry.section)
        assert (section.width, section.height) == (entry.width, entry.height)
    assert Figures.model_validate({"spectra": {"height": 3.0}}).spectra.width == 6.6
    assert not Params.model_fields["activations"].is_required()


def dumped(raw: dict) -> dict:  # noqa: F811
    """All effective values; what a study leaves as it is has none of its own."""
    return validate(raw).model_dump(warnings=False)


def values_of(section: Section, at: str = "") -> Iterator[tuple[str, object, object]]:
    """The keys that are written, with their values and their defaults."""
    for key in section.model_fields_set:
        value, field = getattr(section, key), type(section).model_fields[key]
        yield f"{at}{key}", value, field.get_default(call_default_factory=True)
        held = value.items() if isinstance(value, dict) else [("", value)]
        for name, part in held:
            if isinstance(part, Section):
                yield from values_of(part, f"{at}{key}.{name}." if name else f"{at}{key}.")


def test_the_shipped_file_repeats_no_default():
    params, layers = load(ROOT / "params.yaml"), Layers(ROOT / "params.yaml")
    # What is like another entry may have to take a default back.
    alike = {
        ".".join(key)
        for key, parts in layers.parts.items()
        if any("like" in part.value for part in parts)
    }
    repeated = [
        key
        for kind in ("datasets", "models", "matrices", "masks", "measurements", "experiments",
                     "figures", "activations", "studies")
        for held in [getattr(params, kind)]
        for name, section in (held.items() if isinstance(held, dict) else [("", held)])
        for key, value, default in values_of(section, f"{kind}.{name}.")
        if default is not PydanticUndefined and value == default
        # A grid states all its values.
        and (kind != "models" or ("models", name) in layers.parts)
        and not any(key.replace("..", ".").startswith(f"{entry}.") for entry in alike)
        and ".parameters." not in key  # there null means all documents, not a default
    ]  # fmt: skip
    assert repeated == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("measurements.similarity.seed", 7),
        ("measurements.spectra.confidence", 0.9),
        ("measurements.conditions.documents", None),
        ("measurements.probes.bootstrap_samples", 500),
        ("figures.spectra.height", 3.0),
        ("activations.dtype", "float32"),
        ("masks.closed.first", False),
        ("models.decoder.source.seed", 4),
    ],
)
def test_a_value_that_differs_is_kept_and_the_others_stay(raw, key, value):  # noqa: F811
    before, after = (dumped(params) for params in (raw, changed(raw, key, value)))
    *path, last = key.split(".")
    node, old = after, before
    for part in path:
        node, old = node[part], old[part]
    assert node[last] == value != old[last]
    node[last] = old[last]
    assert before == after


def test_a_study_may_take_a_default_back(raw):  # noqa: F811
    raw = changed(raw, "measurements.norms.folds", 7)
    raw = changed(raw, "studies.default.parameters.norms.folds", 5)
    params = validate(raw)
    assert params.measurements.norms.folds == 7 and params.parameters.norms.folds == 5


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_a_default_is_within_its_bounds_and_has_a_sentence(section):
    said = field_docstrings(section)
    for key, field in section.model_fields.items():
        if field.is_required() or section in (Measurements, Figures):
            continue
        default = field.get_default(call_default_factory=True)
        assert key in said or field.description or section.__name__ in ("Chosen", "Experiments"), (
            section,
            key,
        )
        for value in (10**12, [10**12]):
            if isinstance(default, bool) or not isinstance(default, int | float | list):
                continue
            if isinstance(default, list) != isinstance(value, list):
                continue
            with pytest.raises(ValidationError) as caught:
                section.model_validate({key: value})
            assert any(error["loc"][0] == key for error in caught.value.errors()), (section, key)


def test_a_study_names_what_a_measurement_cannot_know(raw):  # noqa: F811
    del raw["measurements"]["mixed_images"]
    with pytest.raises(ParamsError, match=r"mixed_images: is missing; it is required"):
        validate(raw)
