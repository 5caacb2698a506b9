"""What a measurement may need of a model, and the error of a model that cannot be read."""

from __future__ import annotations

from enum import StrEnum


class Need(StrEnum):
    """A property of a model that is verified, not believed."""

    LOSS = "losses"
    """An output embedding, and a causal mask."""
    PATTERNS = "patterns"
    """Attention through the registered function: its pattern is the library's own."""
    PRODUCTS = "products"
    """Scores are scaled products of queries and keys and nothing else, so that parts add up."""
    TABLE = "table"
    """A table of positions that is added to the input embeddings."""
    ROTATION = "rotation"
    """Rotary modules."""
    TURNS = "turns"
    """Of a rotation, how each layer turns which pairs of features, so that it can be undone."""
    REMOVABLE = "removable"
    """With the table or the rotation taken away, no position is left but the causal mask."""
    MAPS = "maps"
    """Weights of queries, keys, values and outputs of each head, as the attention uses them."""
    NORM_PATH = "norm_path"
    """The normalisations between the residual stream and those maps, in closed form."""
    PACKED = "packed"
    """Documents in one row, each attending to itself alone, equal to each alone."""
    BLOCKS = "blocks"
    """Blocks in order, each given the residual stream first."""


class NotKnown(RuntimeError):
    """A part of a model is not known, or not proved: what needs it is not run."""


class ArchitectureError(RuntimeError):
    """A model is not one that positions can be studied in."""

    is_user_error = True
