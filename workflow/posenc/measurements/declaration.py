"""What a measurement's module declares about it, from which everything else follows.

Its parameters are a section of ``params.yaml``; what it covers and what it reads determine its
jobs, its rule, its files, and where documents point readers. ``posenc.study.declared`` finds the
declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from posenc.architectures.needs import Need
from posenc.config.base import Section

INTACT, WITHOUT = "intact", "zero"
"""The conditions that what positions are worth is measured between."""
RUN = ("model", "dataset", "condition")
"""One file per run: for few measurements, because the front ends slow down with every file."""
CELL = ("model", "dataset")
"""One file per model and data set; if it is made of activations, it holds the runs of all
conditions."""
MODEL = ("model",)
"""One file per model."""
STUDY = ()
"""One file per study."""

ACTIVATIONS, TOKENS, WEIGHTS = "activations", "tokens", "weights"
MASKS = "masks"
"""The learned masks of the conditions that a model is evaluated under."""
DATASETS = "datasets"
"""Documents before tokenization."""
TOKENIZER = "tokenizer"
"""The model's, for texts that a measurement itself makes of documents."""
MATRICES = "matrices"
"""Tables of positions that belong to no model, measured beside models."""


class MeasurementFacts(TypedDict):
    """What documents say about a measurement, by attributes of :class:`Measurement`."""

    of: list[str]
    subjects: str
    of_matrices: bool
    """Whether it covers matrices, too."""
    by_condition: bool
    """Whether there are results for each condition."""
    catalogue: list[str]


@dataclass(frozen=True)
class Measurement:
    """One measurement.

    Attributes
    ----------
    name
        Name of its module, of its section in ``params.yaml`` and of its files.
    parameters
        Its section of ``params.yaml``.
    of
        What one of its files covers: ``RUN``, ``CELL``, ``MODEL`` or ``STUDY``.
    reads
        What it is computed from: ``ACTIVATIONS``, ``TOKENS``, ``WEIGHTS``, ``MASKS``, ``DATASETS``,
        ``TOKENIZER``, ``MATRICES``, or names of measurements. One that reads anything else has its
        own rule.
    catalogue
        Rows of the catalogue of experiments that it answers.
    uses
        Packages besides NumPy whose versions its results depend on.
    schema
        Version of the layout of its files.
    always
        Whether every study has it.
    also
        Other kinds of results in its files.
    subjects
        Which of the study's models it covers: ``models``, all of them; ``captured``, those whose
        activations are kept; or ``schemes``.
    parameters_of
        The measurement whose section of ``params.yaml`` it shares; None if it has its own.
    needs
        What it needs of a model besides running it: where a model was verified to lack any of
        these, the frame writes that it was not run, and why.
    """

    name: str
    parameters: type[Section]
    of: tuple[str, ...]
    reads: tuple[str, ...]
    catalogue: tuple[str, ...]
    uses: tuple[str, ...] = ()
    schema: int = 1
    always: bool = False
    also: tuple[str, ...] = ()
    subjects: str = "captured"
    parameters_of: str | None = None
    needs: tuple[Need, ...] = ()

    @property
    def learns(self) -> bool:
        """Whether it trains models or masks, which a GPU speeds up."""
        return self.subjects in ("retrained", "refitted")

    @property
    def keeps_runs(self) -> bool:
        """Whether current runs are kept when others are measured again."""
        return {*self.reads} - {WEIGHTS} == {ACTIVATIONS}

    @property
    def bundled(self) -> bool:
        """Whether one file holds the runs of all conditions."""
        return self.keeps_runs and self.of == CELL

    def facts(self) -> MeasurementFacts:
        """What documents say about it."""
        return {
            "of": list(self.of),
            "subjects": self.subjects,
            "of_matrices": MATRICES in self.reads,
            "by_condition": self.of == RUN or self.bundled,
            "catalogue": list(self.catalogue),
        }
