"""Running means of queries and keys, and the mask in closed form that they give.

The formulas are those of :mod:`posenc.metrics.closed_form`. Documents are added one after the
other, so that the mask of few documents is at hand beside that of many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from posenc.metrics.closed_form import Means, absolute_bias, by_distance, rotary_curves
from posenc.metrics.rotary import Floats, Layout

CONTENT = ("content_queries", "content_keys")
"""Without positions."""
INTACT = ("queries", "keys")


class Curves(NamedTuple):
    """What position adds to the scores of heads, in nats.

    Attributes
    ----------
    relative
        float64 [n_layers, n_heads, sides, n]: past, and of an encoder future, by distance.
    first
        float64 [n_layers, n_heads, n]: of the first key, by the query's position.
    """

    relative: Floats
    first: Floats


class Turn(NamedTuple):
    """How a layer turns the features of queries and keys.

    Attributes
    ----------
    frequencies
        float64 [r]: radians per token; none where the layer turns nothing.
    layout
        Which features are a pair.
    begin
        The first feature that is turned.
    """

    frequencies: Floats
    layout: Layout = "halves"
    begin: int = 0


class PositionMeans:
    """Sums of vectors over documents, by position.

    Parameters
    ----------
    places
        How many positions are told apart; the last one stands for all that follow. Rotation needs
        two: the first token, and the others.
    """

    def __init__(self, places: int) -> None:
        self._counts = np.zeros(places)
        self._sums: dict[str, Floats] = {}  # [n_layers, n_heads, places, d_head] each

    def add(self, vectors: Mapping[str, ArrayLike]) -> None:
        """Add a document: by name, [n_layers, n_heads, tokens, d_head]."""
        places = len(self._counts)
        for name, given in vectors.items():
            x = np.asarray(given, np.float64)  # [n_layers, n_heads, tokens, d_head]
            *shape, tokens, width = x.shape
            total = self._sums.setdefault(name, np.zeros((*shape, places, width)))
            total[..., : min(tokens, places - 1), :] += x[..., : places - 1, :]
            total[..., -1, :] += x[..., places - 1 :, :].sum(axis=-2)
        place = np.minimum(np.arange(tokens), places - 1)  # [tokens]
        self._counts += np.bincount(place, minlength=places)

    def means(self) -> Means:
        """Of vectors before rotation, [n_layers, n_heads, d_head] each."""
        query, key = (self._content(name) for name in CONTENT)  # [n_layers, n_heads, 2, d_head]
        return Means(query[..., 1, :], key[..., 1, :], key[..., 0, :])

    def rotary(self, turns: Sequence[Turn], n: int, *, causal: bool) -> Curves:
        """The mask of a rotary model, of vectors before rotation.

        Parameters
        ----------
        turns
            How each layer is turned.
        n
            Number of distances.
        causal
            Whether there is one side, the past, or the future too.
        """
        means = self.means()
        layers = [
            rotary_curves(
                Means(*(np.roll(x[layer], -turn.begin, axis=-1) for x in vars(means).values())),
                turn.frequencies, n, causal=causal, layout=turn.layout,
            )
            for layer, turn in enumerate(turns)
        ]  # fmt: skip
        return Curves(*(np.stack(curves) for curves in zip(*layers, strict=True)))

    def absolute(self, pairs: ArrayLike, *, causal: bool, row_term: bool = True) -> Curves:
        """The mask of a model with a table, by distance.

        Positions that no document reaches have the means of the last one that is reached.

        Parameters
        ----------
        pairs
            [n, n]: query, key. How often each pair counts in the mean at its distance.
        causal
            Whether there is one side, the past, or the future too.
        row_term
            As in :func:`posenc.metrics.closed_form.absolute_bias`.
        """
        pairs = np.asarray(pairs, np.float64)  # [n, n]
        last = np.count_nonzero(self._counts) - 1
        place = np.minimum(np.arange(len(pairs)), last)  # [n]
        content = [self._content(name)[..., np.minimum(place, 1), :] for name in CONTENT]
        u, v = (
            ((self._sums[intact] - self._sums[name])[..., place, :] / self._counts[place, None])
            for intact, name in zip(INTACT, CONTENT, strict=True)
        )  # [n_layers, n_heads, n, d_head] each
        layers = [
            by_distance(absolute_bias(*of_layer, row_term=row_term) * pairs, pairs, causal=causal)
            for of_layer in zip(u, v, *content, strict=True)
        ]
        return Curves(*(np.stack(curves) for curves in zip(*layers, strict=True)))

    def _content(self, name: str) -> Floats:
        """Means over first tokens and over all others, float64 [n_layers, n_heads, 2, d_head]."""
        sums, counts = self._sums[name], self._counts
        groups = [sums[..., :1, :], sums[..., 1:, :].sum(axis=-2, keepdims=True)]
        return np.concatenate(groups, axis=-2) / np.array([[counts[0]], [counts[1:].sum()]])
