"""Perplexity of models without a network on the same tokens: uniform, unigram, Kneser-Ney (D2)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import read_json, sha256_file, verify
from posenc.artifacts.tables import read_table
from posenc.measurements.frame import Config, Output, bootstrap, not_run, seal
from posenc.measurements.of_models import CellsJob, Model, TokensFolder, WeightsFolder, cells
from posenc.measurements.reference.declaration import MEASUREMENT, Reference
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
    levels = learned(corpus, vocabulary, job.parameters.orders) if corpus else {}
    learned_from = sha256_file(corpus) if corpus else None
    for path, of, text in cells(model, job.datasets, tokens, output):
        measured = measure(job, vocabulary, levels, text)
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
    job: CellsJob[Reference], vocabulary: int, levels: dict, text: Tokens
) -> dict[str, Any]:
    """Perplexity of each level, or why there is none."""
    if not job.reading.is_decoder:
        return {**not_run("no language-model head", job.parameters), "levels": []}
    options = bootstrap(job.parameters)
    scored = text.lengths - 1  # [documents]
    document = np.repeat(np.arange(len(scored)), scored)  # [scored tokens]
    utf8 = text.table["bytes"].to_numpy()  # [documents]
    nll = {"uniform": np.full(int(scored.sum()), uniform_nll(vocabulary))}
    flat = np.concatenate([np.asarray(ids) for ids in text.ids])  # [all tokens]
    for name, level in levels.items():
        nll[name] = level.token_nll(flat, text.lengths)  # [scored tokens]
    rows = []
    for name, losses in nll.items():
        sums = np.bincount(document, losses, minlength=len(scored))  # [documents]
        rows.append(
            {
                "level": name,
                "perplexity": corpus_perplexity(sums, scored, **options).as_json(),
                "nll_per_token": nll_per_token(sums, scored, **options).as_json(),
                "bits_per_byte": bits_per_byte(sums, utf8, **options).as_json(),
            }
        )
    return {
        "reason": None if levels else "what the model learned from is not here: uniform only",
        "documents": len(scored),
        "tokens": int(scored.sum()),
        "confidence": job.parameters.confidence,
        "vocabulary_size": vocabulary,
        "levels": rows,
    }


if __name__ == "__main__":
    run(main)
