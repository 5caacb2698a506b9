"""How much of what rotation adds to the scores is of first order (F7)?

Rotation adds a sum of four terms to a score (:mod:`posenc.metrics.first_order`): one of the means
of a head alone, one that the key adds, one that the query adds, and a rest that needs both. Means
are of one half of the documents, and how much of the sum each partial sum explains is measured on
the other. What a model loses with a partial sum alone is a matter of conditions, not of this
measurement. Controls: the means of other heads; and no mean of its own for the first key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.positions import ROTATION
from posenc.measurements.frame import bootstrap, not_run
from posenc.measurements.of_models import halves, of_tokens
from posenc.measurements.rotation_terms.declaration import MEASUREMENT, SHORTEST, RotationTerms
from posenc.measurements.rotation_terms.result import (
    Explained,
    Head,
    LayerSums,
    PartialSums,
    RotationByOrder,
)
from posenc.measurements.score_parts.measure import listed, recorded
from posenc.metrics.bootstrap import sums_bootstrap
from posenc.metrics.closed_form import Means, visible_pairs
from posenc.metrics.first_order import TERMS, terms
from posenc.metrics.mask_placebos import neighbours, shuffled_over_heads
from posenc.metrics.patterns import softmax
from posenc.tokens.tokenized import Tokens

if TYPE_CHECKING:
    from posenc.capture.content import Heads
    from posenc.metrics.position_means import Turn

Floats = NDArray[np.float64]
PARTIAL_SUMS = {
    "mask": ("mask",),
    "mask_key": ("mask", "key"),
    "mask_query": ("mask", "query"),
    "first_order": ("mask", "key", "query"),
}
WEIGHTINGS = ("pairs", "attention")
"""Whether all pairs count alike, or by the attention pattern."""


def measure(parameters: RotationTerms, network: Any, text: Tokens) -> RotationByOrder | NotMeasured:
    """Means of one half of the documents; what they explain on the other."""
    if network is None:
        return not_run("positions come in by a table: nothing is turned", parameters)
    from posenc.capture.closed_form import HeadMeans, turn_of
    from posenc.capture.pair_scores import turns_of
    from posenc.capture.parts import architecture, is_causal

    calibration, documents = halves(
        text, parameters.documents, "measurements.rotation_terms.documents",
        tokens=parameters.tokens, shortest=SHORTEST, seed=parameters.seed,
    )  # fmt: skip
    means = HeadMeans(network, max(map(len, calibration)))
    for heads in recorded(network, calibration, "calibration"):
        means.add(heads)
    layers, n_heads = architecture(network).layers, architecture(network).n_heads
    turned = {layer: turn_of(turn) for layer, turn in turns_of(network).items()}
    kinds = all_means(means.means(), parameters.seed)
    size = (len(documents), len(kinds), len(WEIGHTINGS), len(turned), n_heads)
    squares = np.zeros((*size, 1 + len(PARTIAL_SUMS)))
    for document, heads in enumerate(recorded(network, documents, "scores")):
        seen = visible_pairs([len(documents[document])], causal=is_causal(network)) > 0
        for place, (layer, turn) in enumerate(turned.items()):
            sees = layers[layer].sees(len(seen))
            visible = seen if sees is None else seen & sees.numpy()  # bool [tokens, tokens]
            squares[document, :, :, place] = layer_squares(heads, layer, turn, kinds, visible)
    return RotationByOrder(
        n_layers=len(layers),
        n_heads=n_heads,
        documents=len(documents),
        tokens=sum(map(len, documents)),
        confidence=parameters.confidence,
        explained=[
            explained_with(parameters, squares[:, which, weighting], list(turned), name, weights)
            for which, name in enumerate(kinds)
            for weighting, weights in enumerate(WEIGHTINGS)
        ],
        heads=heads_of(squares[:, 0, 0].sum(axis=0), list(turned)),
    )


def all_means(means: Means, seed: int) -> dict[str, Means]:
    """Mean vectors by name; those of other heads only where there are any.

    ``own`` are the head's; ``no_first`` the same, the first key's with the others; ``neighbours``
    the next head's of the layer; ``other_heads`` another head's of any layer.
    """
    parts = (means.query, means.key, means.first_key)  # [n_layers, n_heads, d_head] each
    n_layers, n_heads = means.query.shape[:2]
    kinds = {"own": means, "no_first": Means(means.query, means.key, means.key)}
    if n_heads > 1:
        kinds["neighbours"] = Means(*map(neighbours, parts))
    if n_layers * n_heads > 1:
        kinds["other_heads"] = Means(*(shuffled_over_heads(part, seed) for part in parts))
    return kinds


def layer_squares(
    heads: Heads, layer: int, turn: Turn, kinds: dict[str, Means], visible: NDArray[np.bool_]
) -> Floats:
    """Sums of squares of what rotation adds, and of what partial sums leave of it.

    Each query's weighted mean over its keys, which softmax does not see, is taken out of both.

    Parameters
    ----------
    heads
        Of one document.
    layer, turn
        Which layer, and how it turns features.
    kinds
        Mean vectors of all layers, by name.
    visible
        [tokens, tokens]: the keys that each query sees.

    Returns
    -------
    float64 [kinds, weightings, n_heads, 1 + partial sums].
    """
    query, key = (
        np.roll(vectors[layer][0].double().numpy(), -turn.begin, axis=-1)
        for vectors in (heads.content_queries, heads.content_keys)
    )  # [n_heads, tokens, d_head] each
    n_heads, tokens = query.shape[:2]
    scores = np.where(visible, heads.scores(layer)[0].double().numpy(), -np.inf)
    seen = np.broadcast_to(visible.astype(np.float64), scores.shape)
    weights = (seen, softmax(scores, causal=False))  # [n_heads, tokens, tokens] each
    squares = np.zeros((len(kinds), len(WEIGHTINGS), n_heads, 1 + len(PARTIAL_SUMS)))
    for which, means in enumerate(kinds.values()):
        mean_q, mean_k, first_k = (
            np.roll(part[layer], -turn.begin, axis=-1)
            for part in (means.query, means.key, means.first_key)
        )  # [n_heads, d_head] each
        mean_keys = np.repeat(mean_k[:, None], tokens, axis=1)  # [n_heads, tokens, d_head]
        mean_keys[:, 0] = first_k
        each = terms(
            query,
            key,
            mean_q,
            mean_keys,
            turn.frequencies,
            scaling=heads.scaling[layer],
            layout=turn.layout,
        )  # [4, n_heads, tokens, tokens]
        left = [each.sum(axis=0)] + [
            sum(each[place] for place, term in enumerate(TERMS) if term not in partial)
            for partial in PARTIAL_SUMS.values()
        ]
        for weighting, weight in enumerate(weights):
            for column, part in enumerate(left):
                squares[which, weighting, :, column] = centred_squares(part, weight)
    return squares


def centred_squares(values: Floats, weights: Floats) -> Floats:
    """Weighted sum of squares of a value about its query's mean, [..., tokens, tokens] to [...]."""
    total = weights.sum(axis=-1, keepdims=True)  # [..., tokens, 1]
    mean = (weights * values).sum(axis=-1, keepdims=True) / np.where(total > 0, total, 1)
    return (weights * np.square(values - mean)).sum(axis=(-2, -1))


