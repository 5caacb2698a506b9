"""What heads make of positions alone: where they look, and how much of it is a mask (C3, C6).

The null is a table that knows no order (:mod:`posenc.metrics.null_tables`) under the same maps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.measurements.of_tables import Subject, of_tables
from posenc.measurements.position_heads.declaration import MEASUREMENT, PositionHeads
from posenc.measurements.position_heads.result import (
    Distances,
    Head,
    HeadNull,
    HeadScores,
    LeadingPairs,
    NearHeads,
    NearNull,
    NoHeads,
    PositionScores,
)
from posenc.measurements.relative_attention.measure import number, of_head, rounded
from posenc.metrics.by_offset import profile_by_offset
from posenc.metrics.head_offsets import HeadOffsets, head_offsets
from posenc.metrics.heads import mean_offset
from posenc.metrics.null_tables import null_tables, spread
from posenc.metrics.patterns import softmax
from posenc.metrics.position_scores import distance_parts
from posenc.metrics.relative_attention import Factors, head_factors, pair_spectra, position_input

INPUT = "layer normalisation of the position embedding alone: no token embedding is added"


def measure(parameters: PositionHeads, subject: Subject) -> PositionScores | NoHeads:
    """All heads, layer after layer, of a model or of a file with its query and key maps.

    Raises
    ------
    ArtifactError
        If the maps do not fit the table, or there are too few positions for the offsets.
    """
    if subject.heads is None:
        reason = f"{subject.name} is a table alone: it needs query and key maps, and their n_heads"
        return NoHeads(status="not run", reason=reason, heads=[])
    heads = subject.heads()
    positions = subject.positions[: parameters.rows]  # [rows, d_model]
    if len(positions) <= 2 * parameters.offsets:
        raise ArtifactError(
            f"{subject.name} has {len(positions)} positions, too few for offsets of "
            f"{parameters.offsets}: lower measurements.position_heads.offsets in params.yaml"
        )
    drawn = null_tables(positions, parameters.null_draws, parameters.seed)
    entries: list[HeadScores] = []
    by_layer: dict[str, list] = {name: [] for name in drawn}  # [draws, 3, n_heads] each
    masses: dict[str, list] = {name: [] for name in drawn}  # [n_heads, 2 offsets + 1] each
    for layer in range(heads.n_layers):
        gain, bias = heads.input_norm(layer)
        if len(gain) != positions.shape[1]:
            raise ArtifactError(
                f"{subject.name}: positions have the width {positions.shape[1]}, layer {layer} "
                f"has {len(gain)}"
            )
        query, key = heads.heads(layer)  # [n_heads, d_model + 1, d_head] each
        x = block_input(positions, gain, bias, heads.eps)  # [rows, d_model + 1]
        looked = head_offsets(x, query, key, parameters.offsets, causal=heads.is_decoder)
        entries += of_layer(layer, looked, causal=heads.is_decoder)
        factors = head_factors(query, key)
        for name, tables in drawn.items():
            inputs = (block_input(table, gain, bias, heads.eps) for table in tables)
            nulls_here = [
                of_null(x, query, key, factors, parameters.offsets, heads.is_decoder)
                for x in inputs
            ]
            by_layer[name].append([statistics for statistics, _ in nulls_here])
            masses[name].append(np.mean([mass for _, mass in nulls_here], axis=0))
    # [draws, 3, n_layers * n_heads] and [n_layers * n_heads, 2 offsets + 1] each
    nulls = {name: np.concatenate(layers, axis=-1) for name, layers in by_layer.items()}
    mass = {name: np.concatenate(layers) for name, layers in masses.items()}
    return PositionScores(
        is_causal=heads.is_decoder,
        n_layers=heads.n_layers,
        n_heads=heads.n_heads,
        rows=len(positions),
        input=INPUT,
        uniform=rounded(looked.uniform),
        near=near_heads(parameters.near, heads.n_heads, entries, nulls),
        waves=waves(parameters.near, entries, nulls),
        heads=[
            Head(
                **dict(head),
                nulls={
                    name: head_null(of[..., place], mass[name][place]) for name, of in nulls.items()
                },
            )
            for place, head in enumerate(entries)
        ],
    )


def head_null(
    statistics: NDArray[np.float64],  # [draws, 3]
    mass: NDArray[np.float64],  # [2 offsets + 1]
) -> HeadNull:
    """What is kept of one head with tables of one kind."""
    mean_offset, distance_share, wave_share = map(spread, statistics.T)
    return HeadNull(
        mean_offset=mean_offset,
        distance_share=distance_share,
        wave_share=wave_share,
        mass=rounded(mass),
    )


def block_input(
    table: NDArray[np.float64],  # [rows, d_model]
    gain: NDArray[Any],  # [d_model]
    bias: NDArray[Any],  # [d_model]
    eps: float,
) -> NDArray[np.float64]:
    """Input of a block from positions alone, with ones for the biases: [rows, d_model + 1]."""
    x = position_input(table, 0.0, gain, bias, eps)  # [rows, d_model]
    return np.hstack([x, np.ones((len(x), 1))])


def of_layer(layer: int, looked: HeadOffsets, *, causal: bool) -> list[HeadScores]:
    """What is kept of the heads of one layer."""
    parts = distance_parts(looked.scores, causal=causal)
    first = softmax(looked.scores.copy(), causal=causal)[..., 0].mean(axis=-1)  # [n_heads]
    begin = 0 if causal else 1 - looked.scores.shape[-1]

    def kept(head: int) -> HeadScores:
        by_weights = of_head(layer, looked, head)
        bias = np.round(parts.curve[head], 3).tolist()
        return HeadScores(
            layer=layer,
            head=head,
            predicted_lag=by_weights.predicted_lag,
            profile=by_weights.profile,
            pairs=by_weights.pairs,
            pairs_share=by_weights.pairs_share,
            deviation=float(parts.deviation[head]),
            distance_share=number(parts.share[head]),
            first_score=float(parts.first[head]),
            first_mass=float(first[head]),
            distances=Distances.model_validate({"from": begin, "bias": bias}),
        )

    return [kept(head) for head in range(len(looked.scores))]


def of_null(
    x: NDArray[np.float64],  # [rows, d]
    query: NDArray[np.float64],  # [n_heads, d, d_head]
    key: NDArray[np.float64],  # [n_heads, d, d_head]
    factors: Factors,
    offsets: int,
    causal: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Statistics of the heads of one layer, [3, n_heads], and their attention by offset.

    They are what is compared with tables that know no order: mean offset, share that the distance
    explains, share of one frequency in the leading pair.
    """
    scores = (x @ query) @ np.swapaxes(x @ key, -1, -2)  # [n_heads, rows, rows]
    scores /= math.sqrt(query.shape[-1])
    mass, _ = profile_by_offset(scores, offsets, causal)  # [n_heads, 2 offsets + 1]
    pairs = pair_spectra(x @ factors.query, x @ factors.key)  # [n_heads, r] each
    lead = np.argmax(factors.singular * pairs.amplitude, axis=-1)  # [n_heads]
    share = np.take_along_axis(pairs.share, lead[:, None], axis=-1)[:, 0]  # [n_heads]
    explained = distance_parts(scores, causal=causal).share  # [n_heads]
    return np.stack([mean_offset(mass), explained, share]), mass


