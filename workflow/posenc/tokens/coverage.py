"""How much of its documents a model reads: those that are longer than it takes are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

NEARLY_ALL = 99.9
"""Per cent: no more is said where something was left out."""


class Coverage(NamedTuple):
    """What a model reads of a data set.

    Attributes
    ----------
    documents, cut
        How many it reads, and how many of them are cut.
    read, whole
        Tokens of the texts that it reads, and all of them; without special tokens.
    """

    documents: int
    cut: int
    read: int
    whole: int

    @property
    def share(self) -> float:
        """The share of the tokens that is read; all of nothing."""
        return self.read / self.whole if self.whole else 1.0

    @property
    def percent(self) -> str:
        """The same in per cent, in three digits."""
        return f"{min(100 * self.share, NEARLY_ALL if self.read < self.whole else 100):.3g}"

    def __str__(self) -> str:
        return (
            f"{self.cut:,} of {self.documents:,} documents cut, {self.percent} % of the tokens read"
        )


def coverage_of(table: pa.Table) -> Coverage:
    """What was read of documents.

    Parameters
    ----------
    table
        Of :func:`posenc.tokens.tokenize.tokenize`.
    """
    specials = table["special"].to_pylist()
    read = sum(len(special) - sum(special) for special in specials)
    left_out = sum(table["left_out"].to_pylist())
    return Coverage(len(specials), sum(table["truncated"].to_pylist()), read, read + left_out)
