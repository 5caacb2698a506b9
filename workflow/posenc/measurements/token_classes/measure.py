"""Which tokens pay when positions are taken away? Loss by class of token (A1, F1).

Each token has a class by its word (punctuation, function word, content word, continuation of a
word), by how long ago it last occurred, by its place in its sentence and in its document, and by
its surprisal for a trigram learned from other documents of the same data set. What a condition
costs is given per class, and once more from a linear model of all classes at once with the
documents taken out, so that punctuation, say, is not blamed for standing at the end of sentences.
Classes that are permuted among the tokens of a document are the control: they explain nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import dumped
from posenc.measurements.declaration import INTACT
from posenc.measurements.frame import bootstrap, not_run
from posenc.measurements.token_classes.declaration import MEASUREMENT, TokenClasses
from posenc.measurements.token_classes.result import Cost, Costs, Factor, TokenClass
from posenc.measurements.under_conditions import ConditionsJob, losses_shown, of_texts
from posenc.metrics.class_effects import ClassSums, Effects, permuted_within
from posenc.metrics.ngram import KneserNey
from posenc.metrics.recovery import PairedMeans, is_lost
from posenc.metrics.token_classes import (
    NEVER,
    WORDS,
    in_sentence,
    last_seen,
    levels_of,
    word_classes,
)
from posenc.tokens.tokenized import Tokens

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BATCH_TOKENS = 4096
"""Tokens of one forward pass, all its conditions included."""
ORDER = 3
PERMUTATIONS = 20
SEEN_EDGES, SENTENCE_EDGES, DOCUMENT_EDGES = (1, 5, 17, 65), (1, 4, 12), (16, 64, 256)
QUARTERS = (0.25, 0.5, 0.75)
FACTORS = {
    "word": WORDS,
    "seen before": ("never", "1 to 4 tokens ago", "5 to 16", "17 to 64", "65 or more"),
    "in its sentence": ("first", "second to fourth", "fifth to 12th", "later"),
    "in its document": ("1 to 15", "16 to 63", "64 to 255", "256 and later"),
    "trigram's surprisal": ("lowest quarter", "second", "third", "highest quarter"),
}
"""By factor, its classes. Places count from 0 in a document: the token at 0 is not predicted."""


Job = ConditionsJob[TokenClasses]


def measure(
    job: Job, network: Any, text: Tokens, texts: list[str], learned: dict[str, LearnedMask]
) -> Costs | NotMeasured:
    """Score the documents of a text under all conditions, and break their costs down by class."""
    from posenc.capture.parts import architecture, positions_of

    parameters = job.parameters
    if not job.reading.is_decoder:
        return not_run("no language-model head", parameters)
    longest = min(parameters.tokens + int(text.metadata["bos"]), job.reading.max_tokens)
    ids = [np.array(token_ids)[:longest] for token_ids in text.ids]  # [documents] of [tokens]
    read = [number for number in range(0, len(ids), parameters.every) if len(ids[number]) > 1]
    if len(read) < 2:
        return not_run("too few documents have two tokens", parameters)
    columns = [text.table[name].to_pylist() for name in ("starts", "ends", "special")]
    classes = []
    for number in read:
        starts, ends, special = (np.array(column[number][:longest]) for column in columns)
        classes.append(classes_of(texts[number], ids[number], starts, ends, special))
    codes = np.concatenate(classes)  # [tokens, factors but the last]
    size = architecture(network).vocabulary_size
    surprisal = np.concatenate(surprisals(ids, read, size))  # [tokens]
    document = np.repeat(np.arange(len(read)), [len(rows) for rows in classes])  # [tokens]
    counted = (codes >= 0).all(axis=1)  # [tokens]
    quarter = levels_of(surprisal, np.quantile(surprisal[counted], QUARTERS))  # [tokens]
    codes = np.column_stack([codes, quarter])[counted]  # [counted, factors]
    nll = losses(job, network, [ids[number].tolist() for number in read], learned)
    intact, conditions = results(job, codes, document[counted], nll[counted])
    return Costs(
        documents=len(read),
        tokens=int(counted.sum()),
        confidence=parameters.confidence,
        positions=positions_of(network),
        intact=intact,
        conditions=conditions,
    )


def surprisals(ids: list[Integers], read: list[int], vocabulary: int) -> list[Floats]:
    """Surprisal in nats of tokens 1, 2, ... for a trigram of other documents.

    Documents of even number are scored by the trigram of those of odd number, and the other way
    round.

    Parameters
    ----------
    ids
        The tokens of each document.
    read
        Numbers of the documents that are scored.
    vocabulary
        Its size, in tokens.

    Returns
    -------
    float64 [tokens - 1] of each document that is read.
    """
    by_number = {}
    for half in {number % 2 for number in read}:
        others = ids[1 - half :: 2]
        model = KneserNey(
            np.concatenate(others), [len(document) for document in others], vocabulary, ORDER
        )
        for number in read:
            if number % 2 == half:
                by_number[number] = model.token_nll(ids[number], [len(ids[number])])
    return [by_number[number] for number in read]


def classes_of(
    text: str, ids: Integers, starts: Integers, ends: Integers, special: NDArray[np.bool_]
) -> Integers:
    """Classes of a document's tokens 1, 2, ... under all factors but the last.

    Parameters
    ----------
    text
        The document.
    ids, starts, ends, special
        [tokens] each: what the tokenizer made of it.

    Returns
    -------
    int64 [tokens - 1, factors - 1]
        -1 for special tokens.
    """
    sentence = in_sentence(text, ends, special)  # [tokens]
    seen = last_seen(ids)  # [tokens]
    columns = [
        word_classes(text, starts, ends, special),
        np.where(seen == NEVER, 0, levels_of(seen, SEEN_EDGES)),
        np.where(sentence < 0, -1, levels_of(sentence, SENTENCE_EDGES)),
        levels_of(np.arange(len(ids)), DOCUMENT_EDGES),
    ]
    return np.stack(columns, axis=1)[1:]


def losses(
    job: Job, network: Any, documents: list[list[int]], learned: dict[str, LearnedMask]
) -> Floats:
    """Losses in nats of the tokens 1, 2, ... of all documents in turn, [tokens, conditions]."""
    column = list(job.conditions)
    ends = np.cumsum([len(ids) - 1 for ids in documents])  # [documents]
    nll = np.zeros((ends[-1], len(column)))  # [tokens, conditions]
    for name, row, token_nll in losses_shown(
        network, documents, job.conditions, learned, BATCH_TOKENS, "classes"
    ):
        nll[ends[row] - len(token_nll) : ends[row], column.index(name)] = token_nll
    return nll


def results(
    job: Job, codes: Integers, document: Integers, nll: Floats
) -> tuple[Interval, list[Cost]]:
    """Loss of the intact model in nats per token, and costs by condition and class.

    Parameters
    ----------
    job
        Whose conditions the columns of ``nll`` are.
    codes
        [tokens, factors].
    document
        [tokens]: rising.
    nll
        [tokens, conditions], nats.
    """
    parameters, names = job.parameters, list(job.conditions)
    counts = [len(classes) for classes in FACTORS.values()]
    sums = ClassSums(codes, counts, document)
    generator = np.random.default_rng(parameters.seed)
    shuffled = [
        ClassSums(codes[permuted_within(document, generator)], counts, document)
        for _ in range(PERMUTATIONS)
    ]
    intact = names.index(INTACT)
    of_document = np.stack([np.bincount(document, column) for column in nll.T], axis=1)
    means = PairedMeans(of_document, sums.tokens, **bootstrap(parameters))
    conditions = []
    for column, name in enumerate(names):
        if column == intact:
            continue
        cost = nll[:, column] - nll[:, intact]  # [tokens]
        effects = sums.effects(cost, **bootstrap(parameters))
        conditions.append(
            Cost(
                condition=name,
                spec=dumped(job.conditions[name]),
                delta_nll=Interval.of(means.of(np.subtract, column, intact)),
                explained=effects.explained,
                permuted=float(np.mean([permuted.explained(cost) for permuted in shuffled])),
                factors=by_factor(sums, effects, is_lost(means, intact, column)),
            )
        )
    return Interval.of(means.of(lambda own: own, intact)), conditions


def by_factor(sums: ClassSums, effects: Effects, has_share: bool) -> list[Factor]:
    """Each factor with its classes; without shares where nothing is lost."""
    factors, place = [], 0
    mean, adjusted, share = (
        Interval.each(of_class) for of_class in (effects.mean, effects.adjusted, effects.share)
    )  # [classes] each
    for number, (factor, names) in enumerate(FACTORS.items()):
        classes = []
        for name in names:
            is_known = bool(sums.known[place])
            classes.append(
                TokenClass(
                    name=name,
                    tokens=int(sums.of_class[:, place].sum()),
                    documents=int((sums.of_class[:, place] > 0).sum()),
                    mean=mean[place] if is_known else None,
                    adjusted=adjusted[place] if is_known else None,
                    share=share[place] if is_known and has_share else None,
                )
            )
            place += 1
        factors.append(
            Factor(
                factor=factor,
                alone=float(effects.alone[number]),
                unique=float(effects.unique[number]),
                classes=classes,
            )
        )
    return factors


main = of_texts(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