def explained_with(
    parameters: RotationTerms, squares: Floats, layers: list[int], name: str, weights: str
) -> Explained:
    """Share that partial sums explain, means over heads, with intervals over documents.

    Parameters
    ----------
    squares
        [documents, layers, n_heads, 1 + partial sums].
    layers
        Numbers of the layers that are turned.
    """

    def statistic(totals: Floats) -> Floats:  # [resamples, layers, n_heads, 1 + partial sums]
        shares = explained(totals)  # [resamples, layers, n_heads, partial sums]
        by_layer = mean_over_heads(shares, axis=2)  # [resamples, layers, partial sums]
        whole = mean_over_heads(shares, axis=(1, 2))  # [resamples, partial sums]
        return np.concatenate([whole, by_layer.reshape(len(by_layer), -1)], axis=1)

    estimates = Interval.each(sums_bootstrap([squares], statistic, **bootstrap(parameters)))
    rows = [
        dict(zip(PARTIAL_SUMS, estimates[start : start + len(PARTIAL_SUMS)], strict=True))
        for start in range(0, len(estimates), len(PARTIAL_SUMS))
    ]
    return Explained(
        means=name,
        weights=weights,
        all=PartialSums(**rows[0]),
        layers=[LayerSums(layer=layer, **row) for layer, row in zip(layers, rows[1:], strict=True)],
    )


def explained(squares: Floats) -> Floats:
    """One minus the share that is left, [..., 1 + partial sums] to [..., partial sums].

    NaN where rotation adds nothing.
    """
    total, left = squares[..., :1], squares[..., 1:]
    return 1 - np.divide(left, total, out=np.full_like(left, np.nan), where=total > 0)


def mean_over_heads(shares: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Mean over the heads to which rotation adds something; NaN if there are none."""
    is_there = np.isfinite(shares)
    count, total = is_there.sum(axis=axis), np.where(is_there, shares, 0).sum(axis=axis)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def heads_of(squares: Floats, layers: list[int]) -> list[Head]:
    """What partial sums explain of each head, all pairs alike; None where rotation adds nothing.

    ``squares`` are [layers, n_heads, 1 + partial sums].
    """
    shares = explained(squares)  # [layers, n_heads, partial sums]
    return [
        Head(
            layer=layers[place],
            head=head,
            **dict(zip(PARTIAL_SUMS, listed(shares[place, head]), strict=True)),
        )
        for place, head in np.ndindex(shares.shape[:2])
    ]


main = of_tokens(MEASUREMENT, measure, is_for=lambda reading: reading.positions == ROTATION)

if __name__ == "__main__":
    run(main)
