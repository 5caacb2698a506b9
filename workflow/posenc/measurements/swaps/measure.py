"""Does a mask restore order? Preference for a text over itself with two words swapped (F1, F4).

Both hold the same tokens; what tells them apart is order alone. The words are neighbours, and as a
control further apart. Words are swapped whole: broken words would give the order away.

Most of a preference needs no positions: a swap breaks pairs of neighbouring tokens, which a model
that reads each token by itself notices. So the loss is also summed over those tokens alone that
follow the swap with the same token before them: there such a model cannot tell the two apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition, dumped
from posenc.measurements.frame import bootstrap, not_run
from posenc.measurements.swaps.declaration import MEASUREMENT, Swaps
from posenc.measurements.swaps.result import Distance, Preference, Preferences
from posenc.measurements.under_conditions import (
    ConditionsJob,
    losses_shown,
    of_texts,
    recovered_gain,
)
from posenc.metrics.order_sensitivity import token_words
from posenc.metrics.recovery import PairedMeans
from posenc.metrics.swaps import exchanged, places, preferred
from posenc.tokens.tokenized import Tokens

Floats = NDArray[np.float64]
BATCH_TOKENS = 4096
"""Tokens of one forward pass, all its conditions included."""


Job = ConditionsJob[Swaps]


class Form(NamedTuple):
    """One sequence: a document, or what a swap makes of it.

    Attributes
    ----------
    document
        Its number among those that are read.
    distance
        Of the swapped words; 0 for the document as it is.
    ids
        Its tokens.
    after
        Place of the first token after the swapped words.
    """

    document: int
    distance: int
    ids: list[int]
    after: int = 0


def measure(
    job: Job, network: Any, text: Tokens, texts: list[str], learned: dict[str, LearnedMask]
) -> Preferences | NotMeasured:
    """Swap words of the documents of a text, and score both forms under all conditions."""
    parameters = job.parameters
    if not job.reading.is_decoder:
        return not_run("no language-model head", parameters)
    forms = forms_of(parameters, text, texts, job.reading.max_tokens)
    documents = len({form.document for form in forms})
    if documents < 2:
        apart = max(parameters.distances)
        return not_run(f"too few documents have two words {apart} apart to swap", parameters)
    nll = losses(network, forms, job.conditions, learned)  # [forms, conditions, tokens - 1]
    return Preferences(
        documents=documents,
        tokens=sum(len(form.ids) for form in forms),
        confidence=parameters.confidence,
        swaps=sum(form.distance == parameters.distances[0] for form in forms),
        conditions=results(job, forms, nll),
    )


def forms_of(parameters: Swaps, text: Tokens, texts: list[str], max_tokens: int) -> list[Form]:
    """The beginning of each document that is read, followed by its swapped forms."""
    forms = []
    columns = [text.table[name].to_pylist() for name in ("starts", "ends", "special")]
    for number in range(0, len(texts), parameters.every):
        begin = int(text.metadata["bos"])
        kept = slice(min(begin + parameters.tokens, max_tokens))
        ids = np.array(text.ids[number])[kept]  # [tokens]
        words = token_words(texts[number], *(column[number][kept] for column in columns))
        can = places(ids, words, parameters.distances)  # [places]
        # A document's own, so that its swaps are the same whatever others are read.
        generator = np.random.default_rng([parameters.seed, number])
        chosen = generator.permutation(can)[: parameters.swaps]  # [swaps]
        if len(chosen):
            forms.append(Form(number, 0, ids.tolist()))
        for distance in parameters.distances:
            for place in chosen.tolist():
                order = exchanged(words, place, place + distance)  # [tokens]
                after = int(np.flatnonzero(order != np.arange(len(order)))[-1]) + 1
                forms.append(Form(number, distance, ids[order].tolist(), after))
    return forms


def losses(
    network: Any,
    forms: list[Form],
    conditions: dict[str, Condition],
    learned: dict[str, LearnedMask],
) -> Floats:  # [forms, conditions, tokens - 1]
    """Losses in nats of each sequence's tokens 1, 2, ...; 0 where a shorter one has none."""
    ids, column = [form.ids for form in forms], list(conditions)
    nll = np.zeros((len(forms), len(conditions), max(map(len, ids)) - 1))
    for name, row, token_nll in losses_shown(
        network, ids, conditions, learned, BATCH_TOKENS, "swaps"
    ):
        nll[row, column.index(name), : len(token_nll)] = token_nll
    return nll


def results(job: Job, forms: list[Form], nll: Floats) -> list[Preference]:
    """What each condition makes of the swaps, all on the same resampled documents."""
    names = list(job.conditions)
    by_distance = [
        under_distance(job.parameters, forms, nll, names, distance)
        for distance in dict.fromkeys(job.parameters.distances)
    ]
    return [
        Preference(condition=name, spec=dumped(job.conditions[name]), distances=list(of_condition))
        for name, of_condition in zip(names, zip(*by_distance, strict=True), strict=True)
    ]


def under_distance(
    parameters: Swaps, forms: list[Form], nll: Floats, names: list[str], distance: int
) -> list[Distance]:
    """Preference, margins in nats and the recovered share, by condition.

    ``nll`` is [forms, conditions, tokens - 1].
    """
    whole = {form.document: row for row, form in enumerate(forms) if form.distance == 0}
    rows = [row for row, form in enumerate(forms) if form.distance == distance]
    # [swaps, conditions, tokens - 1]
    changes = nll[rows] - nll[[whole[forms[row].document] for row in rows]]
    margins = changes.sum(axis=2)  # [swaps, conditions]
    # The loss of token k + 1 stands at k: from the second token after the swapped words on.
    after = np.arange(nll.shape[2]) >= np.array([[forms[row].after] for row in rows])
    later = np.where(after[:, None], changes, 0).sum(axis=2)  # [swaps, conditions]
    place = {document: index for index, document in enumerate(whole)}
    of_document = np.array([place[forms[row].document] for row in rows])  # [swaps]
    count = np.bincount(of_document)  # [documents]

    def means(values: Floats) -> PairedMeans:  # values [swaps, conditions]
        sums = np.zeros((len(count), len(names)))  # [documents, conditions]
        np.add.at(sums, of_document, values)
        return PairedMeans(sums, count, **bootstrap(parameters))

    shares = means(preferred(margins))
    # A margin is a loss with its sign turned, as a gain is.
    costs, later_costs = means(-margins), means(-later)
    return [
        Distance(
            distance=distance,
            preference=Interval.of(shares.of(lambda own: own, column)),
            margin=Interval.of(costs.of(np.negative, column)),
            recovered=recovered_gain(costs, names, column),
            later=Interval.of(later_costs.of(np.negative, column)),
            later_recovered=recovered_gain(later_costs, names, column),
        )
        for column in range(len(names))
    ]


main = of_texts(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
