"""Attention scores of one sentence, of every head, with positions and without (C6).

They are for illustration: the report page turns them, and the scores without positions plus a mask,
into patterns. One sentence proves nothing, so nothing here has an interval.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.conditions.section import Condition
from posenc.measurements.of_models import Job
from posenc.measurements.of_sentences import CONDITIONS, of_sentences
from posenc.measurements.sample_scores.declaration import MEASUREMENT, SampleScores
from posenc.measurements.sample_scores.result import Scores, Sentence

DECIMALS = 2
"""Of a score in nats: its weight in the pattern is then right to a hundredth, whatever the size
of the score."""


def measure(job: Job[SampleScores], network: Any, tokenizer: Any) -> Sentence:
    """Run the sentence once under each condition."""
    parameters, reading = job.parameters, job.reading
    longest = min(parameters.tokens, reading.max_tokens)
    ids, pieces = tokens_of(tokenizer, parameters.sentence, longest, reading.is_decoder)
    conditions = []
    for name, spec in CONDITIONS.items():
        layers = scores_under(network, ids, Condition.model_validate(spec))
        packed = [[written(head, reading.is_decoder) for head in layer] for layer in layers]
        conditions.append(Scores(condition=name, layers=packed))
    return Sentence(
        documents=1,
        tokens=len(ids),
        is_causal=reading.is_decoder,
        n_layers=len(layers),
        n_heads=len(layers[0]),
        pieces=pieces,
        conditions=conditions,
    )


def tokens_of(
    tokenizer: Any, sentence: str, longest: int, is_decoder: bool
) -> tuple[list[int], list[str]]:
    """Tokens of the sentence as those of a document, and what each covers of its text.

    A token that the tokenizer adds goes by its name in the vocabulary.
    """
    from posenc.tokens.tokenize import tokenize

    (row,) = tokenize(tokenizer, ["0"], [sentence], longest, is_decoder).to_pylist()
    ids = row["input_ids"]
    spans = zip(ids, row["starts"], row["ends"], strict=True)
    return ids, [sentence[start:end].strip() or tokenizer.id_to_token(n) for n, start, end in spans]


def scores_under(
    network: Any, ids: list[int], condition: Condition
) -> list[NDArray[np.float32]]:  # [n_heads, tokens, tokens] of each layer
    """Scaled scores before mask and softmax, of queries and keys that the library computes."""
    from posenc.capture.capture import forward
    from posenc.capture.content import scores_of
    from posenc.capture.interventions import applied

    with applied(network, condition):
        _, recorded = forward(network, [ids])
    return [
        scores_of(query, recorded.keys[layer], recorded.options[layer].scaling)[0].numpy()
        for layer, query in sorted(recorded.queries.items())
    ]


def written(scores: NDArray[np.float32], causal: bool) -> str:
    """Scores [tokens, tokens] of one head as text: query by query, the keys that each sees."""
    tokens = len(scores)
    seen = np.tri(tokens, dtype=bool) if causal else np.ones((tokens, tokens), bool)
    return " ".join(f"{score:.{DECIMALS}f}" for score in scores[seen].tolist())


main = of_sentences(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
