"""What a measurement says of itself: its module holds this, and all else follows from it.

The parameters become a section of ``params.yaml``; what it is of and what it reads become its jobs,
its rule, its files, and where readers are led to. ``posenc.study.declared`` finds the declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from posenc.config.base import Section

RUN = ("model", "dataset", "condition")
"""A file a run: few measurements only, because the front ends' own time grows with the files."""
CELL = ("model", "dataset")
"""A file for a model and a data set; of activations, it holds the runs of all conditions."""
MODEL = ("model",)
"""A file a model: of its weights alone."""
STUDY = ()
"""One file."""

ACTIVATIONS, TOKENS, WEIGHTS = "activations", "tokens", "weights"


@dataclass(frozen=True)
class Measurement:
    """One measurement.

    Attributes
    ----------
    parameters
        Its section of ``params.yaml``.
    of
        What one of its files is of: ``RUN``, ``CELL``, ``MODEL`` or ``STUDY``.
    reads
        What it is made of: ``ACTIVATIONS``, ``TOKENS``, ``WEIGHTS``, or names of measurements. One
        that reads anything else has a rule of its own.
    catalogue
        Rows of the catalogue of experiments that it answers.
    schema
        Version of what its files hold.
    always
        Whether every study has it.
    also
        Other kinds of results that its files hold.
    subjects
        Which models of the study it is of: ``models``, or ``schemes``.
    parameters_of
        The measurement whose section of ``params.yaml`` it shares; None for one of its own.
    """

    parameters: type[Section]
    of: tuple[str, ...]
    reads: tuple[str, ...]
    catalogue: tuple[str, ...]
    schema: int = 1
    always: bool = False
    also: tuple[str, ...] = ()
    subjects: str = "models"
    parameters_of: str | None = None

    @property
    def keeps_runs(self) -> bool:
        """Whether runs that are current are kept when others are measured anew."""
        return self.reads == (ACTIVATIONS,)

    @property
    def bundled(self) -> bool:
        """Whether one file holds the runs of all conditions."""
        return self.keeps_runs and self.of == CELL

    def facts(self) -> dict[str, Any]:
        """What documents say of it."""
        return {"of": list(self.of), "catalogue": list(self.catalogue)}
