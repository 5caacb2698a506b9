"""What figures of evaluated conditions share: the decoders that were measured, rows, shares."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.artifacts.runs import Run, of_kind
from posenc.conditions.groups import GROUPS, grouped
from posenc.conditions.positions import TABLE
from posenc.drawing.section import Style
from posenc.measurements.conditions.result import EvaluatedConditions, Evaluation

NO_HEAD = "no language-model head"


def decoders(
    measurements: Sequence[dict], positions: str = TABLE
) -> tuple[list[Run[EvaluatedConditions]], list[str]]:
    """Measured conditions of decoders, in order, and why other models are not among them.

    Conditions of a table of positions and those of a rotation are shown apart.
    """
    measured, reasons = [], []
    for run in of_kind(measurements, "conditions", EvaluatedConditions):
        if run.measured is None:
            reasons.append(run.reason)
        elif not run.measured.is_decoder:
            reasons.append(f"{run.model} has {NO_HEAD}")
        elif (kind := run.measured.positions) == positions:
            measured.append(run)
        elif kind == "none":
            reasons.append(f"{run.model} has no positions")
        else:
            reasons.append(f"positions of {run.model} are a {kind}")
    return measured, reasons


def entries(run: Run[EvaluatedConditions]) -> dict[str, Evaluation]:
    """What was measured of each condition, by its name."""
    return {entry.condition: entry for entry in run.result.conditions}


def rows(runs: Sequence[Run[EvaluatedConditions]], *groups: str) -> list[tuple[str, bool]]:
    """Headings and conditions of all models, group after group; whether a row is a heading."""
    specs = {entry.condition: entry.spec for run in runs for entry in run.result.conditions}
    row_names = []
    for group, names in grouped(specs, *groups).items():
        row_names += [(GROUPS[group], True), *((name, False) for name in names)]
    return row_names


def group_colours(style: Style) -> dict[str, str]:
    """A colour for each group of conditions, by its heading."""
    names = GROUPS.values()
    return {name: style.palette[index % len(style.palette)] for index, name in enumerate(names)}


def has_shares(run: Run[EvaluatedConditions]) -> bool:
    """Whether anything is lost without positions, so that conditions can recover a share."""
    return any(entry.recovered is not None for entry in run.result.conditions)
