"""A declaration is found by its module's name, and mistakes in names are refused."""

from __future__ import annotations

import dataclasses
import importlib
import sys

import pytest

from posenc.measurements.declaration import Measurement
from posenc.measurements.norms.declaration import MEASUREMENT as NORMS
from posenc.study import declared


def package(folder, monkeypatch, modules):
    """A package with a text per module."""
    (folder / "planted").mkdir()
    for name, text in {"__init__": "", **modules}.items():
        (folder / "planted" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.split(".")[0] == "planted"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("planted")


DECLARATION = """
import dataclasses
from posenc.measurements.norms import MEASUREMENT as NORMS
MEASUREMENT = dataclasses.replace(NORMS, name="{name}")
"""


def test_a_measurement_is_found_by_the_name_of_its_module(tmp_path, monkeypatch):
    modules = {"here": DECLARATION.format(name="here"), "shared": "MEASUREMENT = None"}
    found = declared._declarations(
        package(tmp_path, monkeypatch, modules), Measurement, "MEASUREMENT"
    )
    assert found == {"here": dataclasses.replace(NORMS, name="here")}


def test_a_measurement_that_is_not_called_as_its_module_is_refused(tmp_path, monkeypatch):
    planted = package(tmp_path, monkeypatch, {"here": DECLARATION.format(name="norms")})
    with pytest.raises(ValueError, match=r"planted\.here .*'norms': call it 'here'"):
        declared._declarations(planted, Measurement, "MEASUREMENT")


def test_a_measurement_and_an_experiment_of_one_name_are_refused():
    experiment = declared.EXPERIMENTS["tokenizers"]
    with pytest.raises(ValueError, match="both called 'tokenizers'"):
        declared._kinds({**declared.MEASUREMENTS, "tokenizers": NORMS}, {"tokenizers": experiment})
