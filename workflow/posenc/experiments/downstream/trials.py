"""Train classifiers of one seed on a pretrained model with and without position embeddings (A6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError, sha256_file, verify
from posenc.conditions.section import Condition
from posenc.datasets.documents import read_documents
from posenc.experiments.downstream.section import DownstreamTraining
from posenc.experiments.frame import (
    TRAINING_SPLIT,
    Files,
    LabelledJob,
    Report,
    Trials,
    Work,
    tested_split,
    trials_command,
)
from posenc.metrics.downstream import BagOfWords, Frozen, balanced_rows, relative_changes
from posenc.metrics.order_sensitivity import (
    changed_predictions,
    excerpt,
    exchanged_neighbours,
    shuffled_words,
    token_words,
)
from posenc.models.devices import device_for
from posenc.models.files import model_digests
from posenc.models.section import Reading
from posenc.tokens.tokenize import tokenize

if TYPE_CHECKING:
    from torch import Tensor, nn

    from posenc.experiments.downstream.network import Classifier

POSITIONS = ("intact", "zero")
NO_ORDER = "none"
"""In place of positions, of what reads the words of a document in no order."""
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


def measure(job: DownstreamJob, files: Files, trials: Trials) -> None:
    """Train and test all classifiers of one seed."""
    texts = Texts.draw(job, trials.seed, files.tokenizer, files.documents[0])
    for task in job.parameters.tasks:
        variant = {"task": task, "positions": NO_ORDER, "method": "bag_of_words"}
        trials.measure(variant, 1, bag_of_words(texts, task))
    for positions in POSITIONS:
        subject = Subject(job, trials.seed, files.weights, texts, positions)
        for task in job.parameters.tasks:
            variant = {"task": task, "positions": positions}
            steps = job.parameters.optimization.steps
            trials.measure({**variant, "method": "frozen"}, 1, subject.frozen(task))
            trials.measure({**variant, "method": "fine_tuned"}, steps, subject.fine_tuned(task))


def bag_of_words(texts: Texts, task: str) -> Work:
    """The trial of a classifier that sees which tokens a document has, and not their order."""

    def work(checkpoint: Checkpoint, report: Report) -> dict[str, Any]:
        examples = texts.of_task(task)
        fitted = BagOfWords.fit(*examples["training"], *examples["validation"])
        report(1, fitted.validation_loss)
        return {
            "inverse_penalty": fitted.inverse_penalty,
            "validation_loss": fitted.validation_loss,
            **_outcome(examples, fitted.predict),
        }

    return work


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
        same = sum(np.array_equal(ids[n], one) for n, one in zip(chosen, exchanged, strict=True))
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
            one[shuffled_words(groups, generator)]
            for one, groups in zip(ids[splits["test"]], words[splits["test"]], strict=True)
        ]
        return cls(ids, exchanged, shuffled, {"sentiment": labels, "word_swap": coins}, splits)

    def of_task(self, task: str) -> dict[str, tuple[list[NDArray[np.int64]], NDArray[np.bool_]]]:
        """Token ids and labels of each split, and the shuffled test documents."""
        labels, documents = self.labels[task], list(self.documents)
        if task == "word_swap":
            for place, one in zip(np.flatnonzero(labels), self.exchanged, strict=True):
                documents[place] = one
        found = {name: (documents[rows], labels[rows]) for name, rows in self.splits.items()}
        return {**found, "shuffled": (self.shuffled, found["test"][1])}


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
    for text, one, starts, ends, special in zip(texts, *columns, strict=True):
        kept = excerpt(special, parameters.max_tokens, parameters.excerpt)
        ids.append(np.asarray(one, np.int64)[kept])
        words.append(token_words(text, starts, ends, special)[kept])
    return ids, words


@dataclass
class Encoded:
    """What the pretrained model makes of documents before any training.

    Attributes
    ----------
    pooled
        float32 [documents, d_model]: means of the last hidden states.
    inputs
        What the trained part takes: token ids, or hidden states below the trained layers.
    """

    pooled: NDArray[np.float32]
    inputs: list[Tensor]

    def replaced(self, mask: NDArray[np.bool_], others: Encoded) -> Encoded:
        """With others in the places of a mask [documents], which are as many."""
        pooled, inputs = self.pooled.copy(), list(self.inputs)
        pooled[mask] = others.pooled
        for place, one in zip(np.flatnonzero(mask), others.inputs, strict=True):
            inputs[place] = one
        return Encoded(pooled, inputs)


class Subject:
    """A pretrained model under a condition, and the classifiers that are trained on it.

    Parameters
    ----------
    job, seed, weights
        What the trials depend on, their seed, and the folder of the model.
    texts
        Documents of the seed.
    positions
        What its position embeddings become, before and during training.
    """

    def __init__(
        self, job: DownstreamJob, seed: int, weights: Path, texts: Texts, positions: str
    ) -> None:
        self.parameters, self.reading, self.seed = job.parameters, job.reading, seed
        self.texts, self.weights = texts, weights
        self.condition = Condition(position=positions)
        self.device = device_for(job.device)

    def load(self) -> nn.Module:
        """The model with its pretrained weights."""
        from posenc.models.affine import ready
        from posenc.models.load import load

        return ready(load(self.weights, self.reading.family, self.device))

    @cached_property
    def encoded(self) -> dict[str, Encoded]:
        """All documents: as they are, exchanged where a task needs them, shuffled.

        Raises
        ------
        ArtifactError
            If the model has fewer layers than are to be trained.
        """
        from posenc.capture.interventions import applied
        from posenc.experiments.downstream.network import encode

        # Made in the same batches each time, whatever trials are done: rounding depends on them.
        kinds = {"documents": self.texts.documents, "shuffled": self.texts.shuffled}
        if "word_swap" in self.parameters.tasks:
            kinds["exchanged"] = self.texts.exchanged
        model, kept = self.load(), self.parameters.trained_layers
        try:
            with applied(model, self.condition):
                return {name: Encoded(*encode(model, ids, kept)) for name, ids in kinds.items()}
        except ValueError as error:
            raise ArtifactError(
                f"experiments.downstream: {error}; lower it in params.yaml"
            ) from None

    def examples(self, task: str) -> dict[str, tuple[Encoded, NDArray[np.bool_]]]:
        """Documents and labels of each split, and the shuffled test documents."""
        labels, encoded = self.texts.labels[task], self.encoded
        documents = encoded["documents"]
        if task == "word_swap":
            documents = documents.replaced(labels, encoded["exchanged"])
        found = {
            name: (Encoded(documents.pooled[rows], documents.inputs[rows]), labels[rows])
            for name, rows in self.texts.splits.items()
        }
        return {**found, "shuffled": (encoded["shuffled"], found["test"][1])}

    def frozen(self, task: str) -> Work:
        """The trial of a logistic regression on pooled features."""

        def work(checkpoint: Checkpoint, report: Report) -> dict[str, Any]:
            examples = self.examples(task)
            pooled = {name: (one.pooled, labels) for name, (one, labels) in examples.items()}
            fitted = Frozen.fit(*pooled["training"], *pooled["validation"])
            report(1, fitted.validation_loss)
            return {
                "inverse_penalty": fitted.inverse_penalty,
                "validation_loss": fitted.validation_loss,
                **_outcome(examples, lambda one: fitted.predict(one.pooled)),
                "pooled_change": relative_changes(pooled["test"][0], pooled["shuffled"][0]),
            }

        return work

    def fine_tuned(self, task: str) -> Work:
        """The trial of a linear head and the layers below it."""

        def work(checkpoint: Checkpoint, report: Report) -> dict[str, Any]:
            from posenc.capture.interventions import applied
            from posenc.experiments.downstream.network import Classifier, Encoder, freeze_positions

            examples, model = self.examples(task), self.load()
            with applied(model, self.condition):
                if self.condition.position != "intact":
                    freeze_positions(model)
                encoder = Encoder(model, self.parameters.trained_layers)
                network = Classifier(encoder, model.config.hidden_size, self.seed)
                network.to(self.device)
                return self._tuned(network, model, examples, checkpoint, report)

        return work

    def _tuned(
        self,
        network: Classifier,
        model: nn.Module,
        examples: dict[str, tuple[Encoded, NDArray[np.bool_]]],
        checkpoint: Checkpoint,
        report: Report,
    ) -> dict[str, Any]:
        import torch

        from posenc.experiments.downstream.network import fine_tune, logits, padding_token

        filler, parts = padding_token(model), ("training", "validation")
        training, validation = ((examples[p][0].inputs, examples[p][1]) for p in parts)
        fitted = fine_tune(
            network, training, validation, filler, self.parameters.optimization, self.seed,
            checkpoint, self.device, report,
        )  # fmt: skip
        if not np.isfinite(fitted.loss):
            raise ArtifactError(
                "the fine-tuning diverged: lower optimization.learning_rate of "
                "experiments.downstream in params.yaml"
            )

        def predict(one: Encoded) -> NDArray[np.bool_]:
            found = logits(network, one.inputs, filler, self.device)  # [documents, 2]
            return (found.argmax(dim=1) == 1).cpu().numpy()

        # In float32, whatever it was trained in: the order of tokens is not to tell by rounding.
        with torch.inference_mode():
            return {**fitted.as_json(), **_outcome(examples, predict)}


def _outcome(
    examples: Mapping[str, tuple[Any, NDArray[np.bool_]]],
    predict: Callable[[Any], NDArray[np.bool_]],
) -> dict[str, Any]:
    """Counts of right answers: nothing of a single document is kept."""
    validation, labels = examples["validation"]
    test, test_labels = examples["test"]
    return {
        "validation": {
            "documents": len(labels),
            "correct": int(np.sum(predict(validation) == labels)),
        },
        "test": changed_predictions(test_labels, predict(test), predict(examples["shuffled"][0])),
    }


main = trials_command(
    "downstream", DownstreamJob, measure, uses=("scikit-learn", "tokenizers", "transformers")
)

if __name__ == "__main__":
    run(main)
