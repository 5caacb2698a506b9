"""The notebook of the docs runs as it stands, and prints what is stored in it."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbclient import NotebookClient

from tests.budget import PATIENCE
from tests.copies import ROOT

NOTEBOOK = ROOT / "docs/python.ipynb"
NUMBER = re.compile(r"\d+\.\d+")


def printed(cell) -> list[str]:
    """What a cell says, progress and warnings left out."""
    texts = (one.get("text") or one.get("data", {}).get("text/plain", "") for one in cell.outputs
             if one.get("name") != "stderr")  # fmt: skip
    return [text for text in texts if text]


def pictures(cell) -> int:
    """How many pictures it shows."""
    return sum("image/png" in one.get("data", {}) for one in cell.outputs)


def test_the_notebook_prints_what_is_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "workflow"))
    stored = nbformat.read(NOTEBOOK, as_version=4)
    made = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(
        made,
        timeout=PATIENCE,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    cells = [
        (one, other)
        for one, other in zip(stored.cells, made.cells, strict=True)
        if one.cell_type == "code"
    ]
    assert any(pictures(one) for one, _ in cells) and sum(len(printed(one)) for one, _ in cells) > 1
    for one, other in cells:
        assert pictures(one) == pictures(other)
        for before, after in zip(printed(one), printed(other), strict=True):
            assert NUMBER.sub("#", before) == NUMBER.sub("#", after)
            # In one decimal: another processor may round the other way.
            numbers = [[float(n) for n in NUMBER.findall(text)] for text in (before, after)]
            assert numbers[0] == pytest.approx(numbers[1], abs=0.11)


def test_nothing_of_a_machine_is_stored():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert "stderr" not in text and "Traceback" not in text and "/tmp" not in text
