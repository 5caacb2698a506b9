"""One block of a model given another input, and what it returns (row C5).

Everything below the block is as it was: :func:`posenc.capture.capture.last_from` runs the blocks
from this one on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from posenc.capture.capture import last_from
from posenc.capture.parts import blocks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Documents = list[list[int]]


class _Returned(Exception):
    """A block has returned, and nothing that follows is wanted."""


@torch.inference_mode()
def block_output(model: PreTrainedModel, documents: Documents, layer: int, state: Tensor) -> Tensor:
    """What a block returns for an input; the blocks after it are not run.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    documents
        Token ids.
    layer
        Number of the block.
    state
        [tokens, d_model], documents in one row.

    Returns
    -------
    [tokens, d_model].
    """
    outputs = []

    def stop(module: nn.Module, inputs: tuple, output: Tensor) -> None:  # [1, tokens, d_model]
        outputs.append(output[0])
        raise _Returned

    hook = blocks(model)[layer].register_forward_hook(stop)
    try:
        last_from(model, documents, layer, state)
    except _Returned:
        pass
    finally:
        hook.remove()
    return outputs[0]


@torch.inference_mode()
def last_given(
    model: PreTrainedModel,
    documents: Documents,
    layer: int,
    state: Tensor,
    added: Tensor | None = None,
) -> Tensor:
    """What :func:`posenc.capture.capture.packed_last` gives when a block is given another input.

    Parameters
    ----------
    model, documents, layer, state
        As of :func:`block_output`.
    added
        [tokens, d_model]: what is added to what the block returns; None for nothing.

    Returns
    -------
    [tokens, d_model].
    """
    if added is None:
        return last_from(model, documents, layer, state)
    hook = blocks(model)[layer].register_forward_hook(lambda _, inputs, output: output + added)
    try:
        return last_from(model, documents, layer, state)
    finally:
        hook.remove()
