"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Count, Draws, Folds, Length, Section, Seed, Width
from posenc.measurements.declaration import MATRICES, MODEL, WEIGHTS, Measurement

SHUFFLES = 20
"""How often rows are shuffled to estimate the level of chance."""


class PositionEmbeddings(Section):
    """What position embeddings are, and what can be read off them (B1, B3, C1, C4)."""

    rows: Annotated[Length, Field(ge=16)] = 512
    """How many positions, from the first one on, are measured."""
    folds: Folds = 5
    """Of the cross-validation, over shuffled positions or pairs."""
    repeats: Annotated[Count, Field(ge=2)] = 10
    """Cross-validations with other seeds; results are their mean and standard deviation."""
    pairs: Annotated[Draws, Field(ge=100)] = 512
    """Random pairs of positions; the regression tells which of the two comes later.
    As many as rows, as Wang and Chen (2020): more pairs make an easier task of it."""
    components: Annotated[Width, Field(ge=2)] = 12
    """How many leading components are compared with waves of position."""
    harmonics: Length = 4
    """Those waves: cosines and sines, the slowest of half a period over the rows."""
    seed: Seed


MEASUREMENT = Measurement(
    "position_embeddings", PositionEmbeddings, of=MODEL, reads=(WEIGHTS, MATRICES),
    catalogue=("B1", "B3", "C1", "C4"), uses=("scipy", "scikit-learn", "python-picard"), schema=3,
    needs=(Need.TABLE,),
)  # fmt: skip
