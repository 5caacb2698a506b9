"""Masks in closed form: from mean queries and keys of calibration text, without a gradient (F3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from posenc.architectures.position import Turned, frequencies
from posenc.artifacts.files import ArtifactError
from posenc.capture.calibration import REACH, Calibration, OfMethod, Progress
from posenc.capture.content import Heads, with_and_without
from posenc.capture.pair_scores import turns_of
from posenc.capture.parts import ConditionError, architecture, is_decoder, is_rotary
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import ClosedFormMask, MeanVectors
from posenc.metrics import mask_placebos, score_parts
from posenc.metrics.closed_form import Means, visible_pairs
from posenc.metrics.patterns import softmax
from posenc.metrics.position_means import CONTENT, INTACT, Curves, PositionMeans, Turn
from posenc.metrics.rotary import Layout

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Floats = NDArray[np.float64]


def drawn(source: ClosedFormMask | MeanVectors, data: Calibration) -> list[list[int]]:
    """The documents that the means are taken over, cut.

    Raises
    ------
    ArtifactError
        If there are fewer than are asked for.
    """
    count, cut = source.documents, slice(source.tokens)
    if count is None:
        return [ids[cut] for ids in data.fitting]
    if count > len(data.fitting):
        raise ArtifactError(
            f"documents is {count}, but masks are fitted on {len(data.fitting)}: raise the data "
            f"set's calibration.documents, or lower it"
        )
    order = np.random.default_rng(source.seed).permutation(len(data.fitting))
    return [data.fitting[index][cut] for index in order[:count]]


def closed_form(
    source: ClosedFormMask, data: Calibration, progress: Progress = lambda done: None
) -> tuple[LearnedMask, OfMethod]:
    """The mask that mean queries and keys give, :mod:`posenc.metrics.closed_form`.

    ``progress`` is called with the number of tokens seen.
    """
    documents = drawn(source, data)
    lengths = list(map(len, documents))
    key = means_of(source.position, source.documents, source.tokens, source.seed)
    if key in data.known:
        progress(sum(lengths))
    else:
        means = _head_means(source, data, documents, progress)
        data.known[key] = calibrated(means, data, lengths)
    relative, first = (placebo(source, np.nan_to_num(curve)) for curve in data.known[key])
    learned: dict[str, np.ndarray] = {"relative": relative.astype(np.float32)}
    if source.first:
        learned["first"] = (first - relative[:, :, 0]).astype(np.float32)
    mask = LearnedMask(**learned)
    facts: OfMethod = {"tokens": sum(lengths)}
    if not source.temperature:
        return mask, facts
    temperature = temperatures(data, documents, mask, source.position, progress)
    return LearnedMask(**learned, temperature=temperature), facts


def mean_vectors(
    source: MeanVectors, data: Calibration, progress: Progress = lambda done: None
) -> tuple[LearnedMask, OfMethod]:
    """Mean queries and keys of each head of a rotary model, before rotation.

    ``progress`` is called with the number of tokens seen.

    Raises
    ------
    ConditionError
        If the model is not a rotary one.
    """
    if not is_rotary(data.model):
        raise ConditionError(
            f"masks of method means are of queries and keys before rotation, and "
            f"{architecture(data.model).model_type} has none"
        )
    documents = drawn(source, data)
    tokens = sum(map(len, documents))
    key = ("mean vectors", source.documents, source.tokens, source.seed if source.documents else 0)
    if key in data.known:
        progress(tokens)
    else:
        data.known[key] = _head_means(source, data, documents, progress).means()
    means: Means = data.known[key]
    first = means.first_key if source.first else means.key
    queries, keys, first_keys = (
        placebo(source, vectors).astype(np.float32) for vectors in (means.query, means.key, first)
    )  # [n_layers, n_heads, d_head] each
    return LearnedMask(queries=queries, keys=keys, first_keys=first_keys), {"tokens": tokens}


def _head_means(
    source: ClosedFormMask | MeanVectors,
    data: Calibration,
    documents: list[list[int]],
    progress: Progress,
) -> HeadMeans:
    """Means over documents, shortest first: sums in the order that distilling has as well."""
    means = HeadMeans(data.model, max(map(len, documents)))
    for ids in sorted(documents, key=len):
        means.add(with_and_without(data.model, [ids], source.position))
        progress(len(ids))
    return means


def means_of(
    position: str, documents: int | None = None, tokens: int | None = None, seed: int = 0
) -> tuple:
    """The key in ``Calibration.known`` of a mask's curves; all documents are drawn in one way."""
    return ("means", position, documents, tokens, seed if documents else None)


def calibrated(means: HeadMeans, data: Calibration, lengths: list[int]) -> Curves:
    """The mask that the means of calibration documents of these lengths give.

    With its row term, a mean by distance has a part that softmax does not see in any row.
    """
    return means.curves(
        visible_pairs(lengths, causal=data.is_decoder), n=REACH * data.longest, row_term=False
    )


