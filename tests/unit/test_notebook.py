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
    """What a cell says, without progress and warnings."""
    texts = (
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
        if output.get("name") != "stderr"
    )
    return [text for text in texts if text]


def pictures(cell) -> int:
    """How many pictures it shows."""
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def test_the_notebook_prints_what_is_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "workflow"))
    stored = nbformat.read(NOTEBOOK, as_version=4)
    executed = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(
        executed,
        timeout=PATIENCE,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    cells = [
        (cell, other)
        for cell, other in zip(stored.cells, executed.cells, strict=True)
        if cell.cell_type == "code"
    ]
    assert (
        any(pictures(cell) for cell, _ in cells)
        and sum(len(printed(cell)) for cell, _ in cells) > 1
    )
    for cell, other in cells:
        assert pictures(cell) == pictures(other)
        for before, after in zip(printed(cell), printed(other), strict=True):
            assert NUMBER.sub("#", before) == NUMBER.sub("#", after)
            # In one decimal: another processor may round the other way.
            numbers = [[float(n) for n in NUMBER.findall(text)] for text in (before, after)]
            assert numbers[0] == pytest.approx(numbers[1], abs=0.11)


def test_nothing_of_a_machine_is_stored():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert "stderr" not in text and "Traceback" not in text and "/tmp" not in text
