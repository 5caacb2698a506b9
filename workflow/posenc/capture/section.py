"""The ``activations`` section: what is cached on disk, and how."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from posenc.config.base import Draws, Section


class Activations(Section):
    """How hidden states, queries and keys are captured."""

    quantities: Annotated[
        list[Literal["hidden_states", "queries", "keys"]], Field(min_length=1)
    ] = ["hidden_states", "queries", "keys"]
    """What is kept of each token in each layer."""
    dtype: Literal["float16", "float32"] = "float16"
    """Storage type."""
    precision: Literal["exact", "fast"] = "exact"
    """What the model computes in: ``exact`` is float32, ``fast`` is bfloat16, whose error against
    float32 is measured on the first documents of each run and written into its index."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto`` takes a GPU where there is one."""
    batch_tokens: Draws = 2048
    """Tokens of one forward pass; documents are packed into it, one after the other."""
    shard_tokens: Draws = 32_768
    """Tokens of one shard; shards hold whole documents."""

    def bytes_per_token(self, n_layers: int, d_model: int) -> int:
        """Bytes that a token of a model takes on disk."""
        vectors = {"hidden_states": n_layers + 1, "queries": n_layers, "keys": n_layers}
        width = {"float16": 2, "float32": 4}[self.dtype]
        return width * d_model * sum(vectors[name] for name in self.quantities)
