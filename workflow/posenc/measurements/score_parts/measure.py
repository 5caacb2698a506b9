"""How much of position is a mask: the closed form by head, and the parts of scores (F2, F3).

Scores with position minus scores without are averaged over the pairs at each distance, and stand
beside the mask in closed form (:mod:`posenc.metrics.closed_form`), whose means are of other
documents. With it for the mask, scores are content, mask and interaction
(:mod:`posenc.metrics.score_parts`); the null is the mask of another head. Of a model with a learned
table, those without position are of the model whose table is zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval
from posenc.measurements.frame import bootstrap
from posenc.measurements.of_models import halves, of_tokens
from posenc.measurements.score_parts import result
from posenc.measurements.score_parts.declaration import MEASUREMENT, SHORTEST, ScoreParts
from posenc.metrics.bootstrap import median_bootstrap, ratio_bootstrap, sums_bootstrap
from posenc.metrics.closed_form import by_pair, distance_sums, r_squared, visible_pairs
from posenc.metrics.mask_placebos import shuffled_over_heads, shuffled_within_layers
from posenc.metrics.patterns import softmax
from posenc.metrics.position_means import Curves
from posenc.metrics.score_parts import PARTS, correlation, moments, shares, split, with_mask
from posenc.tokens.tokenized import Tokens

if TYPE_CHECKING:
    from posenc.capture.content import Heads

Floats = NDArray[np.float64]
HIGH = 0.95
"""R² from which a mask counts as explaining a head."""
TERMS = (*PARTS, *(f"{part}_{other}" for part, other in itertools.combinations(PARTS, 2)))
"""Of the scores' variance: of each part alone, and by the covariance of two."""
WEIGHTINGS = tuple(itertools.product(("pairs", "attention"), (False, True)))
"""Whether all pairs count alike or by the attention pattern; whether within queries."""
PLACEBOS = {"heads": shuffled_over_heads, "layers": shuffled_within_layers}
"""By the heads whose masks are exchanged: all, or those of a layer."""


def measure(parameters: ScoreParts, network: Any, text: Tokens) -> result.Decomposition:
    """Calibrate on one half of the documents and measure on the other."""
    from posenc.capture.closed_form import HeadMeans
    from posenc.capture.parts import is_decoder

    calibration, documents = drawn(parameters, text)
    causal = is_decoder(network)
    # With a table, the mask at a distance is the mean over the very pairs that are measured.
    seen = visible_pairs(list(map(len, documents)), causal=causal)  # [n, n]
    means = HeadMeans(network, max(map(len, calibration)))
    learning = []
    for count, heads in enumerate(recorded(network, calibration, "calibration"), start=1):
        means.add(heads)
        if count.bit_count() == 1 or count == len(calibration):
            tokens = sum(map(len, calibration[:count]))
            learning.append(({"documents": count, "tokens": tokens}, means.curves(seen)))
    mask = learning[-1][1]
    sums = Sums(len(documents), seen, mask, causal)
    for document, heads in enumerate(recorded(network, documents, "scores")):
        sums.add(document, heads)
    n_layers, n_heads = mask.first.shape[:2]
    return result.Decomposition(
        is_causal=causal,
        is_rotary=means.is_rotary,
        n_layers=n_layers,
        n_heads=n_heads,
        documents=len(documents),
        tokens=sum(map(len, documents)),
        confidence=parameters.confidence,
        r2=prediction(parameters, sums, learning),
        shares=[shares_of(parameters, sums, *key) for key in WEIGHTINGS],
        heads=heads_of(sums),
    )


def drawn(parameters: ScoreParts, text: Tokens) -> tuple[list[list[int]], list[list[int]]]:
    """Documents for the means, and as many others that are measured."""
    return halves(
        text, parameters.documents, "measurements.score_parts.documents",
        tokens=parameters.tokens, shortest=SHORTEST, seed=parameters.seed,
    )  # fmt: skip


def recorded(network: Any, documents: list[list[int]], what: str) -> Iterator[Heads]:
    """Queries and keys of documents in turn: those of one document at a time are held."""
    from posenc.capture.content import with_and_without

    for ids in tqdm(documents, unit="document", desc=what, mininterval=5):
        yield with_and_without(network, [ids])


