"""Perplexity of a decoder under a condition, and its change against the intact model (D1)."""

from __future__ import annotations

import numpy as np

from posenc.artifacts.activations import LOSSES, ActivationStore
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.artifacts.losses import Losses
from posenc.artifacts.results import Interval, NotMeasured
from posenc.measurements.frame import bootstrap, command, not_run
from posenc.measurements.perplexity.declaration import MEASUREMENT, Perplexity
from posenc.measurements.perplexity.result import CorpusPerplexity, OfSequences
from posenc.metrics.perplexity import (
    bits_per_byte,
    corpus_perplexity,
    delta_nll,
    nll_per_token,
    perplexity_ratio,
    sequence_perplexity,
    share_worse_than_uniform,
)


def measure(
    parameters: Perplexity, intact: ActivationStore, condition: ActivationStore
) -> CorpusPerplexity | NotMeasured:
    """Compute the measurement; for an encoder, say why there is none."""
    metadata = condition.metadata
    if not metadata["is_decoder"]:
        return not_run(f"{metadata['run']['model']} has no language-model head", parameters)
    ours, theirs = Losses(condition.losses()), Losses(intact.losses())
    if not (
        ours.document_id.equals(theirs.document_id)
        and np.array_equal(ours.tokens, theirs.tokens)
        and np.array_equal(ours.utf8_bytes, theirs.utf8_bytes)
    ):
        raise ArtifactError(
            f"{intact.directory} and {condition.directory} scored different tokens; rerun both"
        )
    tokens = ours.tokens  # [documents]
    options = bootstrap(parameters)
    vocabulary_size = metadata["vocabulary_size"]
    return CorpusPerplexity(
        documents=len(tokens),
        tokens=int(tokens.sum()),
        confidence=parameters.confidence,
        vocabulary_size=vocabulary_size,
        bos=metadata["bos"],
        bytes=int(ours.utf8_bytes.sum()),
        perplexity=Interval.of(corpus_perplexity(ours.nll, tokens, **options)),
        bits_per_byte=Interval.of(bits_per_byte(ours.nll, ours.utf8_bytes, **options)),
        nll_per_token=Interval.of(nll_per_token(ours.nll, tokens, **options)),
        worse_than_uniform=Interval.of(
            share_worse_than_uniform(ours.token_nll, tokens, vocabulary_size, **options)
        ),
        delta_nll=Interval.of(delta_nll(ours.nll, theirs.nll, tokens, **options)),
        perplexity_ratio=Interval.of(perplexity_ratio(ours.nll, theirs.nll, tokens, **options)),
        sequence_perplexity=OfSequences.model_validate(sequence_perplexity(ours.nll, tokens)),
    )


main = command(MEASUREMENT, measure, {LOSSES})

if __name__ == "__main__":
    run(main)