def waves(
    near: int,
    entries: list[HeadScores],
    nulls: dict[str, NDArray[np.float64]],  # by kind [draws, 3, n_layers * n_heads]
) -> LeadingPairs:
    """The leading pair of waves of each head, over heads.

    ``lags`` heads have a lag of at most ``near`` tokens, of either sign; with phases at random, as
    many as ``lags_chance`` would: at the frequency f, a share 2 f near of all phases.
    """
    lead = [head.pairs[0] for head in entries]
    frequency = np.array([pair.frequency for pair in lead])  # [heads]
    lag = np.array([pair.lag for pair in lead])  # [heads]
    return LeadingPairs(
        period=float(np.median(1 / frequency)),
        lag=float(np.median(lag)),
        share=float(np.median([pair.share for pair in lead])),
        lags=int(np.sum(np.abs(lag) <= near)),
        lags_chance=float(np.minimum(1, 2 * near * frequency).sum()),
        nulls={name: spread(np.median(of[:, 2], axis=-1)) for name, of in nulls.items()},
    )


def near_heads(
    near: int,
    n_heads: int,
    entries: list[HeadScores],
    nulls: dict[str, NDArray[np.float64]],  # by kind [draws, 3, n_layers * n_heads]
) -> NearHeads:
    """How many heads look near, of the table and of its nulls.

    ``nearest`` is of the first layer: the mean offset of its head that looks nearest, which is
    chosen anew in each draw.
    """
    # [1, n_layers * n_heads], NaN for None
    own = np.array([[head.profile.mean_offset for head in entries]], np.float64)

    def within(offset: NDArray[np.float64]) -> NDArray[np.int64]:  # [draws, heads] to [draws]
        return np.sum(np.abs(offset) <= near, axis=-1)

    def nearest(offset: NDArray[np.float64]) -> NDArray[np.float64]:  # [draws, heads] to [draws]
        first = offset[:, :n_heads]  # [draws, n_heads]
        place = np.where(np.isnan(first), np.inf, np.abs(first)).argmin(axis=-1)  # [draws]
        return np.take_along_axis(first, place[:, None], axis=-1)[:, 0]

    return NearHeads(
        tokens=near,
        heads=int(within(own)[0]),
        nearest=number(nearest(own)[0]),
        nulls={
            name: NearNull(
                heads=spread(within(offset)),
                nearest=spread(nearest(offset)),
                distance_share=spread(np.nanmedian(share, axis=-1)),
            )
            for name, (offset, share, _) in ((n, np.moveaxis(of, 1, 0)) for n, of in nulls.items())
        },
    )


main = of_tables(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