class Sums:
    """Sums over the pairs of the measured documents.

    Parameters
    ----------
    documents
        How many there are.
    seen
        float64 [n, n]: how many documents have each pair.
    mask
        In closed form.
    causal
        Whether a query sees the keys up to its own only.

    Attributes
    ----------
    pairs, queries
        float64 [sides, n] and [n]: how many pairs there are at a distance without the first key,
        and with the first key. Distance 0 counts on the side of the past only.
    moments
        By ``WEIGHTINGS``, float64 [documents, n_layers, n_heads, 4, 4]: of the parts of the scores.
    by_distance, by_query
        By weighting, float64 [documents, 3, n_layers, n_heads, sides, n] and [..., n]: weighted
        sums of 1, of the content and of the scores over the pairs at a distance without the first
        key, and with the first key.
    """

    def __init__(self, documents: int, seen: Floats, mask: Curves, causal: bool) -> None:
        self.mask, self._causal = mask, causal
        self.pairs, self.queries = distance_sums(seen, causal=causal), seen[:, 0]
        self.pairs[1:, 0] = 0
        self._relative, self._first = np.zeros_like(mask.relative), np.zeros_like(mask.first)
        shape = (documents, *mask.first.shape[:2], 4, 4)
        self.moments = {key: np.zeros(shape) for key in WEIGHTINGS}
        kinds = {weighting for weighting, _ in WEIGHTINGS}
        three = (documents, 3)
        self.by_distance = {kind: np.zeros((*three, *mask.relative.shape)) for kind in kinds}
        self.by_query = {kind: np.zeros((*three, *mask.first.shape)) for kind in kinds}

    def add(self, document: int, heads: Heads) -> None:
        """Add a document by its number."""
        for layer, curves in enumerate(zip(*self.mask, strict=True)):
            scores, content = (
                tensor[0].double().numpy() for tensor in (heads.scores(layer), heads.content(layer))
            )  # [n_heads, tokens, tokens] each
            tokens = scores.shape[-1]
            seen = visible_pairs([tokens], causal=self._causal)  # [tokens, tokens]
            added = (scores - content) * seen
            sums = distance_sums(added, causal=self._causal)  # [n_heads, sides, tokens]
            self._relative[layer, ..., :tokens] += sums
            self._first[layer, :, :tokens] += added[..., 0]
            b = by_pair(*curves, tokens)  # [n_heads, tokens, tokens]
            parts = split(scores, content, b)
            pattern = softmax(scores, causal=self._causal)  # overwrites the scores
            for (weighting, within_query), totals in self.moments.items():
                weights = pattern if weighting == "attention" else seen
                totals[document, layer] = moments(parts, weights, within_query=within_query)
            terms = np.stack([np.ones_like(content), content, parts.sum(axis=0)])
            for weighting, weights in (("attention", pattern), ("pairs", seen)):
                weighted = terms * weights  # [3, n_heads, tokens, tokens]
                sums = distance_sums(weighted, causal=self._causal)  # [3, n_heads, sides, tokens]
                sums[..., 1:, 0] = 0  # of an encoder, distance 0 is on both sides
                self.by_distance[weighting][document, :, layer, ..., :tokens] = sums
                self.by_query[weighting][document, :, layer, :, :tokens] = weighted[..., 0]

    def measured(self) -> Curves:
        """Mean scores with position minus those without; NaN where there is no pair."""
        return Curves(mean(self._relative, self.pairs), mean(self._first, self.queries))

    def placebo(self, weighting: str, mask: Curves) -> Floats:
        """Moments of the scores with another mask, [documents, n_layers, n_heads, 4, 4]."""
        by_distance, by_query = self.by_distance[weighting], self.by_query[weighting]
        # There is no pair where a curve is not a number.
        relative, first = np.nan_to_num(mask.relative), np.nan_to_num(mask.first)
        sums = (by_distance * relative).sum(axis=(-2, -1)) + (by_query * first).sum(axis=-1)
        squares = (by_distance[:, 0] * relative**2).sum(axis=(-2, -1))
        squares += (by_query[:, 0] * first**2).sum(axis=-1)  # [documents, n_layers, n_heads]
        products = np.stack([*np.moveaxis(sums, 1, 0), squares], axis=-1)
        return with_mask(self.moments[weighting, False], products)


def mean(sums: Floats, counts: Floats) -> Floats:
    """Sums over counts that heads share; NaN where there is none."""
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def head_r2(mask: Floats, sums: Sums) -> Floats:
    """R² of a mask, [n_layers, n_heads, sides, n], for the measured curves: [n_layers, n_heads].

    Both sides are one curve, and a distance counts as often as there are pairs.
    """
    curves = (mask, sums.measured().relative)
    # [..., sides * n] each
    flat, measured = (curve.reshape(*curve.shape[:2], -1) for curve in curves)
    return r_squared(flat, measured, sums.pairs.ravel())


def prediction(
    parameters: ScoreParts, sums: Sums, learning: list[tuple[dict[str, int], Curves]]
) -> result.Prediction:
    """Medians of R² over heads, with intervals over heads: documents are those drawn."""
    options = bootstrap(parameters)

    def median(r2: Floats) -> Interval | None:
        # It is NaN for a head to whose scores position adds nothing.
        return Interval.of(median_bootstrap(r2, **options)) if np.isfinite(r2).any() else None

    r2 = head_r2(sums.mask.relative, sums)  # [n_layers, n_heads]
    first = r_squared(sums.mask.first, sums.measured().first, sums.queries)
    shuffled = np.full_like(r2, np.nan)
    if r2.size > 1:
        shuffled = head_r2(shuffled_over_heads(sums.mask.relative, parameters.seed), sums)
    is_high = ratio_bootstrap(r2.ravel() >= HIGH, np.ones(r2.size), **options)
    return result.Prediction(
        median=median(r2),
        shuffled=median(shuffled),
        first_key=median(first),
        high=HIGH,
        high_share=Interval.of(is_high),
        layers=[median(layer) for layer in r2],
        learning=[
            result.Learning(**size, median=median(head_r2(mask.relative, sums)))
            for size, mask in learning
        ],
    )


