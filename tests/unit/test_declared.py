"""A declaration is found by its folder's name, and mistakes in names are refused."""

from __future__ import annotations

import dataclasses
import importlib
import sys

import pytest

from posenc.measurements.declaration import Measurement
from posenc.measurements.norms.declaration import MEASUREMENT as NORMS
from posenc.study import declared


def package(folder, monkeypatch, modules):
    """A package with a folder per text, which is its declaration."""
    (folder / "planted").mkdir()
    (folder / "planted/__init__.py").touch()
    for name, text in modules.items():
        (folder / "planted" / name).mkdir()
        (folder / "planted" / name / "__init__.py").touch()
        (folder / "planted" / name / "declaration.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.split(".")[0] == "planted"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("planted")


DECLARATION = """
import dataclasses
from posenc.measurements.norms.declaration import MEASUREMENT as NORMS
MEASUREMENT = dataclasses.replace(NORMS, name="{name}")
"""


def test_a_measurement_is_found_by_the_name_of_its_folder(tmp_path, monkeypatch):
    modules = {"here": DECLARATION.format(name="here"), "shared": "MEASUREMENT = None"}
    planted = package(tmp_path, monkeypatch, modules)
    measurements = declared._declarations(planted, Measurement, "MEASUREMENT", "declaration")
    assert measurements == {"here": dataclasses.replace(NORMS, name="here")}


def test_a_measurement_that_is_not_called_as_its_folder_is_refused(tmp_path, monkeypatch):
    planted = package(tmp_path, monkeypatch, {"here": DECLARATION.format(name="norms")})
    with pytest.raises(ValueError, match=r"planted\.here.*'norms': call it 'here'"):
        declared._declarations(planted, Measurement, "MEASUREMENT", "declaration")


def test_a_measurement_and_an_experiment_of_one_name_are_refused():
    experiment = declared.EXPERIMENTS["tokenizers"]
    with pytest.raises(ValueError, match="both called 'tokenizers'"):
        declared._kinds({**declared.MEASUREMENTS, "tokenizers": NORMS}, {"tokenizers": experiment})
