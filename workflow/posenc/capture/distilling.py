"""A mask from the difference that position makes to the scores of the intact model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from posenc.capture.calibration import (
    Calibration,
    OfMethod,
    Progress,
    shape_of,
    start_of,
    with_mask,
)
from posenc.capture.capture import batches_of, forward, pad
from posenc.capture.closed_form import HeadMeans, calibrated, means_of, temperatures
from posenc.capture.content import scores_of, with_and_without
from posenc.capture.evaluation import INTACT
from posenc.capture.interventions import applied
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import DistilledMask
from posenc.conditions.section import Condition
from posenc.metrics.closed_form import distance_sums


@torch.inference_mode()
def scores_under(
    data: Calibration,
    documents: list[list[int]],
    condition: Condition,
    layers: Iterable[int],
    mask: LearnedMask | None = None,
) -> dict[int, Tensor]:
    """Attention scores by layer under a condition, [batch, n_heads, n, n]."""
    with applied(data.model, condition, {"it": mask} if mask else {}):
        _, recording = forward(data.model, documents)
    return {
        layer: scores_of(
            recording.queries[layer], recording.keys[layer], recording.options[layer].scaling
        )
        for layer in layers
    }


class _Averages:
    """Weighted sums of score differences by pair of positions, [n_layers, n_heads, n, n]."""

    def __init__(self, n_layers: int, n_heads: int, longest: int) -> None:
        self.sums = torch.zeros(n_layers, n_heads, longest, longest, dtype=torch.float64)
        self.weights = torch.zeros_like(self.sums)

    def add(self, layer: int, difference: Tensor, weight: Tensor) -> None:
        """Add a batch, [batch, n_heads, n, n] each."""
        n = difference.shape[-1]
        self.sums[layer, :, :n, :n] += (difference * weight).sum(0).double().cpu()
        self.weights[layer, :, :n, :n] += weight.sum(0).double().cpu()

    def compare(
        self,
        layer: int,
        intact: Tensor,  # [batch, n_heads, n, n]
        without: Tensor,  # [batch, n_heads, n, n]
        allowed: Tensor,  # bool [batch, 1, n, n]
        weights: str,
    ) -> None:
        """Add the differences of a batch's scores, weighted as the source says."""
        difference = intact - without  # [batch, n_heads, n, n]
        weight = allowed.expand_as(difference).to(difference)
        if weights == "attention":
            pattern = intact.masked_fill(~allowed, -torch.inf).softmax(-1)
            weight = pattern.nan_to_num(0.0)  # padded queries see nothing
            difference = difference - (difference * weight).sum(-1, keepdim=True)
        self.add(layer, difference, weight)

    def relative(self, layer: int, sides: int, without_first: bool) -> np.ndarray:
        """Averages by distance, [n_heads, sides, n]; 0 where there is no pair."""
        top, bottom = (
            distance_sums(x[layer].numpy(), causal=sides == 1, first=without_first)
            for x in (self.sums, self.weights)
        )
        return _mean(top, bottom)

    def first(self, layer: int, relative: np.ndarray) -> np.ndarray:
        """What the first key has beyond its distance's average, by query, [n_heads, n]."""
        sums, weights = self.sums[layer][:, :, 0].numpy(), self.weights[layer][:, :, 0].numpy()
        return _mean(sums, weights, relative[:, 0]) - relative[:, 0]

    def absolute(self, layer: int) -> np.ndarray:
        """Averages by pair, [n_heads, n, n]; 0 where there is none."""
        return _mean(self.sums[layer].numpy(), self.weights[layer].numpy())


def _mean(sums: np.ndarray, weights: np.ndarray, otherwise: np.ndarray | float = 0.0) -> np.ndarray:
    """Weighted means; where there is no weight, something else."""
    return np.where(weights > 0, sums / np.maximum(weights, 1e-300), otherwise)


def _allowed(data: Calibration, documents: list[list[int]]) -> Tensor:
    """Pairs of tokens that see each other, bool [batch, 1, n, n]."""
    real = pad(data.model, documents)[1].bool()  # [batch, n]
    pairs = real[:, None, :, None] & real[:, None, None, :]
    return pairs.tril() if data.is_decoder else pairs


def distill(
    source: DistilledMask, data: Calibration, progress: Progress = lambda done: None
) -> tuple[LearnedMask, OfMethod]:
    """The mean difference that position makes to the scores, z intact - z without positions.

    ``progress`` is called with the number of tokens seen.
    """
    n_layers, n_heads, sides = shape_of(data.model)
    longest = data.longest
    learned: dict[str, np.ndarray]
    if source.layout == "absolute":
        learned = {"absolute": np.zeros((n_layers, n_heads, longest, longest), np.float32)}
    else:
        learned = {"relative": np.zeros((n_layers, n_heads, sides, longest), np.float32)}
        if source.first:
            learned["first"] = np.zeros((n_layers, n_heads, longest), np.float32)
    # Without order between layers, one pass gives all of them.
    passes = [[layer] for layer in range(n_layers)] if source.sequential else [range(n_layers)]
    for layers in passes:
        so_far = LearnedMask(**{name: array.copy() for name, array in learned.items()})
        averages = _differences(source, data, layers, so_far, progress)
        for layer in layers:
            if source.layout == "absolute":
                learned["absolute"][layer] = averages.absolute(layer)
                continue
            relative = averages.relative(layer, sides, source.first)  # [n_heads, sides, n]
            learned["relative"][layer] = relative
            if source.first:
                learned["first"][layer] = averages.first(layer, relative)
    mask = LearnedMask(**learned)
    if not source.temperature:
        return mask, {}
    temperature = temperatures(data, data.fitting, mask, source.position, progress)
    return LearnedMask(**learned, temperature=temperature), {}


def _differences(
    source: DistilledMask, data: Calibration, layers, so_far: LearnedMask, progress
) -> _Averages:
    if source.of == "scores":
        return _differences_of_scores(source, data, layers, progress)
    averages = _Averages(*shape_of(data.model)[:2], data.longest)
    lengths = np.array([len(ids) for ids in data.fitting])
    is_first = 0 in layers
    condition = start_of(source.position) if is_first else with_mask(source.position)
    for batch in batches_of(lengths, range(len(lengths)), data.batch_tokens):
        documents = [data.fitting[index] for index in batch]
        intact = scores_under(data, documents, INTACT, layers)
        without = scores_under(data, documents, condition, layers, None if is_first else so_far)
        allowed = _allowed(data, documents)  # [batch, 1, n, n]
        for layer in layers:
            averages.compare(layer, intact[layer], without[layer], allowed, source.weights)
        progress(int(lengths[batch].sum()))
    return averages


def _differences_of_scores(source: DistilledMask, data: Calibration, layers, progress) -> _Averages:
    """Of queries and keys with and without position, whose means this pass has as well.

    Masks in closed form are made of them.
    """
    averages = _Averages(*shape_of(data.model)[:2], data.longest)
    documents = sorted(data.fitting, key=len)
    means = HeadMeans(data.model, len(documents[-1]))
    for ids in documents:
        heads = with_and_without(data.model, [ids], source.position)
        means.add(heads)
        allowed = _allowed(data, [ids])  # [1, 1, tokens, tokens]
        for layer in layers:
            averages.compare(
                layer, heads.scores(layer), heads.content(layer), allowed, source.weights
            )
        progress(len(ids))
    data.known[means_of(source.position)] = calibrated(means, data, list(map(len, documents)))
    return averages
