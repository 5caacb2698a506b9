"""Does a sentence's vector know who did what to whom? Names exchanged against a paraphrase (A1).

A sentence and the same with its two names exchanged hold the same words: an encoder without
positions gives both exactly one vector, which is the control. How far positions part them is
compared with a paraphrase, which should be nearer, and an unrelated sentence, which should not.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.conditions.section import Condition
from posenc.datasets.generated.roles import Roles, sentences
from posenc.measurements.exchanged_roles.declaration import MEASUREMENT, ExchangedRoles
from posenc.measurements.frame import bootstrap, not_run
from posenc.measurements.of_models import Job
from posenc.measurements.of_sentences import CONDITIONS, of_sentences
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.similarity import token_cosines

Floats = NDArray[np.float64]
KINDS = ("exchanged", "paraphrase", "unrelated")
"""What a sentence is compared with."""


def measure(job: Job[ExchangedRoles], network: Any, tokenizer: Any) -> dict[str, Any]:
    """Compare sentences of each language under each condition.

    A pair is left out, and counted, if its two sentences are not the same tokens in another order:
    the tokenizer does not know the names, or cuts words elsewhere, or a sentence is too long.
    """
    parameters, read = job.parameters, 0
    entries: list[dict[str, Any]] = []
    for language in parameters.languages:
        roles = sentences(language, parameters.sentences, parameters.seed)
        ids = {kind: encoded(job, tokenizer, roles, kind) for kind in Roles._fields}
        kept = [
            place
            for place, pair in enumerate(zip(ids["text"], ids["exchanged"], strict=True))
            if pair[0] != pair[1] and sorted(pair[0]) == sorted(pair[1])
        ]
        result = {"language": language, "pairs": len(kept), "left_out": len(roles) - len(kept)}
        if len(kept) < 2:
            reason = "no sentence with its names exchanged is the same tokens in another order"
            entries.append({**result, "status": "not run", "reason": reason, "conditions": []})
            continue
        chosen = {kind: [ids[kind][place] for place in kept] for kind in ids}
        read += sum(map(len, chosen["text"]))
        conditions = [
            {"condition": name, **similarities(parameters, network, chosen, spec)}
            for name, spec in CONDITIONS.items()
        ]
        entries.append({**result, "status": "measured", "reason": None, "conditions": conditions})
    if not read:
        return not_run("the tokenizer keeps the names of no language apart", parameters)
    return {
        "documents": sum(entry["pairs"] for entry in entries),
        "tokens": read,
        "confidence": parameters.confidence,
        "languages": entries,
    }


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
    parameters: ExchangedRoles, network: Any, ids: dict[str, list[list[int]]], spec: dict[str, str]
) -> dict[str, Any]:
    """Cosines of a sentence's vector with the others', means over sentences with intervals."""
    condition = Condition.model_validate(spec)
    vectors = {kind: vectors_of(network, texts, condition) for kind, texts in ids.items()}
    cosines = np.stack([token_cosines(vectors["text"], vectors[kind]) for kind in KINDS], axis=1)
    estimates = ratio_bootstrap(cosines, np.ones(len(cosines)), **bootstrap(parameters))
    means = cast("list[dict[str, float]]", estimates.as_json())
    # How many exchanged sentences are nearer than the paraphrase.
    nearer = np.mean(cosines[:, 0] > cosines[:, 1])
    return {**dict(zip(KINDS, means, strict=True)), "nearer": float(nearer)}


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
