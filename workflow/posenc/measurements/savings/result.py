"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class Parameters(Part):
    """Parameters of the model; a matrix that is used twice counts once."""

    all: int
    positions: int
    """Of its table of positions; angles of a rotation are no parameters."""
    share: float
    """``positions`` over ``all``."""
    bytes: int
    """What ``positions`` take."""


class Difference(Part):
    """How far vectors of a passage are off, relative to their length at offset 0."""

    mean: Interval
    """Over tokens; where layers are taken together, over these too."""
    largest: float


class Layer(Part):
    """The cache of one layer."""

    layer: int
    keys: Difference
    values: Difference


class Cache(Part):
    """A passage's cache that is used again, beside that of the passage where it comes again."""

    way: str
    """``intact``, ``turned`` or ``zero``."""
    offset: int
    """Position of the passage's first token."""
    kept: float
    """Share of the cache that is the same: float16 rounds all its differences away."""
    keys: Difference
    """Of all layers."""
    values: Difference
    """Of all layers."""
    layers: list[Layer]


class Savings(OfDocuments):
    """What positions take of a model, and what of its caches depends on them."""

    is_causal: bool
    positions: str
    """How positions come into the model: ``table``, ``rotation`` or ``none``."""
    n_layers: int
    bytes_per_entry: int
    """Of a number, as the model is run here."""
    parameters: Parameters
    bytes_per_cached_token: int
    """Keys and values of all layers."""
    rounded: float
    """Relative difference that float16 rounds away."""
    caches: list[Cache]
