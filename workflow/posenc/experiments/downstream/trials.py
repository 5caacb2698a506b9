"""Train classifiers of one seed on a pretrained model with and without position embeddings (A6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.conditions.section import Condition
from posenc.experiments.downstream.documents import DownstreamJob, Texts
from posenc.experiments.downstream.section import BAG_OF_WORDS, NO_ORDER
from posenc.experiments.frame import Files, Report, Training, Trials, Work, trials_command
from posenc.metrics.downstream import BagOfWords, Frozen, RelativeChanges, relative_changes
from posenc.metrics.order_sensitivity import Predictions, changed_predictions
from posenc.models.devices import device_for

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from posenc.experiments.downstream.network import Classifier

POSITIONS = ("intact", "zero")


class Right(TypedDict):
    """Right answers among documents."""

    documents: int
    correct: int


class Outcome(TypedDict):
    """Counts of a classifier's answers: nothing of a single document is kept."""

    validation: Right
    test: Predictions


class Chosen(TypedDict):
    """The regularisation of a logistic regression, and its validation loss."""

    inverse_penalty: float
    validation_loss: float


class OfBag(Chosen, Outcome):
    """A trial of a bag of words."""


class OfFrozen(Chosen, Outcome):
    """A trial of a logistic regression on pooled features."""

    pooled_change: RelativeChanges
    """How far shuffled words move a document's mean hidden state."""


class OfFineTuned(Training, Outcome):
    """A trial of a linear head and the layers below it."""


def measure(job: DownstreamJob, files: Files, trials: Trials) -> None:
    """Train and test all classifiers of one seed."""
    texts = Texts.draw(job, trials.seed, files.tokenizer, files.documents[0])
    for task in job.parameters.tasks:
        variant = {"task": task, "positions": NO_ORDER, "method": BAG_OF_WORDS}
        trials.measure(variant, 1, bag_of_words(texts, task))
    for positions in POSITIONS:
        subject = Subject(job, trials.seed, files.weights, texts, positions)
        for task in job.parameters.tasks:
            variant = {"task": task, "positions": positions}
            steps = job.parameters.optimization.steps
            trials.measure({**variant, "method": "frozen"}, 1, subject.frozen(task))
            trials.measure({**variant, "method": "fine_tuned"}, steps, subject.fine_tuned(task))


def bag_of_words(texts: Texts, task: str) -> Work:
    """The trial of a classifier that knows which tokens a document has but not their order."""

    def work(checkpoint: Checkpoint, report: Report) -> OfBag:
        ids = texts.all
        examples = {
            name: ([ids[row] for row in rows], labels)
            for name, (rows, labels) in texts.examples(task).items()
        }
        fitted = BagOfWords.fit(*examples["training"], *examples["validation"])
        report(1, fitted.validation_loss)
        return {
            "inverse_penalty": fitted.inverse_penalty,
            "validation_loss": fitted.validation_loss,
            **_outcome(examples, fitted.predict),
        }

    return work


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

    def at(self, places: NDArray[np.int64]) -> Encoded:
        """Some of them."""
        return Encoded(self.pooled[places], [self.inputs[place] for place in places])


class Subject:
    """A pretrained model under a condition, and the classifiers that are trained on it.

    Parameters
    ----------
    job, seed, weights
        What the trials depend on, their seed, and the folder of the model.
    texts
        Documents of the seed.
    positions
        What its position embeddings or angles become, before and during training.
    """

    def __init__(
        self, job: DownstreamJob, seed: int, weights: Path, texts: Texts, positions: str
    ) -> None:
        self.parameters, self.reading, self.seed = job.parameters, job.reading, seed
        self.texts, self.weights = texts, weights
        self.condition = Condition(position=positions)
        self.device = device_for(job.device)

    def load(self) -> PreTrainedModel:
        """The model with its pretrained weights."""
        from posenc.models.affine import ready
        from posenc.models.load import load

        return ready(load(self.weights, self.reading.family, self.device))

    @cached_property
    def encoded(self) -> Encoded:
        """All documents of the texts, the exchanged ones where a task needs them.

        Raises
        ------
        ArtifactError
            If the model has fewer layers than are to be trained.
        """
        from posenc.capture.interventions import applied
        from posenc.experiments.downstream.network import encode

        # Made in the same batches each time, whatever trials are done: rounding depends on them.
        kinds = [self.texts.documents, self.texts.shuffled]
        if "word_swap" in self.parameters.tasks:
            kinds.append(self.texts.exchanged)
        model, kept = self.load(), self.parameters.trained_layers
        try:
            with applied(model, self.condition):
                pooled, inputs = zip(*(encode(model, ids, kept) for ids in kinds), strict=True)
        except ValueError as error:
            raise ArtifactError(
                f"experiments.downstream: {error}; lower it in params.yaml"
            ) from None
        return Encoded(np.concatenate(pooled), list(chain.from_iterable(inputs)))

    def examples(self, task: str) -> dict[str, tuple[Encoded, NDArray[np.bool_]]]:
        """Documents and labels of each split, and the shuffled test documents."""
        return {
            name: (self.encoded.at(places), labels)
            for name, (places, labels) in self.texts.examples(task).items()
        }

    def frozen(self, task: str) -> Work:
        """The trial of a logistic regression on pooled features."""

        def work(checkpoint: Checkpoint, report: Report) -> OfFrozen:
            examples = self.examples(task)
            pooled = {
                name: (encoded.pooled, labels) for name, (encoded, labels) in examples.items()
            }
            fitted = Frozen.fit(*pooled["training"], *pooled["validation"])
            report(1, fitted.validation_loss)
            return {
                "inverse_penalty": fitted.inverse_penalty,
                "validation_loss": fitted.validation_loss,
                **_outcome(examples, lambda encoded: fitted.predict(encoded.pooled)),
                "pooled_change": relative_changes(pooled["test"][0], pooled["shuffled"][0]),
            }

        return work

    def fine_tuned(self, task: str) -> Work:
        """The trial of a linear head and the layers below it."""

        def work(checkpoint: Checkpoint, report: Report) -> OfFineTuned:
            from posenc.capture.interventions import applied
            from posenc.capture.parts import architecture
            from posenc.experiments.downstream.network import Classifier, Encoder, freeze_positions

            examples, model = self.examples(task), self.load()
            with applied(model, self.condition):
                if self.condition.position != "intact":
                    freeze_positions(model)
                encoder = Encoder(model, self.parameters.trained_layers)
                network = Classifier(encoder, architecture(model).d_model, self.seed)
                network.to(self.device)
                return self._tuned(network, model, examples, checkpoint, report)

        return work

    def _tuned(
        self,
        network: Classifier,
        model: PreTrainedModel,
        examples: dict[str, tuple[Encoded, NDArray[np.bool_]]],
        checkpoint: Checkpoint,
        report: Report,
    ) -> OfFineTuned:
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

        def predict(encoded: Encoded) -> NDArray[np.bool_]:
            document_logits = logits(network, encoded.inputs, filler, self.device)  # [documents, 2]
            return (document_logits.argmax(dim=1) == 1).cpu().numpy()

        # In float32, whatever it was trained in: rounding must not tell the order of tokens.
        with torch.inference_mode():
            return {**fitted.as_json(), **_outcome(examples, predict)}


def _outcome(
    examples: Mapping[str, tuple[Any, NDArray[np.bool_]]],
    predict: Callable[[Any], NDArray[np.bool_]],
) -> Outcome:
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
