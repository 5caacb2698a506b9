"""Queries and keys of the intact model, beside those that know no position."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from posenc.architectures.attention import (
    Recording,
    gives_content,
    recording_before_rotation,
)
from posenc.architectures.needs import Need
from posenc.architectures.position import cosines_sines, rotated_as, scale_of
from posenc.capture.capture import forward
from posenc.capture.interventions import applied
from posenc.capture.pair_scores import turns_of
from posenc.capture.parts import ConditionError, architecture, is_rotary
from posenc.conditions.section import Condition

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Heads(NamedTuple):
    """Queries and keys by layer, each [batch, n_heads, longest, d_head].

    Attributes
    ----------
    queries, keys
        Of the intact model, after rotation if there is one: their products are its scores.
    content_queries, content_keys
        Without positions. Of a rotary model, the same ones before rotation; of a model with a
        table, those of the model under another condition, layer by layer.
    scaling
        What products are multiplied by, by layer.
    """

    queries: dict[int, Tensor]
    keys: dict[int, Tensor]
    content_queries: dict[int, Tensor]
    content_keys: dict[int, Tensor]
    scaling: dict[int, float]

    def scores(self, layer: int) -> Tensor:
        """Attention scores of the intact model, [batch, n_heads, longest, longest]."""
        return scores_of(self.queries[layer], self.keys[layer], self.scaling[layer])

    def content(self, layer: int) -> Tensor:
        """Scores without position, [batch, n_heads, longest, longest]."""
        query, key = self.content_queries[layer], self.content_keys[layer]
        return scores_of(query, key, self.scaling[layer])


def scores_of(
    query: Tensor,  # [batch, n_heads, n, d_head]
    key: Tensor,  # [batch, n_heads, n, d_head]
    scaling: float,
) -> Tensor:
    """Scaled attention scores before mask and softmax, [batch, n_heads, n, n]."""
    return query @ key.transpose(-1, -2) * scaling


@torch.inference_mode()
def with_and_without(
    model: PreTrainedModel, documents: list[list[int]], position: str = "zero"
) -> Heads:
    """Run documents with positions, and tell what queries and keys would be without them.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    documents
        Token ids; padded on the right to the longest.
    position
        What the table becomes in a model that has one; not looked at in a rotary model.
    """
    if is_rotary(model) and _gives_content(model):
        with recording_before_rotation(model) as content:
            _, intact = forward(model, documents)
        _louder(model, content)
    elif is_rotary(model):
        _, intact = forward(model, documents)
        content = turned_back(model, intact)
    else:
        _, intact = forward(model, documents)
        with applied(model, Condition.model_validate({"position": position})):
            _, content = forward(model, documents)
    if not all(options.is_plain for options in intact.options.values()):
        raise ConditionError(
            f"{architecture(model).model_type}: its scores are capped, or have sinks or biases: "
            f"they have no parts that add up"
        )
    scaling = {layer: options.scaling for layer, options in intact.options.items()}
    return Heads(intact.queries, intact.keys, content.queries, content.keys, scaling)


def _louder(model: PreTrainedModel, content: Recording) -> None:
    """Multiply queries and keys by the factor that the library applies as it turns them.

    A model keeps it without rotation. YaRN's is not 1: Peng et al. (2023),
    https://arxiv.org/abs/2309.00071, section 3.4.
    """
    for layer, turn in turns_of(model).items():
        if (scale := scale_of(turn.module, turn.layer_type)) == 1:
            continue
        for vectors in (content.queries, content.keys):
            vectors[layer] = scale * vectors[layer]  # [batch, n_heads, tokens, d_head]


def _gives_content(model: PreTrainedModel) -> bool:
    """Whether maps of queries and keys give what is turned, and nothing comes between."""
    arch = architecture(model)
    has_maps = all(gives_content(layer.module) for layer in arch.layers)
    return has_maps and arch.can.get(Need.MAPS, "not verified") is None


def turned_back(model: PreTrainedModel, intact: Recording) -> Recording:
    """Queries and keys as they were before rotation, from those that were turned.

    Raises
    ------
    ConditionError
        If it is not known how a layer turns them.
    """
    content, turns = Recording(), turns_of(model)
    content.options = intact.options
    for layer, query in intact.queries.items():
        key = intact.keys[layer]  # [batch, n_heads, tokens, d_head], as the query
        if (turn := turns.get(layer)) is not None:
            places = torch.arange(query.shape[2], device=query.device)  # [tokens]
            cosine, sine = cosines_sines(
                turn.module, turn.layer_type, turn.form, query, places
            )  # [tokens, pairs] each
            query, key = (rotated_as(x, turn, cosine, -sine) for x in (query, key))
        content.queries[layer], content.keys[layer] = query, key
    return content
