"""The pages of findings: each command shown there makes what they say, in the tiny study."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from posenc.figures.catalogue import FIGURES
from tests.copies import whole_params
from tests.unit.synthetic import OF_OTHER_STUDIES
from tests.workflow.conftest import ROOT

ROWS = {
    "docs/removing-positions.md": ["A1", "A2", "A3", "A4", "A5", "A6"],
    "docs/positions.md": ["B1", "B2", "B3", "B4", "B5"],
    "docs/relative-attention.md": ["C1", "C2", "C3", "C4", "C5", "C6"],
    "docs/language-models.md": ["D1", "D2", "D3", "D4", "D5"],
    "docs/attention-mechanisms.md": ["E1", "E2", "E3"],
    "docs/rotary.md": ["F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8"],
}
"""Every row of the catalogue of experiments, by the page that answers it."""
PAGES = tuple(ROWS)


def commands(page: str) -> list[str]:
    """Lines of the page's shell blocks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


@pytest.mark.parametrize("page", PAGES)
def test_every_row_of_the_catalogue_has_its_command_and_finding(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    sections = re.split(r"(?m)^## ", text)[1:]
    named = {
        row: passage for passage in sections for row in ROWS[page] if re.match(rf"{row}\b", passage)
    }
    assert sorted(named) == ROWS[page]
    for row, section in named.items():
        assert "```sh\nsnakemake" in section, row
        for word in ("**Found.**", "**Proof.**"):
            assert word in section, f"{row} lacks {word}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_name_what_is_there(finished, page):
    """Asked in one call: planning takes seconds, however many targets there are."""
    raw = whole_params()
    targets = []
    for command in commands(page):
        *words, separator, target = shlex.split(command)
        assert words == ["snakemake", "--cores", "8"] and separator == "--", command
        study, folder, file = Path(target).parts[2:]
        figures = raw["studies"][study].get("figures", FIGURES)
        assert folder == "figures" and Path(file).stem in figures, command
        # The finished study replaces the one that a page names.
        if Path(file).stem in OF_OTHER_STUDIES:  # no other study has what they take
            continue
        target = f"data/studies/default/figures/{file}"
        assert (finished.folder / target).exists(), command
        targets.append(target)
    planned = finished.run(*words, "--dry-run", "--", *targets).stdout
    assert "Nothing to be done" in planned


def test_recording_a_smaller_default_study_leaves_the_pages_alone(core):
    said = core.run("posenc", "record").stdout
    assert "the pages are left as they are: docs/templates/README.ja.md: no number" in said
    assert core.run("git", "status", "--short", "docs").stdout == ""
