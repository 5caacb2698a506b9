"""Conditions applied to the library's own model, in memory, for the duration of a block.

Position embeddings are exchanged, hooks touch the embeddings, and masks go to
:mod:`posenc.capture.masked_attention`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.architectures.architecture import Handle
from posenc.architectures.needs import Need
from posenc.architectures.position import TABLE
from posenc.capture.branches import Branch, branch_of
from posenc.capture.masked_attention import Batch, attending, embedding_factors
from posenc.capture.parts import ConditionError, architecture, is_rotary, positions_of, table
from posenc.capture.rotation import turned
from posenc.conditions import positions
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition, LearnedPosition, Scale
from posenc.models import schemes

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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
        vectors = masks[condition.position.mask].vectors(len(table))  # [positions, d_model]
        vectors = table + vectors if condition.position.added else vectors
    else:
        vectors = positions.position.call(condition.position, table)
    vectors = positions.extended(vectors, tokens, condition.beyond)  # [positions, d_model]
    whole = torch.from_numpy(np.ascontiguousarray(vectors)).to(original)  # [positions, d_model]
    head = original[:first]  # [first, d_model], of tokens that have no position
    if condition.position == "zero":
        head = torch.zeros_like(head)
    return torch.cat([head, whole]) if first else whole


def check_condition(
    model: PreTrainedModel, condition: Condition, masks: Mapping[str, LearnedMask]
) -> None:
    """Refuse a condition that a model cannot be under.

    Raises
    ------
    ConditionError
        If it is on layers or heads that the model lacks, on other positions, or a mask is missing.
    """
    arch = architecture(model)
    problem = condition.problem(arch.n_layers, arch.n_heads, positions_of(model))
    if problem is None and condition.position != "intact" and arch.can.get(Need.REMOVABLE):
        problem = f"position {_word(condition)!r}: {arch.can[Need.REMOVABLE]}"
    missing = [name for name in condition.masks() if name not in masks]
    if missing:
        problem = f"the learned mask {missing[0]!r} is not there"
    if problem:
        raise ConditionError(problem)


def check_conditions(
    model: PreTrainedModel,
    conditions: Mapping[str, Condition],
    masks: Mapping[str, LearnedMask] | None = None,
) -> None:
    """Refuse conditions that a model cannot be under, before anything is computed.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    conditions
        By name.
    masks
        Learned masks by name.

    Raises
    ------
    ConditionError
        With the name of the condition.
    """
    for name, condition in conditions.items():
        try:
            check_condition(model, condition, masks or {})
        except ConditionError as error:
            raise ConditionError(f"conditions.{name}: {error}") from None


def _word(condition: Condition) -> str:
    return condition.position if isinstance(condition.position, str) else condition.position.kind


def common_part(condition: Condition) -> Condition:
    """What conditions must have in common to share a forward pass: all but the mask."""
    return condition.model_copy(update={"mask": None, "only": None})


@contextlib.contextmanager
def embedded(
    model: PreTrainedModel,
    condition: Condition,
    masks: Mapping[str, LearnedMask] | None = None,
    tokens: int = 0,
) -> Iterator[None]:
    """Exchange position embeddings or angles, and touch the sum of the embeddings, in a block."""
    check_condition(model, condition, masks or {})
    with contextlib.ExitStack() as stack:
        if is_rotary(model):
            stack.enter_context(turned(model, condition, tokens, masks))
        elif positions_of(model) == TABLE:
            stack.enter_context(_with_table(model, condition, masks or {}, tokens))
        if condition.embeddings != "intact":
            handle = _handle(model, "embeddings")
            change = functools.partial(_resized, change=condition.embeddings)
            stack.enter_context(handle.changed(change))
        yield


def _handle(model: PreTrainedModel, name: str) -> Handle:
    """Where a tensor passes that a condition changes.

    Raises
    ------
    ConditionError
        If that is not known.
    """
    arch = architecture(model)
    handle = getattr(arch, name)
    if handle is None:
        raise ConditionError(f"where the embeddings of {arch.model_type} are summed is not known")
    return handle


@contextlib.contextmanager
def _with_table(
    model: PreTrainedModel, condition: Condition, masks: Mapping[str, LearnedMask], tokens: int
) -> Iterator[None]:
    own = table(model)
    embedding = own.module
    original = embedding.weight.data  # [rows, d_model]
    try:
        if condition.position != "intact" or tokens > len(original):
            embedding.weight.data = embeddings_of(original, own.first, condition, masks, tokens)
        yield
    finally:
        embedding.weight.data = original


def _resized(x: Tensor, change: str | Scale) -> Tensor:  # [batch, tokens, d_model]
    if isinstance(change, Scale):
        return x * change.by
    return functional.normalize(x, dim=-1)


@contextlib.contextmanager
def applied(
    model: PreTrainedModel,
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
def _multiplied(model: PreTrainedModel, branch: Branch) -> Iterator[None]:
    """Multiply the input of the first block, where the branch says so."""
    if branch.mask is None or branch.mask.semantics != "emb_mul":
        yield
        return
    handle = _handle(model, "stream")
    with handle.changed(lambda x: x * embedding_factors(branch, x)):
        yield
