"""Masks in closed form: from mean queries and keys of calibration text, without a gradient (F3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from posenc.artifacts.files import ArtifactError
from posenc.capture.calibration import REACH, Calibration, Progress
from posenc.capture.capture import batches_of
from posenc.capture.content import Heads, with_and_without
from posenc.capture.parts import is_decoder, is_rotary, rotary
from posenc.capture.rotation import frequencies
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import ClosedFormMask
from posenc.metrics import mask_placebos, score_parts
from posenc.metrics.closed_form import absolute_bias, by_distance, rotary_curve

Floats = NDArray[np.float64]


class Sums:
    """Sums over tokens of the vectors of all heads, by position.

    Attributes
    ----------
    vectors
        float64 [n_layers, n_heads, positions, d_head], by name: ``queries``, ``keys``,
        ``content_queries`` and ``content_keys``.
    tokens
        int64 [positions]: how many there are.
    """

    def __init__(self, positions: int) -> None:
        self.vectors: dict[str, Floats] = {}
        self.tokens = np.zeros(positions, np.int64)

    def add(self, heads: Heads, lengths: list[int]) -> None:
        """Add a batch of documents that is padded on the right."""
        self.tokens += np.sum(np.arange(len(self.tokens)) < np.array(lengths)[:, None], axis=0)
        for name, by_layer in heads._asdict().items():
            for layer, x in by_layer.items():  # [batch, n_heads, longest, d_head]
                if name not in self.vectors:
                    size = (len(by_layer), x.shape[1], len(self.tokens), x.shape[3])
                    self.vectors[name] = np.zeros(size)
                for row, length in enumerate(lengths):
                    values = x[row, :, :length].double().cpu().numpy()
                    self.vectors[name][layer, :, :length] += values

    def over(self, name: str, positions: slice) -> Floats:
        """Mean over the tokens at some positions, [n_layers, n_heads, d_head]."""
        return self.vectors[name][:, :, positions].sum(axis=2) / self.tokens[positions].sum()

    def by_position(self, name: str) -> Floats:
        """Mean at each position, [n_layers, n_heads, positions, d_head]; 0 where no token is."""
        return self.vectors[name] / np.maximum(self.tokens, 1)[:, None]


def batches(data: Calibration, documents: list[list[int]], progress: Progress) -> Iterator[list]:
    """Documents of a calibration text in batches of like lengths."""
    lengths = np.array([len(ids) for ids in documents])
    for batch in batches_of(lengths, range(len(lengths)), data.batch_tokens):
        yield [documents[index] for index in batch]
        progress(int(lengths[batch].sum()))


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
) -> tuple[Floats, Floats]:
    sums = Sums(max(map(len, documents)))
    for batch in batches(data, documents, progress):
        sums.add(with_and_without(data.model, batch, position), [len(ids) for ids in batch])
    return (rotary_curves if is_rotary(data.model) else table_curves)(sums, data)


def rotary_curves(sums: Sums, data: Calibration) -> tuple[Floats, Floats]:
    """By distance, and of the first key, far beyond the calibration text's length.

    Returns
    -------
    relative
        float64 [n_layers, n_heads, 1, distances].
    first
        float64 [n_layers, n_heads, distances].
    """
    later = slice(1, None)  # the first token's query sees nothing but itself
    query = sums.over("content_queries", later)  # [n_layers, n_heads, d_head]
    keys = (sums.over("content_keys", positions) for positions in (later, slice(1)))
    angles = frequencies(data.model)  # [d_head / 2]
    scale = rotary(data.model).attention_scaling ** 2
    distances = np.arange(REACH * data.longest)
    relative, first = (scale * rotary_curve(query, key, angles, distances) for key in keys)
    return relative[:, :, None], first


def table_curves(sums: Sums, data: Calibration) -> tuple[Floats, Floats]:
    """The same of a model with position embeddings, up to the longest document seen."""
    causal, n = is_decoder(data.model), len(sums.tokens)
    # Tokens at either position: pairs of positions count as often as documents have both.
    weights = np.minimum(sums.tokens[:, None], sums.tokens).astype(float)  # [n, n]
    weights = np.tril(weights) if causal else weights
    found = []
    parts = [sums.by_position(name) for name in ("queries", "keys")]
    contents = [_content(sums, name) for name in ("content_queries", "content_keys")]
    for layer in range(len(parts[0])):
        by_place = [sums.by_position(f"content_{name}")[layer] for name in ("queries", "keys")]
        u, v = (part[layer] - place for part, place in zip(parts, by_place, strict=True))
        bias = absolute_bias(u, v, *(content[layer] for content in contents), row_term=False)
        found.append(by_distance(bias * weights, weights, causal=causal))
    relative, first = (np.nan_to_num(np.stack(curves)) for curves in zip(*found, strict=True))
    # Where no query has the first key at that distance alone, it is like the others.
    return relative, first[..., :n]


def _content(sums: Sums, name: str) -> Floats:
    """Means over the tokens, but for the first token's own, [n_layers, n_heads, positions, d_head].

    Its state is unlike the others', with or without positions.
    """
    later = sums.over(name, slice(1, None))[:, :, None]  # [n_layers, n_heads, 1, d_head]
    content = np.repeat(later, len(sums.tokens), axis=2)
    content[:, :, 0] = sums.over(name, slice(1))
    return content


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
    for batch in batches(data, documents, progress):
        heads = with_and_without(data.model, batch, position)
        for layer in heads.queries:
            whole, content = heads.scores(layer), heads.content(layer)
            for row, ids in enumerate(batch):
                totals[layer] = totals.get(layer, 0) + _moments(
                    whole[row, :, : len(ids), : len(ids)],
                    content[row, :, : len(ids), : len(ids)],
                    mask.bias(layer, len(ids)),
                    is_decoder(data.model),
                )
    found = np.stack([score_parts.temperature(totals[layer]) for layer in sorted(totals)])
    return np.where(found > 0, np.maximum(found, 0.1), 1.0).astype(np.float32)


def _moments(whole: Tensor, content: Tensor, bias: NDArray, causal: bool) -> Floats:
    """Of a document's scores [n_heads, n, n] each, weighted by its attention."""
    hidden = np.triu(np.ones(whole.shape[-2:], bool), 1) if causal else np.zeros((1, 1), bool)
    z, c = (x.double().cpu().numpy() for x in (whole, content))  # [n_heads, n, n] each
    seen = np.where(hidden, -np.inf, z)
    pattern = np.exp(seen - seen.max(axis=-1, keepdims=True))
    pattern /= pattern.sum(axis=-1, keepdims=True)
    parts = np.stack([c, bias, z - c - bias])  # [3, n_heads, n, n]
    return score_parts.moments(parts, pattern, within_query=True)
