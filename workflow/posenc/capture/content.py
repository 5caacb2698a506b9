"""Queries and keys of the intact model, beside those that know no position."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc.architectures.attention import recording_before_rotation
from posenc.capture.capture import forward
from posenc.capture.interventions import applied
from posenc.capture.parts import is_decoder, is_rotary
from posenc.conditions.section import Condition


class Heads(NamedTuple):
    """Queries and keys by layer, each [batch, n_heads, longest, d_head].

    Attributes
    ----------
    queries, keys
        Of the intact model, after rotation if there is one: their products are its scores.
    content_queries, content_keys
        Without positions. Of a rotary model, the same ones before rotation; of a model with a
        table, those of the model under another condition, layer by layer.
    """

    queries: dict[int, Tensor]
    keys: dict[int, Tensor]
    content_queries: dict[int, Tensor]
    content_keys: dict[int, Tensor]

    def scores(self, layer: int) -> Tensor:
        """Attention scores of the intact model, [batch, n_heads, longest, longest]."""
        return scores_of(self.queries[layer], self.keys[layer])

    def content(self, layer: int) -> Tensor:
        """Scores without position, [batch, n_heads, longest, longest]."""
        return scores_of(self.content_queries[layer], self.content_keys[layer])


def scores_of(query: Tensor, key: Tensor) -> Tensor:  # [batch, n_heads, n, d_head] each
    """Scaled attention scores before mask and softmax, [batch, n_heads, n, n]."""
    return query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5


@torch.inference_mode()
def with_and_without(model: nn.Module, documents: list[list[int]], position: str = "zero") -> Heads:
    """Run documents with positions, and know what queries and keys would be without.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    documents
        Token ids; padded on the right to the longest.
    position
        What the table becomes in a model that has one; not looked at in a rotary model.
    """
    decoder = is_decoder(model)
    if is_rotary(model):
        with recording_before_rotation(model) as content:
            _, intact = forward(model, documents, decoder)
    else:
        _, intact = forward(model, documents, decoder)
        with applied(model, Condition.model_validate({"position": position})):
            _, content = forward(model, documents, decoder)
    return Heads(intact.queries, intact.keys, content.queries, content.keys)
