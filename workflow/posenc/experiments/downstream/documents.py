"""Documents that the classifiers of one seed learn from and are tested on (A6)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.files import ArtifactError, sha256_file, verify
from posenc.datasets.documents import read_documents
from posenc.experiments.downstream.section import DownstreamTraining
from posenc.experiments.frame import TRAINING_SPLIT, Files, LabelledJob, tested_split
from posenc.metrics.downstream import balanced_rows
from posenc.metrics.order_sensitivity import (
    excerpt,
    exchanged_neighbours,
    shuffled_words,
    token_words,
)
from posenc.models.files import model_digests
from posenc.models.section import Reading
from posenc.tokens.tokenize import tokenize

SPLITS = ("training", "validation", "test")
MOST_UNCHANGED = 0.02
"""Share of the documents to exchange neighbours in that may have none: their label is wrong."""
# One stream of draws each, so that a change to one leaves the others as they are.
_DRAW, _EXCHANGE, _SHUFFLE = range(3)


class DownstreamJob(LabelledJob[DownstreamTraining]):
    """What the trials of one model depend on, beside its files and the documents."""

    reading: Reading

    def inputs(self, files: Files) -> dict[str, str]:
        """SHA-256 of the documents, of the tokenizer and of the model's files."""
        return {
            "tokenizer": sha256_file(verify(files.tokenizer)),
            **super().inputs(files),
            **model_digests(files.weights),
        }

    def run(self, files: Files) -> dict[str, str]:
        """The model and the data set."""
        return {"model": files.model, **super().run(files)}


@dataclass(frozen=True)
class Texts:
    """The documents of one seed, the same for all positions, tasks and methods.

    Attributes
    ----------
    documents
        Token ids of all documents: training, validation, test.
    exchanged
        Those that the task word_swap exchanges neighbours in, with exchanged neighbours.
    shuffled
        The test documents with shuffled words.
    labels
        bool [documents] of each task; those of word_swap say which documents are exchanged.
    splits
        Where the documents of each split stand.
    """

    documents: list[NDArray[np.int64]]
    exchanged: list[NDArray[np.int64]]
    shuffled: list[NDArray[np.int64]]
    labels: dict[str, NDArray[np.bool_]]
    splits: dict[str, slice]

    @classmethod
    def draw(cls, job: DownstreamJob, seed: int, tokenizer: Path, path: Path) -> Texts:
        """Draw, cut and reorder the documents.

        Raises
        ------
        ArtifactError
            If there are too few labelled documents, or they cannot be reordered.
        """
        rows, labels = _drawn(job, seed, path)
        ids, words = _tokens(job, tokenizer, rows)
        parameters = job.parameters
        generator = np.random.default_rng([seed, _EXCHANGE])
        # A fair coin each: then right answers of a rule blind to order are binomial exactly.
        coins = generator.random(len(ids)) < 0.5  # [documents]
        chosen = np.flatnonzero(coins)
        exchanged = [
            ids[n][exchanged_neighbours(ids[n], words[n], parameters.swaps, generator)]
            for n in chosen
        ]
        same = sum(
            np.array_equal(ids[n], document) for n, document in zip(chosen, exchanged, strict=True)
        )
        if "word_swap" in parameters.tasks and same > MOST_UNCHANGED * len(chosen):
            raise ArtifactError(
                f"{path}: {same} of {len(chosen)} documents, cut to {parameters.max_tokens} "
                f"tokens, have no two different neighbouring words to exchange; raise max_tokens "
                f"of experiments.downstream in params.yaml"
            )
        generator = np.random.default_rng([seed, _SHUFFLE])
        ends = np.cumsum([getattr(parameters, f"{name}_documents") for name in SPLITS]).tolist()
        begins = [0, *ends[:-1]]
        splits = {n: slice(b, e) for n, b, e in zip(SPLITS, begins, ends, strict=True)}
        shuffled = [
            document[shuffled_words(groups, generator)]
            for document, groups in zip(ids[splits["test"]], words[splits["test"]], strict=True)
        ]
        return cls(ids, exchanged, shuffled, {"sentiment": labels, "word_swap": coins}, splits)

    @property
    def all(self) -> list[NDArray[np.int64]]:
        """Documents as they are, shuffled ones, exchanged ones."""
        return [*self.documents, *self.shuffled, *self.exchanged]

    def examples(self, task: str) -> dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]]:
        """Places among ``all`` and labels of each split, and of the shuffled test documents."""
        labels, before = self.labels[task], len(self.documents)
        places = np.arange(before)
        if task == "word_swap":
            places[labels] = before + len(self.shuffled) + np.arange(len(self.exchanged))
        examples = {name: (places[rows], labels[rows]) for name, rows in self.splits.items()}
        return {
            **examples,
            "shuffled": (before + np.arange(len(self.shuffled)), examples["test"][1]),
        }


def _drawn(job: DownstreamJob, seed: int, path: Path) -> tuple[list[str], NDArray[np.bool_]]:
    """Texts and labels of the documents: those of the training split, then those of the test."""
    parameters = job.parameters
    test_split = tested_split(parameters.dataset, job.evaluation)
    generator = np.random.default_rng([seed, _DRAW])
    texts: list[str] = []
    labels: list[NDArray[np.bool_]] = []
    for split, names in ((TRAINING_SPLIT, SPLITS[:2]), (test_split, SPLITS[2:])):
        table = read_documents(path, split=split, columns=["text", "label"])
        table = table.filter(table["label"].is_valid())
        known = sorted(table["label"].unique().to_pylist())
        if len(known) != 2:
            raise ArtifactError(
                f"{path}: documents of the split {split!r} have {len(known)} labels, not two; "
                f"experiments.downstream needs a data set with two"
            )
        label = np.array(table["label"].to_pylist()) == known[1]  # [documents of the split]
        sizes = {name: getattr(parameters, f"{name}_documents") for name in names}
        try:
            rows = balanced_rows(label, sizes, generator)
        except ValueError as error:
            keys = " or ".join(f"{name}_documents" for name in names)
            raise ArtifactError(
                f"{path}, split {split!r}: {error}; lower {keys} of experiments.downstream in "
                f"params.yaml"
            ) from None
        chosen = np.concatenate(list(rows.values()))
        texts += table["text"].take(chosen).to_pylist()
        labels.append(label[chosen])
    return texts, np.concatenate(labels)


def _tokens(
    job: DownstreamJob, tokenizer: Path, texts: list[str]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Token ids of each document, cut, and the word that each token belongs to."""
    from tokenizers import Tokenizer

    parameters, reading = job.parameters, job.reading
    if parameters.max_tokens > reading.max_tokens:
        raise ArtifactError(
            f"experiments.downstream: max_tokens {parameters.max_tokens} exceeds the model's "
            f"max_tokens {reading.max_tokens}; lower it in params.yaml"
        )
    read = Tokenizer.from_file(str(verify(tokenizer)))
    names = [str(number) for number in range(len(texts))]
    table = tokenize(read, names, texts, None, reading.is_decoder)
    ids, words = [], []
    columns = (table[name].to_pylist() for name in ("input_ids", "starts", "ends", "special"))
    for text, input_ids, starts, ends, special in zip(texts, *columns, strict=True):
        kept = excerpt(special, parameters.max_tokens, parameters.excerpt)
        ids.append(np.asarray(input_ids, np.int64)[kept])
        words.append(token_words(text, starts, ends, special)[kept])
    return ids, words
