"""Tokenizers of one seed: the same model over each, in bits per byte of unseen text (D3).

Every tokenizer's model sees the same segments of the same documents in the same order, cut every
so many bytes of text: what differs is how a segment is told in tokens. Of a seed are the model's
first weights and the order of the segments; documents and tokenizers are the same for all seeds.
Validation documents choose the learning rate and the number of steps
(:mod:`posenc.experiments.tokenizers.choice`); test documents are coded once, with what was chosen.
"""

from __future__ import annotations

import functools
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError, sha256_file
from posenc.config.base import Section
from posenc.datasets.section import Evaluation
from posenc.experiments.frame import (
    TRAINING_SPLIT,
    Files,
    Job,
    Report,
    Trials,
    tested_split,
    trials_command,
)
from posenc.experiments.tokenizers.section import TokenizersTraining
from posenc.metrics.tokenizers import (
    change,
    code_length,
    fertility,
    merged_entries,
    sizes,
    uniform_nll,
)

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

    from posenc.experiments.tokenizers.choice import Choice
    from posenc.experiments.tokenizers.kinds import Tokens


class Unknown(TypedDict):
    """What a tokenizer does not know of the test documents."""

    tokens: float
    """Share of tokens that are unknown."""
    bytes: float
    """Share of bytes that they stand for."""


class Facts(TypedDict):
    """What does not depend on the seed; of the test documents unless said otherwise."""

    vocabulary: int
    merged_by_nfkc: int
    """Entries of the vocabulary that NFKC writes like another."""
    embedding_parameters: int
    body_parameters: int
    training: dict[str, int]
    """Sizes of the training documents."""
    test: dict[str, int]
    """Sizes."""
    changed: dict[str, float]
    """What the normalisation changes."""
    tokens: int
    fertility: dict[str, float]
    unknown: Unknown
    round_trip: float
    """Share of documents that are the same when their tokens are read back."""
    rebuilt: float
    """The same with unknown pieces spelled."""
    uniform_bits_per_byte: float
    """By a model that has learned nothing."""


class OfTokenizer(TypedDict):
    """A trial of a tokenizer and the model over it."""

    facts: Facts
    bits_per_byte: dict[str, float]
    """Of the test documents, over bytes of the text that is coded."""
    bits_per_original_byte: dict[str, float]
    """Over bytes of the text before it was normalised."""
    training_bytes: int
    """Bytes of text that were learned from, repetitions included."""
    choice: Choice


class Text(Section):
    """What is known of a data set's documents."""

    normalization: Literal["NFC", "NFKC", "none"]
    """That they have already."""
    evaluation: Evaluation
    """Its split and seed are read: tests are drawn by the seed, and so is what is trained on."""


class TokenizersJob(Job[TokenizersTraining]):
    """What the trials depend on."""

    texts: dict[str, Text]

    def inputs(self, files: Files) -> dict[str, str]:
        """SHA-256 of the documents of each data set."""
        return {name: sha256_file(path) for name, path in paths_of(self, files.documents).items()}

    def recorded(self) -> Mapping[str, Any]:
        """All of it."""
        return self.model_dump(mode="json")


def measure(job: TokenizersJob, files: Files, trials: Trials) -> None:
    """Train and test a model over each tokenizer with one seed."""
    from posenc.models.devices import device_for

    # The trainers' sums of floats are in the order of their threads.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    paths, device = paths_of(job, files.documents), device_for("auto")
    for variant in variants(job):
        corpus = functools.partial(read_corpus, job, paths, variant)
        kept = [
            Checkpoint(trials.partial / f"rate_{number}.pt", trials.identity([variant, rate]))
            for number, rate in enumerate(job.parameters.rates)
        ]
        trials.measure(
            variant,
            job.parameters.steps,
            lambda _, report, kind=variant["kind"], corpus=corpus, kept=kept: trial(
                corpus(), kind, job.parameters, trials.seed, kept, report, device
            ),
        )
        for checkpoint in kept:
            checkpoint.path.unlink(missing_ok=True)


def paths_of(job: TokenizersJob, documents: Sequence[Path]) -> dict[str, Path]:
    """Documents by data set, which is the file's stem.

    Raises
    ------
    ArtifactError
        If those of a data set are not given.
    """
    given = {path.stem: path for path in documents}
    for name in job.parameters.datasets:
        if name not in given or name not in job.texts:
            raise ArtifactError(
                f"experiments.tokenizers names the data set {name}, but the documents given are of "
                f"{', '.join(given)}: give data/documents/{name}.parquet"
            )
    return {name: given[name] for name in job.parameters.datasets}


def variants(job: TokenizersJob) -> Iterator[dict[str, str]]:
    """What is varied; text that is in form NFKC already is read as it is."""
    for name in job.parameters.datasets:
        is_nfkc = job.texts[name].normalization == "NFKC"
        for normalization in ["none"] if is_nfkc else job.parameters.normalizations:
            for kind in job.parameters.kinds:
                yield {"dataset": name, "normalization": normalization, "kind": kind}


@dataclass
class Corpus:
    """Texts of a data set in one normalisation; ``originals`` are the tests before it.

    No document is in two of the first three.
    """

    training: list[str]
    validation: list[str]
    test: list[str]
    originals: list[str]