def shares_of(
    parameters: ScoreParts, sums: Sums, weighting: str, within_query: bool
) -> result.Shares:
    """Means of shares over heads, of all and by layer, with intervals over documents."""
    by_document = sums.moments[weighting, within_query]  # [documents, n_layers, n_heads, 4, 4]
    n_layers = by_document.shape[1]

    def statistic(totals: Floats) -> Floats:  # [resamples, n_layers, n_heads, 4, 4]
        terms = np.nanmean(share_terms(totals), axis=2)  # [resamples, n_layers, 6]
        together = np.nanmedian(correlation(totals), axis=(1, 2))  # [resamples]
        layers = terms.reshape(len(terms), -1)  # [resamples, n_layers * 6]
        return np.column_stack([together, terms.mean(axis=1), layers])

    def median(
        totals: Floats, parts: int = 2
    ) -> Floats:  # [resamples, ..., n_layers, n_heads, 4, 4]
        """Over heads, and the mean over draws if there are any: [resamples]."""
        of_heads = np.nanmedian(correlation(totals, parts), axis=(-2, -1))  # [resamples, ...]
        return of_heads.reshape(len(of_heads), -1).mean(axis=1)

    def interval(moments: Floats, parts: int = 2) -> Interval:  # [documents, ..., n_heads, 4, 4]
        of = partial(median, parts=parts)
        return Interval.of(sums_bootstrap([moments], of, **bootstrap(parameters)))

    placebos = {} if within_query else placebo_moments(parameters, sums, weighting)
    together, *terms = Interval.each(
        sums_bootstrap([by_document], statistic, **bootstrap(parameters))
    )
    rows = [
        dict(zip(TERMS, terms[start : start + len(TERMS)], strict=True))
        for start in range(0, len(terms), len(TERMS))
    ]
    return result.Shares(
        weights=weighting,
        within_query=within_query,
        correlation=together,
        content_correlation=interval(by_document, 1),
        placebo={name: interval(drawn) for name, drawn in placebos.items()},
        all=result.Terms(**rows[0]),
        layers=[result.LayerTerms(layer=layer, **rows[layer + 1]) for layer in range(n_layers)],
    )


def placebo_moments(parameters: ScoreParts, sums: Sums, weighting: str) -> dict[str, Floats]:
    """Moments with masks of other heads, by kind: [documents, draws, n_layers, n_heads, 4, 4].

    What is left of the scores is no interaction then. A kind is missing where there is no other
    head.
    """
    n_layers, n_heads = sums.mask.first.shape[:2]
    others = {"heads": n_layers * n_heads > 1, "layers": n_heads > 1}
    placebos = {}
    for name, shuffled in PLACEBOS.items():
        if not others[name]:
            continue
        seeds = np.random.SeedSequence(parameters.seed).spawn(parameters.placebo_draws)
        masks = [Curves(*(shuffled(curve, seed) for curve in sums.mask)) for seed in seeds]
        placebos[name] = np.stack([sums.placebo(weighting, mask) for mask in masks], axis=1)
    return placebos


def share_terms(totals: Floats) -> Floats:
    """Shares of ``TERMS``, which sum to 1: float64 [..., 6], of moments [..., 4, 4]."""
    matrix = shares(totals)  # [..., 3, 3]
    upper = np.triu_indices(len(PARTS), 1)
    alone = np.diagonal(matrix, axis1=-2, axis2=-1)  # [..., 3]
    return np.concatenate([alone, 2 * matrix[..., upper[0], upper[1]]], axis=-1)


def heads_of(sums: Sums) -> list[result.Head]:
    """Of each head its R², shares and correlation over all pairs, and curves."""
    measured, r2 = sums.measured(), head_r2(sums.mask.relative, sums)
    totals = sums.moments["pairs", False].sum(axis=0)  # [n_layers, n_heads, 4, 4]
    terms, together = share_terms(totals), correlation(totals)
    return [
        result.Head(
            layer=layer,
            head=head,
            r2=listed(r2[layer, head]),
            correlation=listed(together[layer, head]),
            shares=result.HeadTerms(**dict(zip(TERMS, listed(terms[layer, head]), strict=True))),
            measured=curves_of(measured, layer, head),
            closed_form=curves_of(sums.mask, layer, head),
        )
        for layer, head in np.ndindex(r2.shape)
    ]


def curves_of(curves: Curves, layer: int, head: int) -> result.Curves:
    """Curves of one head in nats by distance; None where there is no pair."""
    sides = dict(zip(("past", "future"), curves.relative[layer, head], strict=False))
    sides |= {"first_key": curves.first[layer, head]}
    return result.Curves(**{name: listed(np.round(curve, 4)) for name, curve in sides.items()})


def listed(values: Floats) -> Any:
    """Values as JSON has them: None for NaN."""
    objects = np.asarray(values, object)
    objects[np.isnan(values)] = None
    return objects.tolist()


main = of_tokens(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
