"""Does a sentence's vector know who did what to whom? Names exchanged against a paraphrase (A1).

A sentence and the same with its two names exchanged hold the same words: an encoder without
positions gives both exactly one vector, which is the control. How far positions part them is
compared with a paraphrase, which should be nearer, and an unrelated sentence, which should not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.section import Condition
from posenc.datasets.generated.roles import Roles, sentences
from posenc.measurements.exchanged_roles.declaration import MEASUREMENT, ExchangedRoles
from posenc.measurements.exchanged_roles.result import Comparisons, Cosines, Language
from posenc.measurements.frame import bootstrap, not_run
from posenc.measurements.of_models import Job
from posenc.measurements.of_sentences import CONDITIONS, of_sentences
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.similarity import token_cosines

Floats = NDArray[np.float64]
KINDS = ("exchanged", "paraphrase", "unrelated")
"""What a sentence is compared with."""


def measure(job: Job[ExchangedRoles], network: Any, tokenizer: Any) -> Comparisons | NotMeasured:
    """Compare sentences of each language under each condition.

    A pair is left out, and counted, if its two sentences are not the same tokens in another order:
    the tokenizer does not know the names, or cuts words elsewhere, or a sentence is too long.
    """
    parameters, read = job.parameters, 0
    languages: list[Language] = []
    for language in parameters.languages:
        roles = sentences(language, parameters.sentences, parameters.seed)
        ids = {kind: encoded(job, tokenizer, roles, kind) for kind in Roles._fields}
        kept = [
            place
            for place, pair in enumerate(zip(ids["text"], ids["exchanged"], strict=True))
            if pair[0] != pair[1] and sorted(pair[0]) == sorted(pair[1])
        ]
        conditions, reason = [], None
        if len(kept) < 2:
            reason = "no sentence with its names exchanged is the same tokens in another order"
        else:
            chosen = {kind: [ids[kind][place] for place in kept] for kind in ids}
            read += sum(map(len, chosen["text"]))
            conditions = [
                similarities(parameters, network, chosen, name, spec)
                for name, spec in CONDITIONS.items()
            ]
        languages.append(
            Language(
                language=language,
                pairs=len(kept),
                left_out=len(roles) - len(kept),
                status="not run" if reason else "measured",
                reason=reason,
                conditions=conditions,
            )
        )
    if not read:
        return not_run("the tokenizer keeps the names of no language apart", parameters)
    return Comparisons(
        documents=sum(of_language.pairs for of_language in languages),
        tokens=read,
        confidence=parameters.confidence,
        languages=languages,
    )


def encoded(
    job: Job[ExchangedRoles], tokenizer: Any, roles: list[Roles], kind: str
) -> list[list[int]]:
    """Tokens of one kind of sentence, made as those of documents."""
    from posenc.tokens.tokenize import tokenize

    texts = [getattr(sentence, kind) for sentence in roles]
    reading = job.reading
    table = tokenize(
        tokenizer, [str(n) for n in range(len(texts))], texts, reading.max_tokens,
        reading.is_decoder,
    )  # fmt: skip
    return table["input_ids"].to_pylist()


def similarities(
    parameters: ExchangedRoles,
    network: Any,
    ids: dict[str, list[list[int]]],
    name: str,
    spec: dict[str, str],
) -> Cosines:
    """Cosines of a sentence's vector with the others', means over sentences with intervals."""
    condition = Condition.model_validate(spec)
    vectors = {kind: vectors_of(network, texts, condition) for kind, texts in ids.items()}
    # [sentences, kinds]
    cosines = np.stack([token_cosines(vectors["text"], vectors[kind]) for kind in KINDS], axis=1)
    estimates = ratio_bootstrap(cosines, np.ones(len(cosines)), **bootstrap(parameters))
    exchanged, paraphrase, unrelated = Interval.each(estimates)
    return Cosines(
        condition=name,
        exchanged=exchanged,
        paraphrase=paraphrase,
        unrelated=unrelated,
        # How many exchanged sentences are nearer than the paraphrase.
        nearer=float(np.mean(cosines[:, 0] > cosines[:, 1])),
    )


def vectors_of(network: Any, texts: list[list[int]], condition: Condition) -> Floats:
    """Mean of the last hidden states of each sentence's tokens, [sentences, d_model]."""
    import torch

    from posenc.capture.capture import packed_last
    from posenc.capture.interventions import applied

    with torch.inference_mode(), applied(network, condition):
        last = packed_last(network, texts)[0].double()  # [tokens, d_model]
        parts = last.split([len(ids) for ids in texts])
        return torch.stack([part.mean(dim=0) for part in parts]).numpy()


main = of_sentences(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