def read_corpus(job: TokenizersJob, files: dict[str, Path], variant: dict[str, str]) -> Corpus:
    """Read and draw the texts of a variant.

    Raises
    ------
    ArtifactError
        If there are fewer documents than asked for, or tests would be trained on.
    """
    name, parameters = variant["dataset"], job.parameters
    evaluation = job.texts[name].evaluation
    test_split = tested_split(name, evaluation)
    learned = draw(
        files[name],
        TRAINING_SPLIT,
        {
            "training_documents": parameters.training_documents,
            "validation_documents": parameters.validation_documents,
        },
        evaluation.seed,
    )
    # The last of the order: its first were in view when settings were chosen before.
    originals = draw(
        files[name],
        test_split,
        {"test_documents": parameters.test_documents},
        evaluation.seed,
        is_last=True,
    )
    test, form, count = originals, variant["normalization"], parameters.training_documents
    if form != "none":
        learned = [unicodedata.normalize(form, text) for text in learned]
        test = [unicodedata.normalize(form, text) for text in originals]
    return Corpus(learned[:count], learned[count:], test, originals)


def draw(
    path: Path, split: str, asked: dict[str, int], seed: int, is_last: bool = False
) -> list[str]:
    """Texts of a split drawn without replacement, as many as the fields ask for together.

    They are the first or the last of an order that the seed determines.

    Raises
    ------
    ArtifactError
        If there are fewer.
    """
    from posenc.datasets.documents import read_documents

    texts = read_documents(path, split=split, columns=["text"])["text"].to_pylist()
    count = sum(asked.values())
    if count > len(texts):
        raise ArtifactError(
            f"experiments.tokenizers: {' and '.join(asked)} ask for {count} documents of {path}, "
            f"whose split {split!r} has {len(texts)}: lower them in params.yaml"
        )
    order = np.random.default_rng(seed).permutation(len(texts))  # [documents]
    return [texts[row] for row in (order[::-1] if is_last else order)[:count]]


def trial(
    corpus: Corpus,
    kind: str,
    parameters: TokenizersTraining,
    seed: int,
    kept: Sequence[Checkpoint],
    report: Report,
    device: str,
) -> OfTokenizer:
    """Train a tokenizer and a model over it, and code the tests with them."""
    from posenc.experiments.tokenizers.choice import choose
    from posenc.experiments.tokenizers.kinds import tokenize, train_tokenizer
    from posenc.experiments.tokenizers.network import bits_per_byte
    from posenc.models.training import batch_rows

    size, batch = parameters.context_bytes, parameters.optimization.batch
    tokenizer = train_tokenizer(kind, corpus.training, parameters.vocabulary_size)
    training = tokenize(tokenizer, corpus.training, size)
    validation = tokenize(tokenizer, corpus.validation, size)
    utf8_bytes = sizes(corpus.validation)["bytes"]
    chosen = choose(
        parameters, tokenizer.get_vocab_size(), training, validation, utf8_bytes, seed, kept,
        report, device,
    )  # fmt: skip
    seen = segment_bytes(corpus.training, size)  # [segments]
    rows = np.concatenate(
        [batch_rows(step, batch, len(seen), seed) for step in range(chosen.fitted.steps)]
    )  # [steps * batch]
    # Nothing is chosen any more.
    test = tokenize(tokenizer, corpus.test, size, decode=True)
    bits = bits_per_byte(chosen.network, test, sizes(corpus.test)["bytes"], device)
    share = sizes(corpus.test)["bytes"] / sizes(corpus.originals)["bytes"]
    return {
        "facts": facts(tokenizer, chosen.network, corpus, test),
        "bits_per_byte": bits,
        "bits_per_original_byte": {part: share * value for part, value in bits.items()},
        "training_bytes": int(seen[rows].sum()),
        "choice": chosen.as_json(),
    }


def segment_bytes(texts: Sequence[str], size: int) -> NDArray[np.int64]:
    """Bytes of each segment of the texts, [segments]."""
    totals = [len(text.encode()) for text in texts]
    return np.array([min(size, n - start) for n in totals for start in range(0, n, size)])


def facts(tokenizer: Tokenizer, network: torch.nn.Module, corpus: Corpus, test: Tokens) -> Facts:
    """What does not depend on the seed."""
    from posenc.experiments.tokenizers.kinds import whole_entries

    lengths, vocabulary = sizes(corpus.test), tokenizer.get_vocab_size()
    embeddings = network.get_input_embeddings().weight.numel()
    scored = sum(map(len, test.segments))
    return {
        "vocabulary": vocabulary,
        "merged_by_nfkc": merged_entries(whole_entries(tokenizer)),
        "embedding_parameters": embeddings,
        "body_parameters": sum(p.numel() for p in network.parameters()) - embeddings,
        "training": sizes(corpus.training),
        "test": lengths,
        "changed": change(corpus.originals, corpus.test),
        "tokens": test.count,
        "fertility": fertility(test.count, corpus.test),
        "unknown": {
            "tokens": len(test.unknown_bytes) / test.count,
            "bytes": sum(test.unknown_bytes) / lengths["bytes"],
        },
        "round_trip": test.exact / len(corpus.test),
        "rebuilt": test.rebuilt / len(corpus.test),
        "uniform_bits_per_byte": code_length(
            uniform_nll(scored, vocabulary), test.unknown_bytes, lengths["bytes"]
        )["total"],
    }


main = trials_command("tokenizers", TokenizersJob, measure, uses=("tokenizers", "transformers"))

if __name__ == "__main__":
    run(main)
