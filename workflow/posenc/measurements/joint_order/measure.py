"""Do two places of a text make pairs of words that one order prefers? (F1, F4).

After the beginning c of a document a decoder gives two places a joint distribution,
P[a, b] = p(a | c) p(b | c, a). It is measured on the tokens that are likely at either place, and
once more with the text's own token x between both: p(a | c) p(x | c, a) p(b | c, a, x). The table's
distance from its transpose says how far pairs have an order; what the product of its marginals has
of that comes from places alone. The control keeps the pairs and gives the intact model the
beginning of another document: an order that is the pair's own stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition, dumped
from posenc.measurements.declaration import INTACT
from posenc.measurements.frame import bootstrap, not_run
from posenc.measurements.joint_order.declaration import MEASUREMENT, JointOrder
from posenc.measurements.joint_order.result import Distribution, Orders, Pairs, UnderCondition
from posenc.measurements.under_conditions import ConditionsJob, of_masks, recovered_loss
from posenc.metrics.joint_order import likeness, order_of
from posenc.metrics.recovery import PairedMeans
from posenc.tokens.tokenized import Tokens

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BATCH_TOKENS = 4096
"""Tokens of one forward pass, all its conditions included."""
SHORTEST = 6
"""Tokens of a document that is read: both places and the one between are in it."""
FIRST, SECOND, THIRD = range(3)
"""Places whose tokens are predicted: from the beginning, from ``a``, and from the one between."""
DISTANCES = (1, 2)
"""From one place of a pair to the other, in tokens."""


Job = ConditionsJob[JointOrder]


class Context(NamedTuple):
    """The beginning of a document, and what follows it.

    Attributes
    ----------
    ids
        Its tokens.
    following
        The two tokens after them.
    """

    ids: list[int]
    following: tuple[int, int]


class Tables(NamedTuple):
    """Joint log-probabilities in nats, of pairs at each distance.

    Attributes
    ----------
    first
        float64 [contexts, conditions, candidates]: of the first place.
    pairs
        float64 [contexts, conditions, candidates, candidates], by distance.
    """

    first: Floats
    pairs: dict[int, Floats]


def measure(
    job: Job, network: Any, text: Tokens, learned: dict[str, LearnedMask]
) -> Orders | NotMeasured:
    """Ask for the candidates at both places after the beginning of each document."""
    parameters = job.parameters
    if not job.reading.is_decoder:
        return not_run("no language-model head", parameters)
    contexts = contexts_of(parameters, text, job.reading.max_tokens)
    if len(contexts) < 2:
        return not_run(f"too few documents have {SHORTEST} tokens", parameters)
    intact = {INTACT: job.conditions[INTACT]}
    candidates = candidates_of(network, contexts, parameters.candidates, intact)
    # The same pairs after the beginning of the next document.
    others = [
        Context(other.ids, context.following)
        for context, other in zip(contexts, [*contexts[1:], contexts[0]], strict=True)
    ]
    sequences = [count_tokens(group, len(candidates[0])) for group in (contexts, others)]
    total = len(job.conditions) * sequences[0] + sequences[1]
    with tqdm(total=total, unit="token", desc="pairs", mininterval=2) as progress:
        own = tables(network, contexts, candidates, job.conditions, learned, progress)
        other = tables(network, others, candidates, intact, learned, progress)
    conditions, control = results(job, own, other)
    return Orders(
        documents=len(contexts),
        tokens=sum(len(context.ids) for context in contexts),
        confidence=parameters.confidence,
        candidates=len(candidates[0]),
        conditions=conditions,
        other=control,
    )


def contexts_of(parameters: JointOrder, text: Tokens, max_tokens: int) -> list[Context]:
    """The beginnings of drawn documents, in the order of the text."""
    enough = np.flatnonzero(text.lengths >= SHORTEST)  # [documents]
    drawn = np.random.default_rng(parameters.seed).permutation(enough)[: parameters.documents]
    contexts = []
    for number in np.sort(drawn):
        ids = list(text.ids[number])
        longest = min(parameters.tokens + int(text.metadata["bos"]), max_tokens - 2)
        place = min(longest, len(ids) // 2)
        contexts.append(Context(ids[:place], (ids[place], ids[place + 1])))
    return contexts


def candidates_of(
    network: Any, contexts: list[Context], count: int, intact: dict[str, Condition]
) -> list[Integers]:
    """Tokens that the intact model expects most at either place, int64 [candidates] each.

    At the second place the text's own token stands before them.
    """
    from posenc.capture.next_tokens import next_logs_under

    documents = [[*context.ids, context.following[0]] for context in contexts]
    largest = {
        row: logs.max(axis=0)  # [vocabulary]
        for _, row, logs in next_logs_under(network, documents, None, 2, intact, {}, BATCH_TOKENS)
    }
    return [
        np.argsort(-largest[row], kind="stable")[:count].astype(np.int64)
        for row in range(len(contexts))
    ]


def count_tokens(contexts: list[Context], candidates: int) -> int:
    """Tokens of the sequences that :func:`tables` runs under one condition."""
    return sum(candidates * (len(context.ids) + 2) for context in contexts)


def tables(
    network: Any,
    contexts: list[Context],
    candidates: list[Integers],
    conditions: Mapping[str, Condition],
    learned: dict[str, LearnedMask],
    progress: Any = None,
) -> Tables:
    """Joint log-probabilities of the candidates of each context at two places.

    One sequence per context and candidate ``a``: the beginning, ``a``, and the text's token after
    it, which comes between the places of the further pair.
    """
    from posenc.capture.next_tokens import next_logs_under

    count, names = len(candidates[0]), list(conditions)
    documents = [
        [*context.ids, a, context.following[1]]
        for context, own in zip(contexts, candidates, strict=True)
        for a in own.tolist()
    ]
    # The last one that is asked about is the token between.
    asked = [
        np.append(own, context.following[1])  # [candidates + 1]
        for context, own in zip(contexts, candidates, strict=True)
        for _ in range(count)
    ]
    logs = np.empty((len(contexts), len(names), count, 3, count + 1))
    for name, row, of_sequence in next_logs_under(
        network, documents, asked, 3, conditions, learned, BATCH_TOKENS, progress
    ):
        logs[row // count, names.index(name), row % count] = of_sequence
    # Each sequence's own candidate: [contexts, conditions, candidates].
    first = np.diagonal(logs[..., FIRST, :count], axis1=2, axis2=3)
    between = first + logs[..., SECOND, count]  # [contexts, conditions, candidates]
    near = first[..., None] + logs[..., SECOND, :count]
    far = between[..., None] + logs[..., THIRD, :count]
    return Tables(first, dict(zip(DISTANCES, (near, far), strict=True)))


def results(job: Job, own: Tables, other: Tables) -> tuple[list[UnderCondition], Distribution]:
    """Distributions of each condition, and of the control, all on the same resampled documents."""
    options, names = bootstrap(job.parameters), list(job.conditions)
    intact, count = names.index(INTACT), len(own.first)

    def means(values: Floats) -> PairedMeans:  # values [contexts, conditions + 1]
        return PairedMeans(values, np.ones(count), **options)

    def mean(paired: PairedMeans, column: int) -> Interval:
        return Interval.of(paired.of(lambda value: value, column))

    # [contexts, conditions + 1] each
    mass_first, mass = (
        means(np.concatenate(values, axis=1))
        for values in (
            [np.exp(table.first).sum(axis=-1) for table in (own, other)],
            [np.exp(table.pairs[1]).sum(axis=(-2, -1)) for table in (own, other)],
        )
    )
    pairs: list[list[Pairs]] = [[] for _ in (*names, "other")]
    for distance in DISTANCES:
        # [contexts, conditions + 1, candidates, candidates]
        logs = np.concatenate([own.pairs[distance], other.pairs[distance]], axis=1)
        reference = logs[:, [intact]]  # [contexts, 1, candidates, candidates]
        parts = {**order_of(logs), **likeness(logs, reference)}
        by_part = {part: means(values) for part, values in parts.items()}
        for column, of_column in enumerate(pairs):
            numbers: dict[str, Interval | None] = {
                part: mean(paired, column) for part, paired in by_part.items()
            }
            if column < len(names):
                numbers["recovered"] = recovered_loss(by_part["order_lost"], names, column)
            of_column.append(Pairs.model_validate({"distance": distance, **numbers}))
    conditions = [
        UnderCondition(
            condition=name,
            spec=dumped(job.conditions[name]),
            mass_first=mean(mass_first, column),
            mass=mean(mass, column),
            distances=pairs[column],
        )
        for column, name in enumerate(names)
    ]
    last = len(names)
    control = Distribution(
        mass_first=mean(mass_first, last), mass=mean(mass, last), distances=pairs[last]
    )
    return conditions, control


main = of_masks(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
