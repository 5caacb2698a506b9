"""Masks in closed form: from mean queries and keys of calibration text, without a gradient (F3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from posenc.artifacts.files import ArtifactError
from posenc.capture.calibration import REACH, Calibration, Progress
from posenc.capture.content import with_and_without
from posenc.capture.parts import is_rotary, rotary
from posenc.capture.rotation import frequencies
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import ClosedFormMask
from posenc.metrics import mask_placebos, score_parts
from posenc.metrics.patterns import softmax
from posenc.metrics.position_means import CONTENT, INTACT, Curves, PositionMeans

Floats = NDArray[np.float64]


def drawn(source: ClosedFormMask, data: Calibration) -> list[list[int]]:
    """The documents that the means are of.

    Raises
    ------
    ArtifactError
        If there are fewer than are asked for.
    """
    count = source.documents
    if count is None:
        return data.fitting
    if count > len(data.fitting):
        raise ArtifactError(
            f"documents is {count}, but masks are fitted on {len(data.fitting)}: raise the data "
            f"set's calibration.documents, or lower it"
        )
    order = np.random.default_rng(source.seed).permutation(len(data.fitting))
    return [data.fitting[index] for index in order[:count]]


def closed_form(
    source: ClosedFormMask, data: Calibration, progress: Progress = lambda done: None
) -> tuple[LearnedMask, dict[str, Any]]:
    """The mask that mean queries and keys give, :mod:`posenc.metrics.closed_form`.

    ``progress`` is called with the number of tokens seen.
    """
    documents = drawn(source, data)
    key = (source.position, source.documents, source.seed if source.documents else None)
    if key not in data.known:
        data.known[key] = _curves(data, documents, source.position, progress)
    relative, first = (placebo(source, curve) for curve in data.known[key])
    learned = {"relative": relative.astype(np.float32)}
    if source.first:
        learned["first"] = (first - relative[:, :, 0]).astype(np.float32)
    mask = LearnedMask(**learned)
    facts = {"tokens": sum(map(len, documents))}
    if not source.temperature:
        return mask, facts
    found = temperatures(data, documents, mask, source.position, progress)
    return LearnedMask(**learned, temperature=found), facts


def _curves(
    data: Calibration, documents: list[list[int]], position: str, progress: Progress
) -> Curves:
    """By distance; of a rotary model far beyond the calibration text's length."""
    rotates, longest = is_rotary(data.model), max(map(len, documents))
    means = PositionMeans(2 if rotates else longest)
    for ids in documents:
        heads = with_and_without(data.model, [ids], position)
        names = CONTENT if rotates else (*CONTENT, *INTACT)
        means.add({name: _stacked(getattr(heads, name)) for name in names})
        progress(len(ids))
    if rotates:
        module = rotary(data.model)
        return means.rotary(
            frequencies(data.model), REACH * data.longest, causal=data.is_decoder,
            scale=module.attention_scaling,
        )  # fmt: skip
    place = np.arange(longest)
    reached = np.greater.outer(list(map(len, documents)), place).sum(axis=0)  # [longest]
    pairs = reached[np.maximum.outer(place, place)]  # [longest, longest]
    pairs = np.tril(pairs) if data.is_decoder else pairs
    # A mean by distance would take what softmax does not see in a row for a part of the mask.
    curves = means.absolute(pairs, causal=data.is_decoder, row_term=False)
    return Curves(*map(np.nan_to_num, curves))


def _stacked(layers: dict[int, Tensor]) -> NDArray[np.float32]:
    """Vectors of the only document of a batch, [n_layers, n_heads, tokens, d_head]."""
    return np.stack([layers[layer][0].cpu().numpy() for layer in range(len(layers))])


def placebo(source: ClosedFormMask, curves: Floats) -> Floats:
    """The curves, or what the source puts in their place; alike for all curves of a head."""
    if source.placebo == "over_heads":
        return mask_placebos.shuffled_over_heads(curves, source.seed)
    if source.placebo == "within_layers":
        return mask_placebos.shuffled_within_layers(curves, source.seed)
    return mask_placebos.one_per_layer(curves) if source.placebo else curves


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
    found = np.stack([score_parts.temperature(totals[layer]) for layer in sorted(totals)])
    return np.where(found > 0, np.maximum(found, 0.1), 1.0).astype(np.float32)


def _moments(scores: Floats, content: Floats, bias: NDArray, causal: bool) -> Floats:
    """Of a document, [n_heads, tokens, tokens] each, weighted by its attention."""
    pattern = softmax(scores.copy(), causal=causal)  # takes the scores over
    parts = np.stack([content, bias, scores - content - bias])  # [3, n_heads, tokens, tokens]
    return score_parts.moments(parts, pattern, within_query=True)
