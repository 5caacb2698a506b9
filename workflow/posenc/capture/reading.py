"""Attention in which each query reads a few keys, and the others are hidden from it.

They are hidden where scores are computed, as for conditions that turn some pairs alone
(:mod:`posenc.capture.rotation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from posenc.capture.branches import Documents
from posenc.capture.capture import packed_last
from posenc.capture.masked_attention import scored
from posenc.capture.parts import architecture

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Choice = Literal["strongest", "nearest", "first_nearest", "random"]
"""Which keys of those that a query sees are left to it: of the highest scores, of the least
distance (of two at one distance, the earlier), the document's first and then the nearest, or
any."""
CHOICES: tuple[Choice, ...] = get_args(Choice)


class Reading(NamedTuple):
    """How many keys each query of each head reads, which, and the seed of those at random.

    A layer's draws have the seed plus the layer's number.
    """

    choice: Choice
    keys: int
    seed: int = 0


@torch.inference_mode()
def states_reading(model: PreTrainedModel, ids: list[int], reading: Reading) -> Tensor:
    """Run the intact model on one document, each query reading no more than some keys.

    Scores of the keys that are left go through the softmax as they are: their weights keep their
    ratios and sum to 1 again, as in the sampled attention of Xu et al. (2015), equation 4, with
    more than one place.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    ids
        Token ids of the document.
    reading
        Which keys are read.

    Returns
    -------
    Hidden states after the last layer and its norm, [tokens, d_model].
    """
    layers, causal = range(architecture(model).n_layers), architecture(model).causal
    with scored({layer: _FewKeys(reading, layer, causal) for layer in layers}):
        return packed_last(model, [ids])[0]


@dataclass(frozen=True)
class _FewKeys:
    """Products of the queries and keys of a layer, minus infinity for those that are not read."""

    reading: Reading
    layer: int
    causal: bool

    def __call__(
        self,
        query: Tensor,  # [batch, n_heads, tokens, d_head]
        key: Tensor,  # [batch, n_heads, tokens, d_head]
        documents: Documents,
    ) -> Tensor:  # [batch, n_heads, tokens, tokens]
        products = query @ key.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        if self.causal:
            products = products + torch.full_like(products[0, 0], -torch.inf).triu_(1)
        return products.masked_fill(~read(products, self.reading, self.layer), -torch.inf)


def read(scores: Tensor, reading: Reading, layer: int = 0) -> Tensor:
    """Which keys each query reads.

    Parameters
    ----------
    scores
        [..., tokens, tokens], with minus infinity where a query does not see a key.
    reading
        How many keys, and which.
    layer
        So that each layer draws keys of its own.

    Returns
    -------
    Booleans of the same shape: all that it sees of a query that sees no more than ``reading.keys``.
    """
    tokens = scores.shape[-1]
    if reading.choice == "strongest":
        order = scores
    elif reading.choice in ("nearest", "first_nearest"):
        place = torch.arange(tokens, device=scores.device)  # [tokens]
        order = -(place[:, None] - place - 0.25).abs()  # [tokens, tokens]
        if reading.choice == "first_nearest":
            order[:, 0] = torch.inf
        order = order.expand_as(scores)
    else:
        generator = torch.Generator().manual_seed(reading.seed + layer)
        order = torch.rand(scores.shape, generator=generator).to(scores.device)
    sees = scores > -torch.inf  # [..., tokens, tokens]
    order = order.masked_fill(~sees, -torch.inf)
    chosen = order.topk(min(reading.keys, tokens), dim=-1).indices  # [..., tokens, keys]
    return torch.zeros_like(sees).scatter_(-1, chosen, True) & sees
