"""The evaluations of a model as its measurement reads them, and estimates as fields of a result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.files import ArtifactError
from posenc.artifacts.losses import Losses
from posenc.artifacts.results import Interval
from posenc.artifacts.tables import read_table
from posenc.measurements.conditions.result import Adaptation
from posenc.measurements.declaration import INTACT, WITHOUT
from posenc.metrics.bootstrap import Estimate

if TYPE_CHECKING:
    import pyarrow as pa

Fields = dict[str, Interval | Adaptation | None]
"""Parts of results that a decoder alone has, by field."""


class Evaluations:
    """The evaluations of a model on one data set.

    Attributes
    ----------
    metadata
        What the file says of itself.
    units
        Table of each unit, documents in the same order.
    documents
        Their names.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow.compute as pc

        table, self.metadata = read_table(path)
        self.path = path
        self._losses: dict[str, Losses] = {}
        self.units: dict[str, pa.Table] = {
            unit: table.filter(pc.equal(table["unit"], unit)).sort_by("document_id")
            for unit in self.metadata["units"]
        }

    @property
    def documents(self) -> list[str]:
        return next(iter(self.units.values()))["document_id"].to_pylist()

    def nll(self, units: list[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sums of losses, [documents, units], and scored tokens, [documents].

        Raises
        ------
        ArtifactError
            If the units did not score the same tokens.
        """
        first = self.losses(units[0]).tokens  # [documents]
        for unit in units:
            if not np.array_equal(self.losses(unit).tokens, first):
                raise ArtifactError(
                    f"{self.path}: {unit} and {units[0]} scored different tokens; "
                    f"delete the file and rerun"
                )
        return np.stack([self.losses(unit).nll for unit in units], axis=1), first

    def losses(self, unit: str) -> Losses:
        """Losses of a unit."""
        if unit not in self._losses:
            self._losses[unit] = Losses(self.units[unit])
        return self._losses[unit]

    def cosines(self, unit: str) -> NDArray[np.float64]:
        """Sums of cosines, [documents, n_layers + 1]."""
        return np.array(self.units[unit]["cosine"].to_pylist())


def intervals(estimates: Mapping[str, Estimate | None]) -> Fields:
    """Estimates by field."""
    return {
        name: None if estimate is None else Interval.of(estimate)
        for name, estimate in estimates.items()
    }


def places(units: list[str], base: dict[str, str | None]) -> list[int | None]:
    """Columns of the conditions that others are compared with; None for one that is missing."""
    wanted = [base[name] or "" for name in (INTACT, WITHOUT)]
    return [units.index(unit) if unit in units else None for unit in wanted]
