"""Perplexity of models without a network on the same tokens: uniform, unigram, Kneser-Ney (D2)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import read_json, sha256_file, verify
from posenc.artifacts.results import Interval
from posenc.artifacts.tables import read_table
from posenc.measurements.frame import Config, Output, bootstrap, seal
from posenc.measurements.of_models import CellsJob, Model, TokensFolder, WeightsFolder, cells
from posenc.measurements.reference.declaration import MEASUREMENT, Reference
from posenc.measurements.reference.result import Level, NoLevels, ReferenceLevels
from posenc.metrics.ngram import KneserNey, Unigram, uniform_nll
from posenc.metrics.perplexity import bits_per_byte, corpus_perplexity, nll_per_token
from posenc.models.files import CONFIG
from posenc.tokens.tokenized import Tokens

NAMES = {1: "unigram", 2: "Kneser-Ney bigram", 3: "Kneser-Ney trigram"}


def main(
    model: Model, config: Config, weights: WeightsFolder, tokens: TokensFolder, output: Output,
    corpus: Annotated[Path | None, typer.Option(help="what the model learned from")] = None,
) -> None:  # fmt: skip
    """Write OUTPUT/DATASET.json for each data set."""
    job = read_section(config, CellsJob[Reference])
    vocabulary = read_json(verify(weights / CONFIG))["vocab_size"]
    models = learned(corpus, vocabulary, job.parameters.orders) if corpus else {}
    learned_from = sha256_file(corpus) if corpus else None
    for path, of, text in cells(model, job.datasets, tokens, output):
        measured = measure(job, vocabulary, models, text)
        inputs = {"tokens": text.digest, "corpus": learned_from}
        seal(path, MEASUREMENT, of, measured, job.parameters, inputs)


def learned(corpus: Path, vocabulary: int, orders: list[int]) -> dict[str, Unigram | KneserNey]:
    """Models by name, from the documents that the decoder learned from, without held-out ones."""
    table, _ = read_table(corpus)
    table = table.filter(~table["held_out"].to_numpy())
    documents = table["input_ids"].combine_chunks()
    tokens = documents.flatten().to_numpy()  # [all tokens]
    lengths = np.diff(documents.offsets.to_numpy())  # [documents]
    models: dict[str, Unigram | KneserNey] = {NAMES[1]: Unigram(tokens, lengths, vocabulary)}
    for order in orders:
        models[NAMES[order]] = KneserNey(tokens, lengths, vocabulary, order)
    return models


def measure(
    job: CellsJob[Reference],
    vocabulary: int,
    models: dict[str, Unigram | KneserNey],
    text: Tokens,
) -> ReferenceLevels | NoLevels:
    """Perplexity of each level, or why there is none."""
    confidence = job.parameters.confidence
    if not job.reading.is_decoder:
        return NoLevels(reason="no language-model head", confidence=confidence)
    options = bootstrap(job.parameters)
    scored = text.lengths - 1  # [documents]
    document = np.repeat(np.arange(len(scored)), scored)  # [scored tokens]
    utf8 = text.table["bytes"].to_numpy()  # [documents]
    nll = {"uniform": np.full(int(scored.sum()), uniform_nll(vocabulary))}
    flat = np.concatenate([np.asarray(ids) for ids in text.ids])  # [all tokens]
    for name, model in models.items():
        nll[name] = model.token_nll(flat, text.lengths)  # [scored tokens]
    levels = []
    for name, losses in nll.items():
        sums = np.bincount(document, losses, minlength=len(scored))  # [documents]
        levels.append(
            Level(
                level=name,
                perplexity=Interval.of(corpus_perplexity(sums, scored, **options)),
                nll_per_token=Interval.of(nll_per_token(sums, scored, **options)),
                bits_per_byte=Interval.of(bits_per_byte(sums, utf8, **options)),
            )
        )
    return ReferenceLevels(
        reason=None if models else "what the model learned from is not here: uniform only",
        documents=len(scored),
        tokens=int(scored.sum()),
        confidence=confidence,
        vocabulary_size=vocabulary,
        levels=levels,
    )


if __name__ == "__main__":
    run(main)
