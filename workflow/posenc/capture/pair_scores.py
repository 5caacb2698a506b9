"""Products of queries and keys where some pairs are turned differently (rows F5 and F7).

Queries and keys are turned back where scores are computed, and the scores of some pairs are
computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.architectures.position import Rotation, Turned, cosines_sines, rotated_as
from posenc.capture.branches import Documents
from posenc.capture.parts import ConditionError, architecture
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Clipped, Condition, FirstOrder, Unrotated
from posenc.metrics.mask_placebos import hashed_distances

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class PairScores:
    """Products of the queries and keys of one layer, some of them turned otherwise than they are.

    Parameters
    ----------
    turn
        How the layer is turned.
    """

    def __init__(self, turn: Turned) -> None:
        self.turn = turn

    def __call__(
        self,
        query: Tensor,  # [batch, n_heads, tokens, d_head], turned
        key: Tensor,  # [batch, n_heads, tokens, d_head], turned
        documents: Documents,
    ) -> Tensor:
        """Products of queries and keys, [batch, n_heads, tokens, tokens]."""
        raise NotImplementedError

    def turned_back(
        self,
        query: Tensor,  # [batch, n_heads, tokens, d_head]
        key: Tensor,  # [batch, n_heads, tokens, d_head]
        cosine: Tensor,  # [tokens, pairs]
        sine: Tensor,  # [tokens, pairs]
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys at these angles as they were before rotation, of the same shapes."""
        # The transpose of a rotation is its inverse.
        first, second = (rotated_as(x, self.turn, cosine, -sine) for x in (query, key))
        return first, second

    def angles(self, x: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines at some positions, [positions, pairs] each."""
        turn = self.turn
        return cosines_sines(turn.module, turn.layer_type, turn.form, x, places)


class ClippedScores(PairScores):
    """Products with keys beyond a distance turned as if they stood there.

    Parameters
    ----------
    turn
        How the layer is turned.
    section
        The distance.
    causal
        Whether no query sees a later key: those that do clip the distance to either side.
    """

    def __init__(self, turn: Turned, section: Clipped, causal: bool) -> None:
        super().__init__(turn)
        self.section, self.causal = section, causal

    def __call__(self, query: Tensor, key: Tensor, documents: Documents) -> Tensor:
        places = torch.arange(query.shape[2], device=query.device)  # [tokens]
        cosine, sine = self.angles(query, places)  # [tokens, pairs] each
        query_before, key_before = self.turned_back(query, key, cosine, sine)
        # Within the text, whose length some rotations depend on; further than it, no key is.
        edge = min(self.section.distance, len(places) - 1)
        distance = places[:, None] - places  # [tokens, tokens]
        products = query @ key.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        for side in (1,) if self.causal else (1, -1):
            at_edge = rotated_as(query_before, self.turn, cosine[[edge]], side * sine[[edge]])
            other = at_edge @ key_before.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
            products = torch.where(side * distance > self.section.distance, other, products)
        return products


class UnrotatedScores(PairScores):
    """Products with the vectors of some heads, or at the first key alone, before rotation."""

    def __init__(self, turn: Turned, section: Unrotated) -> None:
        super().__init__(turn)
        self.section = section

    def __call__(self, query: Tensor, key: Tensor, documents: Documents) -> Tensor:
        places = torch.arange(query.shape[2], device=query.device)  # [tokens]
        query_before, key_before = self.turned_back(query, key, *self.angles(query, places))
        other = query_before @ key_before.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        is_chosen = self._chosen(places, query.shape[1])
        return torch.where(is_chosen, other, query @ key.transpose(-1, -2))

    def _chosen(self, places: Tensor, n_heads: int) -> Tensor:
        """Pairs that are not turned, bool [n_heads or 1, 1, tokens or 1]."""
        keys = places == 0 if self.section.first_key else torch.ones_like(places[:1]).bool()
        if self.section.heads is None:
            return keys[None, None]
        heads = torch.zeros(n_heads, 1, 1, dtype=torch.bool, device=places.device)
        heads[self.section.heads] = True
        return heads & keys


class FirstOrderScores(PairScores):
    """Products without rotation, and chosen terms of what it adds (F7).

    With a query q̄ + q′ and a key k̄ + k′, rotation adds the sum of the four terms of
    :mod:`posenc.metrics.first_order`, each of which is bilinear in two of these vectors.

    Parameters
    ----------
    turn
        How the layer is turned.
    section
        Which terms.
    means
        Mean query, key and first key, [n_heads, d_head] each.
    """

    def __init__(
        self, turn: Turned, section: FirstOrder, means: Sequence[NDArray[np.float32]]
    ) -> None:
        super().__init__(turn)
        self.section = section
        self.query, self.key, self.first_key = (torch.from_numpy(mean) for mean in means)

    def __call__(self, query: Tensor, key: Tensor, documents: Documents) -> Tensor:
        places = torch.arange(query.shape[2], device=query.device)  # [tokens]
        cosine, sine = self.angles(query, places)  # [tokens, pairs] each
        q, k = self.turned_back(query, key, cosine, sine)  # [batch, n_heads, tokens, d_head] each
        mean_q, mean_k, first_k = (
            x.to(q)[:, None] for x in (self.query, self.key, self.first_key)
        )  # [n_heads, 1, d_head] each
        is_first, terms = (places == 0)[:, None], self.section.terms  # [tokens, 1]
        own_mean = torch.where(is_first, first_k, mean_k)  # [n_heads, tokens, d_head]
        # What the mean query meets, and what the rest of a query meets.
        with_mean, with_rest = (
            (mean in terms) * own_mean + (rest in terms) * (k - own_mean)
            for mean, rest in (("mask", "key"), ("query", "rest"))
        )  # [batch, n_heads, tokens, d_head] each
        pairs = ((mean_q.expand_as(q), with_mean), (q - mean_q, with_rest))
        turned = [[rotated_as(x, self.turn, cosine, sine) for x in pair] for pair in pairs]
        # (R q̄)·(R x) + (R q′)·(R y) + q̄·(k - x) + q′·(k - y), as one product.
        left = torch.cat(
            [*(query_part for query_part, _ in turned), *(query_part for query_part, _ in pairs)],
            dim=-1,
        )
        right = torch.cat(
            [*(key_part for _, key_part in turned), *(k - key_part for _, key_part in pairs)],
            dim=-1,
        )
        scores = left @ right.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        if (seed := self.section.hashed) is None:
            return scores
        content = q @ k.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        by_key = self._at_distances(mean_q, 1, places) @ with_mean.transpose(-1, -2)
        by_key = by_key - mean_q @ with_mean.transpose(-1, -2)  # [batch, n_heads, distances, keys]
        turned_key = self._at_distances(mean_k, -1, places)  # [n_heads, distances, d_head]
        by_query = (q - mean_q) @ (turned_key - mean_k).transpose(-1, -2)
        # [batch, n_heads, queries, distances]
        by_query = by_query if "query" in terms else torch.zeros_like(by_query)
        at = _hashed(documents, len(places), seed).to(q.device)[:, None].expand_as(content)
        hashed = content + by_key.gather(2, at) + by_query.gather(3, at)
        return torch.where(places == 0, scores, hashed)  # the first key stays what it is

    def _at_distances(self, x: Tensor, sign: int, places: Tensor) -> Tensor:
        """A vector of each head [n_heads, 1, d_head] at each distance, [n_heads, n, d_head]."""
        cosine, sine = self.angles(x, places)  # [distances, pairs] each
        return rotated_as(x.expand(-1, len(places), -1), self.turn, cosine, sign * sine)


def _hashed(documents: Documents, tokens: int, seed: int) -> Tensor:
    """Hashed distances of each document's pairs, int64 [batch, tokens, tokens]."""
    distances = torch.zeros(len(documents), tokens, tokens, dtype=torch.int64)
    for row in range(len(documents)):
        ids = documents[row]
        if isinstance(ids, int):
            raise ConditionError("distances are hashes of token ids: the condition needs them")
        hashed = hashed_distances(ids, len(ids), seed)  # [length, length]
        distances[row, : len(ids), : len(ids)] = torch.from_numpy(hashed)
    return distances


def pair_scores(
    model: PreTrainedModel, condition: Condition, masks: Mapping[str, LearnedMask]
) -> dict[int, PairScores]:
    """By layer, what gives the products of queries and keys under a condition on pairs.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    condition
        One whose ``of_pairs`` is true.
    masks
        Learned masks by name.

    Raises
    ------
    ConditionError
        If it is not known how a layer turns queries and keys.
    ArtifactError
        If a mask holds no mean queries and keys.
    """
    section, turns = condition.position, turns_of(model)
    chosen = getattr(section, "layers", None) or range(architecture(model).n_layers)
    by_layer: dict[int, PairScores] = {}
    for layer, turn in turns.items():
        if layer not in chosen:
            continue
        if isinstance(section, FirstOrder):
            by_layer[layer] = FirstOrderScores(turn, section, masks[section.mask].means(layer))
        elif isinstance(section, Clipped):
            by_layer[layer] = ClippedScores(turn, section, architecture(model).causal)
        elif isinstance(section, Unrotated):
            by_layer[layer] = UnrotatedScores(turn, section)
    return by_layer


def turns_of(model: PreTrainedModel) -> dict[int, Turned]:
    """By layer, how queries and keys are turned; layers that are not turned are left out.

    Raises
    ------
    ConditionError
        If that is not known of a layer.
    """
    arch = architecture(model)
    rotation = arch.position
    if not isinstance(rotation, Rotation):
        raise ConditionError(f"{arch.model_type}: its positions are no rotation")
    if rotation.unturned is not None:
        raise ConditionError(f"{arch.model_type}: {rotation.unturned}")
    return {layer: turn for layer, turn in enumerate(rotation.layers) if turn is not None}
