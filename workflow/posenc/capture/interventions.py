"""Conditions applied to the library's own model, in memory, for the duration of a block.

Position embeddings are exchanged, hooks touch the embeddings, and masks go to
:mod:`posenc.capture.masked_attention`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.capture.branches import Branch, branch_of
from posenc.capture.masked_attention import Batch, attending, embedding_factors
from posenc.capture.parts import (
    ConditionError,
    first_row,
    is_decoder,
    is_rotary,
    position_embedding,
    positions_of,
)
from posenc.capture.rotation import turned
from posenc.conditions import positions
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition, LearnedPosition, Scale
from posenc.models import schemes


def embeddings_of(
    original: Tensor,  # [rows, d_model]
    first: int,
    condition: Condition,
    masks: Mapping[str, LearnedMask],
    tokens: int,
) -> Tensor:
    """The position embeddings under a condition, at least for so many tokens."""
    table = original[first:].float().cpu().numpy()  # [positions, d_model]
    if isinstance(condition.position, LearnedPosition):
        made = masks[condition.position.mask].vectors(len(table))  # [positions, d_model]
        made = table + made if condition.position.added else made
    else:
        made = positions.position.call(condition.position, table)
    made = positions.extended(made, tokens, condition.beyond)  # [positions, d_model]
    whole = torch.from_numpy(np.ascontiguousarray(made)).to(original)  # [positions, d_model]
    return torch.cat([original[:first], whole]) if first else whole


def _check(model: nn.Module, condition: Condition, masks: Mapping[str, LearnedMask]) -> None:
    config = model.config
    problem = condition.problem(
        config.num_hidden_layers, config.num_attention_heads, positions_of(model)
    )
    missing = [name for name in condition.masks() if name not in masks]
    if missing:
        problem = f"the learned mask {missing[0]!r} is not there"
    if problem:
        raise ConditionError(problem)


def common_part(condition: Condition) -> Condition:
    """What conditions must have in common to share a forward pass: all but the mask."""
    return condition.model_copy(update={"mask": None, "only": None})


@contextlib.contextmanager
def embedded(
    model: nn.Module,
    condition: Condition,
    masks: Mapping[str, LearnedMask] | None = None,
    tokens: int = 0,
) -> Iterator[None]:
    """Exchange position embeddings or angles, and touch the sum of the embeddings, in a block."""
    _check(model, condition, masks or {})
    with contextlib.ExitStack() as stack:
        if is_rotary(model):
            stack.enter_context(turned(model, condition, tokens))
            module = model.get_input_embeddings()
        else:
            stack.enter_context(_with_table(model, condition, masks or {}, tokens))
            module = model.transformer.drop if is_decoder(model) else model.embeddings.LayerNorm
        if condition.embeddings != "intact":
            # A Llama's embeddings are not summed with anything: what they give is touched.
            if is_rotary(model):
                hook = module.register_forward_hook(
                    lambda module, inputs, output: _resized(output, condition.embeddings)
                )
            else:
                hook = module.register_forward_pre_hook(
                    lambda module, inputs: (_resized(inputs[0], condition.embeddings),)
                )
            stack.callback(hook.remove)
        yield


@contextlib.contextmanager
def _with_table(
    model: nn.Module, condition: Condition, masks: Mapping[str, LearnedMask], tokens: int
) -> Iterator[None]:
    embedding = position_embedding(model)
    original = embedding.weight.data  # [rows, d_model]
    try:
        if condition.position != "intact" or tokens > len(original):
            embedding.weight.data = embeddings_of(
                original, first_row(embedding), condition, masks, tokens
            )
        yield
    finally:
        embedding.weight.data = original


def _resized(x: Tensor, change: str | Scale) -> Tensor:  # [batch, tokens, d_model]
    if isinstance(change, Scale):
        return x * change.by
    return functional.normalize(x, dim=-1)


@contextlib.contextmanager
def applied(
    model: nn.Module,
    condition: Condition,
    masks: Mapping[str, LearnedMask] | None = None,
    tokens: int = 0,
) -> Iterator[nn.Module]:
    """Put a model under a condition for the duration of a block, then restore it exactly.

    Only tensors in memory are exchanged: the weights on disk are never touched. Documents are cut
    into segments by :mod:`posenc.capture.evaluation`, not here.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    condition
        What is done to it.
    masks
        Learned masks by name, for a condition that needs one.
    tokens
        Length of the longest document, where it may exceed the positions that the model has.

    Raises
    ------
    ConditionError
        If the condition does not fit the model.
    """
    scheme = getattr(model.config, schemes.KEY, "learned")
    if scheme in schemes.IN_ATTENTION:
        raise ConditionError(f"conditions edit position embeddings; the model has {scheme} instead")
    with embedded(model, condition, masks, tokens):
        if condition.mask is None:
            # Scores of some pairs are computed where masks are put on.
            route = attending(model, Batch([branch_of(model, None)]))
            with route if condition.of_pairs else contextlib.nullcontext():
                yield model
            return
        branch = branch_of(model, condition.mask, masks)
        with attending(model, Batch([branch])), _multiplied(model, branch):
            yield model


@contextlib.contextmanager
def _multiplied(model: nn.Module, branch: Branch) -> Iterator[None]:
    """Multiply the input of the first block, where the branch says so."""
    if branch.mask.semantics != "emb_mul":
        yield
        return

    # A BERT's hidden state 0 is the output of its embeddings, a GPT-2's the input of its block 0; a
    # Llama's is both.
    if is_rotary(model):
        module = model.get_input_embeddings()
    else:
        module = model.transformer.drop if is_decoder(model) else model.embeddings
    hook = module.register_forward_hook(
        lambda module, inputs, output: output * embedding_factors(branch, output)
    )
    try:
        yield
    finally:
        hook.remove()
