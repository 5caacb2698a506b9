"""Does a mask restore order? Copying of repeated tokens, and the heads that do it (F1, F4).

A lower loss on text can have many causes. On random tokens that are repeated, only order tells
which comes next: a token is predicted by looking at the token after its earlier occurrence, which
takes a head that looks at the previous token first (:mod:`posenc.metrics.induction`). Knowing which
tokens a sequence has helps without any order; the control repeats them in another one. Heads are
chosen in the intact model on half of the sequences, and their attention is measured on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition, dumped
from posenc.measurements.declaration import INTACT
from posenc.measurements.frame import Resampling, bootstrap, not_run
from posenc.measurements.induction import result
from posenc.measurements.induction.declaration import MEASUREMENT, Induction
from posenc.measurements.under_conditions import ConditionsJob, of_masks, recovered_gain
from posenc.metrics.induction import (
    induction_scores,
    previous_scores,
    reordered,
    repeated,
    uniform_scores,
)
from posenc.metrics.recovery import PairedMeans
from posenc.tokens.tokenized import Tokens

Floats = NDArray[np.float64]
CHOOSING, MEASURED = slice(0, None, 2), slice(1, None, 2)
"""Sequences that choose heads, and those on which their attention is measured."""
REORDERED = slice(0, None, 3)
"""Sequences whose tokens occur again in another order as well: a third is enough for a control."""
BATCH = 8
"""Sequences of one forward pass."""


Job = ConditionsJob[Induction]


class Found(NamedTuple):
    """What one condition does to the sequences.

    Attributes
    ----------
    first, again
        float64 [sequences]: sum of the losses in nats of a sequence's tokens where they occur first
        and again, without the first token of either, which nothing announces.
    reordered
        float64 [sequences / 3]: the same where the tokens occur again in another order.
    previous, induction
        float64 [sequences, n_layers, n_heads]: attention to the previous token, and to the token
        after the earlier occurrence. None where there are no patterns.
    reason
        Why they are not.
    """

    first: Floats
    again: Floats
    reordered: Floats
    previous: Floats | None
    induction: Floats | None
    reason: str | None


def measure(
    job: Job, network: Any, text: Tokens, learned: dict[str, LearnedMask]
) -> result.Repetition | NotMeasured:
    """Make sequences of the tokens of a text, and run them under all conditions."""
    parameters = job.parameters
    tokens, begin = parameters.tokens, start(text)
    if not job.reading.is_decoder:
        return not_run("no language-model head", parameters)
    if len(begin) + 2 * tokens > job.reading.max_tokens:
        beside = f"{2 * tokens} beside its first" if begin else f"{2 * tokens}"
        reason = f"the model reads {job.reading.max_tokens} tokens, a sequence has {beside}"
        return not_run(reason, parameters)
    try:
        sequences = repeated(types(text), parameters.sequences, tokens, parameters.seed)
    except ValueError as error:
        return not_run(f"of the text, {error}", parameters)
    documents, others = (
        [[*begin, *ids] for ids in rows.tolist()]
        for rows in (sequences, reordered(sequences[REORDERED], parameters.seed))
    )
    by_condition = {
        name: under(network, documents, others, tokens, condition, learned)
        for name, condition in tqdm(job.conditions.items(), unit="condition", desc="induction")
    }
    intact = by_condition[INTACT]
    assert intact.previous is not None and intact.induction is not None, "no mask, so patterns"
    heads = result.Heads(
        previous=strongest(intact.previous[CHOOSING], parameters.heads),
        induction=strongest(intact.induction[CHOOSING], parameters.heads),
    )
    previous, induction = uniform_scores(len(documents[0]), tokens)
    return result.Repetition(
        documents=len(documents),
        tokens=len(documents) * len(documents[0]),
        confidence=parameters.confidence,
        period=tokens,
        heads=heads,
        uniform=result.Uniform(previous=previous, induction=induction),
        conditions=results(job, by_condition, heads),
    )


def start(text: Tokens) -> list[int]:
    """What each document of a text begins with: the end-of-text token, or nothing."""
    return text.ids[0][:1] if text.metadata["bos"] else []


def types(text: Tokens) -> NDArray[np.int64]:  # [types]
    """Tokens that occur in a text, without those that the tokenizer adds."""
    ids = np.concatenate([np.asarray(ids, np.int64) for ids in text.ids])  # [tokens]
    special = np.concatenate(
        [np.asarray(flags, bool) for flags in text.table["special"].to_pylist()]
    )
    return np.unique(ids[~special])


def under(
    network: Any,
    documents: list[list[int]],
    others: list[list[int]],
    period: int,
    condition: Condition,
    learned: dict[str, LearnedMask],
) -> Found:
    """Losses and attention of the sequences under a condition; of the others, losses alone."""
    import torch

    from posenc.capture.capture import document_losses
    from posenc.capture.evaluation import states_under
    from posenc.capture.patterns import patterns_under, problem

    reason = problem(condition)

    def scores(pattern: Any) -> NDArray:  # [batch, n_heads, tokens, tokens]
        pattern = pattern.numpy()
        both = previous_scores(pattern), induction_scores(pattern, period)
        return np.stack(both, axis=-1)  # [batch, n_heads, 2]

    losses, looked = [], []
    for place in range(0, len(documents) + len(others), BATCH):
        batch = [*documents, *others][place : place + BATCH]
        if reason is None:
            last, layers = patterns_under(network, batch, condition, learned, scores)
            looked.append(np.stack(layers, axis=1))  # [batch, n_layers, n_heads, 2]
        else:
            (states,) = states_under(network, batch, [condition], learned)
            last = states[-1]  # [batch * tokens, d_model]
        with torch.inference_mode():
            losses += document_losses(network, last.reshape(-1, last.shape[-1]), batch)
    nll = np.array(losses, np.float64)[:, -2 * period + 1 :]  # [rows, 2 * period - 1]
    again, other = np.split(nll[:, period:].sum(axis=1), [len(documents)])  # [sequences], [others]
    previous = induction = None
    if looked:
        previous, induction = np.moveaxis(np.concatenate(looked)[: len(documents)], -1, 0)
    first = nll[: len(documents), : period - 1].sum(axis=1)  # [sequences]
    return Found(first, again, other, previous, induction, reason)


def strongest(scores: Floats, count: int) -> list[result.Head]:
    """The heads with the highest mean score of some sequences [sequences, n_layers, n_heads]."""
    mean = scores.mean(axis=0)  # [n_layers, n_heads]
    order = np.argsort(-mean, axis=None, kind="stable")[:count]  # [count]
    return [
        result.Head(layer=int(layer), head=int(head), score=float(mean[layer, head]))
        for layer, head in zip(*np.unravel_index(order, mean.shape), strict=True)
    ]


def results(job: Job, by_condition: dict[str, Found], heads: result.Heads) -> list[result.Copying]:
    """What each condition does, all on the same resampled sequences."""
    options, names = bootstrap(job.parameters), list(by_condition)
    first, again, other = (
        np.stack([getattr(of_condition, part) for of_condition in by_condition.values()], axis=1)
        for part in ("first", "again", "reordered")
    )  # [sequences, conditions] each; a third of them of the last
    tokens = np.full(len(first), job.parameters.tokens - 1)  # [sequences]
    # The gain is a loss with its sign turned.
    sums = {"first": first, "again": again, "gain": again - first}
    sums["reordered"] = other - first[REORDERED]
    means = {
        part: PairedMeans(values, tokens[: len(values)], **options) for part, values in sums.items()
    }

    def mean(part: str, column: int, of: Callable[[Floats], Floats] = lambda own: own) -> Interval:
        return Interval.of(means[part].of(of, column))

    return [
        result.Copying(
            condition=name,
            spec=dumped(job.conditions[name]),
            first=mean("first", column),
            again=mean("again", column),
            gain=mean("gain", column, np.negative),
            reordered=mean("reordered", column, np.negative),
            recovered=recovered_gain(means["gain"], names, column),
            previous=attention_of(of_condition.previous, heads.previous, options),
            induction=attention_of(of_condition.induction, heads.induction, options),
            reason=of_condition.reason,
        )
        for column, (name, of_condition) in enumerate(by_condition.items())
    ]


def attention_of(
    scores: Floats | None, heads: list[result.Head], options: Resampling
) -> Interval | None:
    """Mean score of some heads, of scores [sequences, n_layers, n_heads]."""
    if scores is None:
        return None
    layers, numbers = [head.layer for head in heads], [head.head for head in heads]
    own = scores[MEASURED][:, layers, numbers].mean(axis=1)  # [sequences]
    mean = PairedMeans(own[:, None], np.ones(len(own)), **options)
    return Interval.of(mean.of(lambda value: value, 0))


main = of_masks(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
