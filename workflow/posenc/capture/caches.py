"""What a cache keeps of a passage that is run alone, at any offset: its keys and values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from posenc.architectures.attention import recording
from posenc.capture.capture import packed_last
from posenc.capture.parts import ConditionError, architecture, body

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Cache(NamedTuple):
    """Keys and values of a passage, by layer.

    Attributes
    ----------
    keys
        float32 [n_heads, tokens, d_head] each, as queries meet them: a rotary model's are turned.
        Those of grouped heads are there once for each query head.
    values
        float32 [tokens, key_value_heads * d_head] each.
    """

    keys: Sequence[NDArray[np.floating]]
    values: list[NDArray[np.float32]]


def positions_at_hand(model: PreTrainedModel) -> int:
    """How many positions a model can tell apart: rows of its table, or what it is made for."""
    arch = architecture(model)
    if arch.positions is None:
        raise ConditionError(f"{arch.model_type} sets no limit to positions")
    return arch.positions


@torch.inference_mode()
def cache_of(model: PreTrainedModel, ids: list[int], offset: int = 0) -> Cache:
    """Run a passage that attends to itself alone, and keep its keys and values.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, under a condition or not.
    ids
        Token ids of the passage.
    offset
        Position of its first token; there are :func:`positions_at_hand`.
    """
    with _at(model, offset), recording(values=True) as recorded:
        packed_last(model, [ids])
    assert recorded.values is not None
    return Cache(
        [recorded.keys[layer][0].numpy() for layer in sorted(recorded.keys)],
        # [1, key_value_heads, tokens, d_value] to [tokens, key_value_heads * d_value]
        [x[0].transpose(0, 1).flatten(1).numpy() for _, x in sorted(recorded.values.items())],
    )


@contextlib.contextmanager
def _at(model: PreTrainedModel, offset: int) -> Iterator[None]:
    """Let positions begin at an offset, during a block."""

    def later(_: nn.Module, arguments: tuple, options: dict) -> tuple[tuple, dict]:
        return arguments, {**options, "position_ids": options["position_ids"] + offset}

    hook = body(model).register_forward_pre_hook(later, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
