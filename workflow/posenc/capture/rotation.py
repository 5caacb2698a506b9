"""Rotary models under conditions on their rotation (rows F1, F5 and F7), in memory.

What changes all pairs of a query and a key alike changes the angles that the library's module
gives. What changes some pairs alone is done where scores are computed
(:mod:`posenc.capture.pair_scores`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from posenc.architectures.position import Rotation
from posenc.architectures.position import frequencies as rates
from posenc.capture.masked_attention import scored
from posenc.capture.pair_scores import pair_scores
from posenc.capture.parts import ConditionError, architecture
from posenc.conditions import positions
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def frequencies(model: PreTrainedModel) -> np.ndarray:
    """Radians per token of each pair of features, float64 [d_head / 2]."""
    return rates(*_only(model))


def _only(model: PreTrainedModel) -> tuple[nn.Module, str | None]:
    """The rotary module of a model, and what it is asked for.

    Raises
    ------
    ConditionError
        If layers are turned in several ways.
    """
    arch = architecture(model)
    rotation = arch.position
    if not isinstance(rotation, Rotation) or len(rotation.forms) != 1:
        raise ConditionError(f"the layers of {arch.model_type} are not all turned in one way")
    number, kind = next(iter(rotation.forms))
    return rotation.modules[number], kind


@contextlib.contextmanager
def turned(
    model: PreTrainedModel,
    condition: Condition,
    tokens: int = 0,
    masks: Mapping[str, LearnedMask] | None = None,
) -> Iterator[None]:
    """Let a rotary model turn queries and keys as a condition says, during a block.

    Parameters
    ----------
    tokens
        Length of the longest document, where it may exceed the positions that the model has.
    masks
        Learned masks by name, for a condition that needs one.
    """
    if condition.position == "intact":
        yield
        return
    if condition.of_pairs:
        with scored(pair_scores(model, condition, masks or {})):
            yield
        return
    rotation = architecture(model).position
    assert isinstance(rotation, Rotation)
    if condition.position == "zero" and rotation.problem is not None:
        with rotation.removed():
            yield
        return
    if rotation.problem is not None:
        raise ConditionError(f"{architecture(model).model_type}: {rotation.problem}")
    change = functools.partial(positions.changed_angles, condition.position)
    with rotation.turned(change, tokens):
        yield
