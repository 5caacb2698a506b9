"""The text that masks are learned from, and how a learned mask is judged on it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from posenc.capture.evaluation import INTACT, cosine_sums, last_states_under, losses_under
from posenc.capture.parts import architecture, is_decoder
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import FittedMask, LearnedMaskSource, MeanVectors
from posenc.conditions.section import FIRST_ORDER, Condition
from posenc.tokens.packing import Pack

if TYPE_CHECKING:
    from transformers import PreTrainedModel

REACH = 4
"""A parametric mask is written out to so many times the length of the calibration text."""


Progress = Callable[[int], Any]
"""Is told how much further the learning of a mask is: tokens, or steps."""


class OfMethod(TypedDict, total=False):
    """What a method says of the mask that it learned."""

    tokens: int
    """Of the calibration text that were read."""
    slope: float
    """The one that was best."""
    kept_step: int
    """After which the loss was lowest."""
    parameters: int
    """Numbers that were fitted."""
    curve: list[dict[str, float]]
    """``loss`` on the choosing documents, by ``slope`` or ``step``."""


class Facts(OfMethod):
    """What is known of a mask that was learned; losses are on the choosing documents."""

    unit: str
    """Of losses."""
    intact: float
    start: float
    """Of the model that the mask is put on."""
    loss: float
    """With the mask."""


@dataclass
class Calibration:
    """What masks are learned from.

    Attributes
    ----------
    model
        Frozen; from :func:`posenc.models.load.load`.
    fitting, choosing
        Token ids of the documents for either.
    batch_tokens
        Tokens of one forward pass.
    """

    model: PreTrainedModel
    fitting: list[list[int]]
    choosing: list[list[int]]
    batch_tokens: int
    known: dict[Hashable, Any] = field(default_factory=dict)
    """What several masks need, computed once."""

    @property
    def is_decoder(self) -> bool:
        """Whether the model is a causal language model."""
        return is_decoder(self.model)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return max(map(len, [*self.fitting, *self.choosing]))

    def losses(
        self, conditions: dict[str, Condition], mask: LearnedMask | None = None, progress=None
    ) -> dict[str, float]:
        """Of the choosing documents: nats per token, or 1 - cosine of the last hidden state.

        Those of conditions without a learned mask are computed once.
        """
        keys = {name: condition.model_dump_json() for name, condition in conditions.items()}
        known = {name: self.known[key] for name, key in keys.items() if key in self.known}
        due = {name: condition for name, condition in conditions.items() if name not in known}
        computed = self._losses(due, mask, progress) if due else {}
        for name, condition in due.items():
            if not condition.masks():
                self.known[keys[name]] = computed[name]
        losses = {**known, **computed}
        return {name: losses[name] for name in conditions}

    def _losses(
        self, conditions: dict[str, Condition], mask: LearnedMask | None, progress
    ) -> dict[str, float]:
        masks, tokens = {"it": mask} if mask else {}, sum(map(len, self.choosing))
        given = (self.model, self.choosing, conditions, masks, self.batch_tokens)
        by_condition: dict[str, list] = {name: [] for name in conditions}
        if self.is_decoder:
            for name, _, nll in losses_under(*given, progress):
                by_condition[name].append(nll)
            return {name: float(np.concatenate(nll).mean()) for name, nll in by_condition.items()}

        # Run before, not from within a pass: that would be under its condition.
        intact = self._intact_states

        def cosines(state: Tensor, pack: Pack) -> list[float]:  # state [tokens, d_model]
            theirs = torch.cat([intact[index] for index in pack.documents])  # [tokens, d_model]
            counted = torch.ones(len(state), dtype=torch.bool, device=state.device)
            return cosine_sums(state, theirs, counted, pack.lengths).tolist()

        for name, _, cosine in last_states_under(*given, cosines, progress):
            by_condition[name].append(cosine)
        return {name: 1 - sum(map(float, sums)) / tokens for name, sums in by_condition.items()}

    @functools.cached_property
    def _intact_states(self) -> dict[int, Tensor]:
        """Last hidden states of each choosing document, [tokens, d_model]."""
        states = last_states_under(
            self.model, self.choosing, {"intact": INTACT}, {}, self.batch_tokens,
            lambda state, pack: state.split(pack.lengths),
        )  # fmt: skip
        return {index: state for _, index, state in states}

    def loss(self, condition: Condition, mask: LearnedMask | None = None) -> float:
        """As :meth:`losses`, of one condition."""
        return self.losses({"it": condition}, mask)["it"]


def start_of(position: str) -> Condition:
    """The position-free model that a mask is put on."""
    return Condition(position=position)


def position_of(source: LearnedMaskSource) -> str | dict:
    """What the positions become beside a mask that is called ``it``."""
    if isinstance(source, FittedMask) and source.learn_position:
        return {"kind": "learned", "mask": "it", "added": source.adds}
    if isinstance(source, MeanVectors):
        return {"kind": "first_order", "mask": "it", "terms": list(FIRST_ORDER)}
    return source.position


def with_mask(position: str | dict, biased: bool = True) -> Condition:
    """The condition under which a mask that is called ``it`` is judged."""
    if biased:
        return masked(position, {"kind": "learned", "mask": "it"})
    return Condition.model_validate({"position": position})


def masked(position: str | dict, profile: dict) -> Condition:
    """A position with a bias added to the scores."""
    return Condition.model_validate(
        {"position": position, "mask": {"semantics": "additive", "profile": profile}}
    )


def shape_of(model: PreTrainedModel) -> tuple[int, int, int]:
    """Layers, heads, and sides that a key can stand on."""
    arch = architecture(model)
    sides = 1 if arch.causal else 2
    return arch.n_layers, arch.n_heads, sides