class HeadMeans:
    """Mean queries and keys of a model, document after document, and the mask that they give.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    longest
        Tokens of the longest document.
    """

    def __init__(self, model: PreTrainedModel, longest: int) -> None:
        self.model, self.is_rotary = model, is_rotary(model)
        self._means = PositionMeans(2 if self.is_rotary else longest)

    def add(self, heads: Heads) -> None:
        """Add a document, the only one of its batch."""
        names = CONTENT if self.is_rotary else (*CONTENT, *INTACT)
        self._means.add({name: _stacked(getattr(heads, name)) for name in names})
        width = heads.content_queries[0].shape[-1]
        scaling = np.array([heads.scaling[layer] for layer in sorted(heads.scaling)])  # [n_layers]
        # The formulas divide by √d_head, which is not what every model multiplies by.
        self._factor = scaling * math.sqrt(width)

    def curves(self, pairs: Floats, *, n: int | None = None, row_term: bool = True) -> Curves:
        """The mask of the documents so far, by distance.

        Parameters
        ----------
        pairs
            [n, n]: how often each pair of positions counts in the mean at its distance. Rotation
            depends on the distance alone.
        n
            Number of distances of a rotary model, if it is another one.
        row_term
            Of a table: as in :func:`posenc.metrics.closed_form.absolute_bias`.
        """
        causal = is_decoder(self.model)
        if self.is_rotary:
            turns, n_layers = turns_of(self.model), architecture(self.model).n_layers
            turn = [turn_of(turns.get(layer)) for layer in range(n_layers)]
            curves = self._means.rotary(turn, n or len(pairs), causal=causal)
        else:
            curves = self._means.absolute(pairs, causal=causal, row_term=row_term)
        factor = self._factor[:, None, None]  # [n_layers, 1, 1]
        return Curves(factor[..., None] * curves.relative, factor * curves.first)

    def means(self) -> Means:
        """Of a rotary model, float64 [n_layers, n_heads, d_head] each, before rotation."""
        return self._means.means()


def turn_of(turned: Turned | None) -> Turn:
    """How a layer is turned, for the formulas."""
    if turned is None:
        return Turn(np.empty(0))
    layout: Layout = "interleaved" if turned.interleaved else "halves"
    return Turn(frequencies(turned.module, turned.layer_type), layout, turned.features[0])


def _stacked(layers: dict[int, Tensor]) -> NDArray[np.float32]:
    """Vectors of the only document of a batch, [n_layers, n_heads, tokens, d_head]."""
    return np.stack([layers[layer][0].cpu().numpy() for layer in range(len(layers))])


PLACEBOS: dict[str, Callable[[Floats, int], Floats]] = {
    "over_heads": mask_placebos.shuffled_over_heads,
    "within_layers": mask_placebos.shuffled_within_layers,
    "neighbours": lambda vectors, seed: mask_placebos.neighbours(vectors),
    "one_per_layer": lambda vectors, seed: mask_placebos.one_per_layer(vectors),
}


def placebo(source: ClosedFormMask | MeanVectors, of_heads: Floats) -> Floats:
    """What heads have, or what the source puts in its place; alike for all that a head has.

    Parameters
    ----------
    of_heads
        [n_layers, n_heads, ...]: curves or vectors.
    """
    return PLACEBOS[source.placebo](of_heads, source.seed) if source.placebo else of_heads


def temperatures(
    data: Calibration,
    documents: list[list[int]],
    mask: LearnedMask,
    position: str,
    progress: Progress = lambda done: None,
) -> NDArray[np.float32]:
    """Temperature of each head that brings content and mask nearest to the intact scores.

    Pairs count as the intact model attends to them.

    Returns
    -------
    float32 [n_layers, n_heads]; at least 0.1, and 1 where least squares would turn content round.
    """
    totals: dict[int, Floats] = {}
    for ids in documents:
        heads = with_and_without(data.model, [ids], position)
        for layer in heads.queries:
            bias = mask.bias(layer, len(ids))  # [n_heads, tokens, tokens]
            scores, content = (
                f(layer)[0].double().cpu().numpy() for f in (heads.scores, heads.content)
            )  # [n_heads, tokens, tokens] each
            moments = _moments(scores, content, bias, data.is_decoder)
            totals[layer] = totals.get(layer, 0) + moments
        progress(len(ids))
    temperature = np.stack([score_parts.temperature(totals[layer]) for layer in sorted(totals)])
    return np.where(temperature > 0, np.maximum(temperature, 0.1), 1.0).astype(np.float32)


def _moments(scores: Floats, content: Floats, bias: NDArray, causal: bool) -> Floats:
    """Of a document, [n_heads, tokens, tokens] each, weighted by its attention."""
    pattern = softmax(scores.copy(), causal=causal)  # takes the scores over
    parts = score_parts.split(scores, content, bias)  # [3, n_heads, tokens, tokens]
    return score_parts.moments(parts, pattern, within_query=True)
