"""What the catalogue says of a figure or of a table."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from posenc.drawing.section import Figure

PAPER, SUPPLEMENT, SLIDES = "paper", "supplement", "slides"
Drawn = Literal["all", "first data set", "first model"]
DOCUMENTS = (PAPER, SUPPLEMENT, SLIDES)
"""All that there are, by the names of their texts in ``paper/``."""
BOTH = (PAPER, SLIDES)
ASIDE = (SUPPLEMENT, SLIDES)


@dataclass(frozen=True)
class Exhibit:
    """A figure.

    Attributes
    ----------
    question
        As the report groups figures.
    measurements
        Those that are drawn.
    documents
        Those that show it.
    section
        Its parameters in ``params.yaml``.
    height, width
        In inches, where ``params.yaml`` says nothing else; 6.6 are both columns of the paper.
    caption
        What it shows: in the documents, on the page and in Snakemake's report. Plain text, in which
        ``*words*`` are emphasised.
    alt
        What it looks like, for those who do not see it; the table beside it has the numbers.
    quantities
        Patterns of ``MEASUREMENT.QUANTITY`` that this table shows, for figures that share their
        measurements with others.
    positions
        Of models with these positions alone, a table or a rotation; empty for all models.
    decoders
        Of decoders alone.
    drawn
        Whether it shows all that was measured, the first data set of each model, or that of the
        first model alone: its caption counts those documents.
    """

    question: str
    measurements: tuple[str, ...]
    documents: tuple[str, ...] = (SUPPLEMENT,)
    section: type[Figure] = Figure
    _: KW_ONLY
    height: float
    width: float = 6.6
    caption: str
    alt: str
    quantities: tuple[str, ...] = ("*",)
    positions: str = ""
    decoders: bool = False
    drawn: Drawn = "all"

    def kinds(self) -> set[str]:
        """The measurements that its numbers are of, where all patterns name theirs."""
        named = {pattern.partition(".")[0] for pattern in self.quantities}
        return set(self.measurements) if any("*" in name for name in named) else named


@dataclass(frozen=True)
class Table:
    """A table: the measurements that it is made of, and the documents that show it.

    In a table of published values every number of ours leads to its own file.
    """

    measurements: tuple[str, ...]
    documents: tuple[str, ...] = (SUPPLEMENT,)
