"""Conditions: named interventions, applied to the library's own model in memory.

Adding one takes a function of the position-embedding matrix under :func:`position`, and its
name in ``posenc.config.conditions``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from .config.conditions import Condition

POSITIONS: dict[str, Callable[[Tensor], Tensor]] = {}


def position(name: str) -> Callable:
    """Register a function from position embeddings to position embeddings."""

    def register(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        POSITIONS[name] = function
        return function

    return register


@position("intact")
def intact(embeddings: Tensor) -> Tensor:  # [n_positions, d_model]
    """Leave the position embeddings as they are."""
    return embeddings


@position("zero")
def zero(embeddings: Tensor) -> Tensor:  # [n_positions, d_model]
    """Every position embedding becomes the zero vector (row A1)."""
    return torch.zeros_like(embeddings)


def position_embedding(model: nn.Module) -> nn.Embedding:
    """The module that holds a model's learned position embeddings, [n_positions, d_model].

    Raises
    ------
    ValueError
        If the model has none.
    """
    for name, module in model.named_modules():
        if name.rsplit(".", 1)[-1] in ("position_embeddings", "wpe"):
            return module
    raise ValueError(f"{type(model).__name__} has no learned position embeddings")


@contextlib.contextmanager
def applied(model: nn.Module, condition: Condition) -> Iterator[nn.Module]:
    """Put a model under a condition for the duration of a block, then restore it exactly.

    Only the tensor in memory is exchanged: the weights on disk are never touched.
    """
    embedding = position_embedding(model)
    original = embedding.weight.data  # [n_positions, d_model]
    embedding.weight.data = POSITIONS[condition.position](original)
    try:
        yield model
    finally:
        embedding.weight.data = original
