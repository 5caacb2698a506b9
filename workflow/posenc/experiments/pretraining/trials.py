"""Trials of GPT-1's ablation of one seed: two pre-trainings, and what is fine-tuned of them (D5).

Radford et al. (2018), "Improving Language Understanding by Generative Pre-Training", section 5.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.experiments.frame import (
    Files,
    LabelledJob,
    Report,
    Training,
    Trials,
    trials_command,
)
from posenc.experiments.pretraining.documents import Text, draw
from posenc.experiments.pretraining.section import PretrainingTraining
from posenc.experiments.pretraining.texts import padded, questions, utf8_bytes
from posenc.experiments.pretraining.variants import variants
from posenc.metrics.parameter_matching import relative_difference
from posenc.models.devices import device_for

if TYPE_CHECKING:
    from torch import Tensor

    from posenc.experiments.pretraining.network import LanguageModel, Sizes

MOST_APART = 0.02
"""Share by which the two networks' numbers of parameters may differ."""
EVALUATION_BATCH = 32


class Quality(TypedDict):
    """Loss of a language model on the beginnings of texts."""

    nll: float
    """In nats per token."""
    perplexity: float
    bits_per_byte: float
    tokens: int
    bytes: int
    """Of the tokens that are predicted."""


class OfPretraining(Training):
    """A trial of the language model of one architecture."""

    parameters: int
    vocabulary_size: int
    sequences: int
    """That it is trained on."""
    zero_shot: list[dict[str, float]]
    """By validation, ``step`` and what :meth:`Experiment.zero_shot` returns."""
    validation: Quality
    test: Quality


class OfFinetuning(Training):
    """A trial of a classifier."""

    parameters: int
    validation_accuracy: float
    test_loss: float
    """Cross-entropy, nats per text."""
    accuracy: float
    """On the test texts."""


def measure(job: LabelledJob[PretrainingTraining], files: Files, trials: Trials) -> None:
    """Do all trials of one seed."""
    parts = draw(files.documents[0], job.evaluation, job.parameters, trials.seed)
    Experiment(job.parameters, parts, trials.seed, device_for(job.device)).measure(trials)


class Experiment:
    """Everything that the trials of one seed share.

    Parameters
    ----------
    parameters
        The experiment's section.
    parts
        From :func:`draw`.
    seed
        Of the weights and of the order of the examples.
    device
        ``cpu`` or ``cuda``.
    """

    def __init__(
        self, parameters: PretrainingTraining, parts: dict[str, list[Text]], seed: int, device: str
    ) -> None:
        import torch

        from posenc.models.training import sequences
        from posenc.tokens.tokenize import END_OF_TEXT, train_bpe

        if parameters.d_model % parameters.n_heads:
            raise ArtifactError(
                f"experiments.pretraining: d_model {parameters.d_model} is not a multiple of "
                f"n_heads {parameters.n_heads}: change one of them in params.yaml"
            )
        self.parameters, self.seed, self.device = parameters, seed, device
        texts = {name: [text for text, _ in part] for name, part in parts.items()}
        tokenizer = train_bpe(texts["pretraining"], parameters.vocabulary_size)
        self.vocabulary = tokenizer.get_vocab_size()
        first = tokenizer.token_to_id(END_OF_TEXT)
        ids = {
            name: [encoding.ids for encoding in tokenizer.encode_batch(part)]
            for name, part in texts.items()
        }
        self.sequences = sequences(
            [[first, *document] for document in ids["pretraining"]], parameters.tokens
        ).to(device)  # [sequences, tokens]
        length = parameters.tokens - 1
        labelled = ("training", "validation", "test")
        classes = sorted({label for name in labelled for _, label in parts[name]})
        self.classes = len(classes)
        # A review ends with its verdict: classifiers read its end (Sun et al., 2019), and language
        # models are tested on its beginning, where no token lacks what comes before it.
        self.ends, self.beginnings = {}, {}
        for name in labelled:
            labels = torch.tensor([classes.index(label) for _, label in parts[name]])  # [texts]
            self.ends[name] = padded([[first, *i[-length:]] for i in ids[name]], labels, device)
            self.beginnings[name] = padded(
                [[first, *i[:length]] for i in ids[name]], labels, device
            )
        self.bytes = utf8_bytes(tokenizer, first, device)  # [vocabulary]
        if sorted(parameters.zero_shot.words) != classes:
            raise ArtifactError(
                f"experiments.pretraining.zero_shot has words for "
                f"{sorted(parameters.zero_shot.words)}, but {parameters.dataset} has the labels "
                f"{classes}: name these in params.yaml"
            )
        self.questions = {
            kind: [
                (padded([[first, *row] for row in rows], self.ends["test"].labels, device), count)
                for rows, count in questions(
                    tokenizer, texts["test"], parameters.zero_shot.prompt,
                    [words[label] for label in classes], length,
                )
            ]
            for kind, words in parameters.zero_shot.answers.items()
        }  # fmt: skip

    def measure(self, trials: Trials) -> None:
        """Do all trials: pre-trainings, fine-tunings, and layers transferred.

        Pre-trained weights are kept beside the trials until all of them are done.
        """
        from posenc.experiments.pretraining.network import ARCHITECTURES

        p = self.parameters
        self._check_parameters()
        weights = {}
        for architecture in ARCHITECTURES:
            path, identity = trials.partial / f"{architecture}.pt", trials.identity(architecture)
            kept = Checkpoint(path, identity, _quiet)
            trials.measure(
                {"stage": "pretraining", "architecture": architecture},
                p.pretraining.steps,
                lambda checkpoint, report, a=architecture, k=kept: self.pretrain(
                    a, k, checkpoint, report
                ),
                again=kept.load() is None,
            )
            weights[architecture] = kept.load()["weights"]
        for variant in variants(p):
            used = weights[variant["architecture"]] if variant["pretrained"] else None
            trials.measure(
                variant,
                p.finetuning.steps,
                lambda checkpoint, report, v=variant, w=used: self.finetune(
                    v["architecture"], v["auxiliary_weight"], w, v.get("layers"), checkpoint, report
                ),
            )

    def pretrain(
        self, architecture: str, kept: Checkpoint, checkpoint: Checkpoint, report: Report
    ) -> OfPretraining:
        """Train a language model on the documents without labels, and keep its weights."""
        import torch

        from posenc.experiments.fitting import fit
        from posenc.experiments.pretraining.network import parameter_count, text_losses

        network = self._network(architecture, "pretraining")
        untrained = {"step": 0, **self.zero_shot(network.eval())}
        length = torch.full((self.parameters.pretraining.batch,), self.parameters.tokens)
        length = length.to(self.device)  # [batch]

        def loss(rows: NDArray[np.int64]) -> Any:
            ids = self.sequences[torch.from_numpy(rows).to(self.device)]  # [batch, tokens]
            logits = network.next_token_logits(network.states(ids))  # [batch, tokens, vocabulary]
            return text_losses(logits, ids, length).mean() / (self.parameters.tokens - 1)

        fitted = fit(
            network, loss, len(self.sequences), lambda: self.language(network, "validation")["nll"],
            self.parameters.pretraining, self.seed, checkpoint, self.device, report,
            lambda: self.zero_shot(network),
        )  # fmt: skip
        curve = [untrained, *({key: row[key] for key in untrained} for row in fitted.curve)]
        kept.save({"step": fitted.step, "weights": network.state_dict()})
        return {
            "parameters": parameter_count(network),
            "vocabulary_size": self.vocabulary,
            "sequences": len(self.sequences),
            **fitted.as_json(),
            "zero_shot": curve,
            "validation": self.language(network, "validation"),
            "test": self.language(network, "test"),
        }

    def finetune(
        self,
        architecture: str,
        auxiliary_weight: float,
        weights: Mapping[str, Tensor] | None,
        layers: int | None,
        checkpoint: Checkpoint,
        report: Report,
    ) -> OfFinetuning:
        """Train a classifier, from pre-trained weights or from new ones, and test it."""
        import torch

        from posenc.experiments.fitting import fit
        from posenc.experiments.pretraining.network import (
            finetuning_loss,
            parameter_count,
            transfer,
        )

        network = self._network(architecture, "finetuning")
        if weights is not None:
            transfer(network, weights, layers)
        examples = self.ends["training"]

        def loss(rows: NDArray[np.int64]) -> Any:
            batch = examples.take(torch.from_numpy(rows).to(self.device))
            return finetuning_loss(
                network, batch.ids, batch.lengths, batch.labels, auxiliary_weight
            )

        fitted = fit(
            network, loss, len(examples.ids), lambda: self.classification(network, "validation")[0],
            self.parameters.finetuning, self.seed, checkpoint, self.device, report,
        )  # fmt: skip
        test_loss, accuracy = self.classification(network, "test")
        return {
            "parameters": parameter_count(network),
            **fitted.as_json(),
            "validation_accuracy": self.classification(network, "validation")[1],
            "test_loss": test_loss,
            "accuracy": accuracy,
        }

    def language(self, network: LanguageModel, part: str) -> Quality:
        """Loss on the beginnings of texts: nats per token, perplexity, bits per byte.

        The first token is only read. Bytes are those of the tokens that are predicted.
        """
        import torch

        from posenc.experiments.pretraining.network import text_losses

        total, tokens, count = 0.0, 0, 0
        with torch.inference_mode():
            for batch in self.beginnings[part].split(EVALUATION_BATCH):
                logits = network.next_token_logits(network.states(batch.ids))
                total += float(text_losses(logits, batch.ids, batch.lengths).double().sum())
                places = torch.arange(batch.ids.shape[1], device=self.device)  # [tokens]
                inside = (places < batch.lengths[:, None]) & (places > 0)  # [texts, tokens]
                tokens += int(inside.sum())
                count += int(self.bytes[batch.ids[inside]].sum())
        nll = total / tokens
        return {
            "nll": nll,
            "perplexity": math.exp(nll),
            "bits_per_byte": total / (math.log(2) * count),
            "tokens": tokens,
            "bytes": count,
        }

    def zero_shot(self, network: LanguageModel) -> dict[str, float]:
        """Which of two words is expected behind a test text: shares that are right, and ranked.

        ``KIND_ranked`` is the share of pairs of a text of either label whose difference of losses
        is on the right side of each other, ties by half: what prior the words have plays no part.
        """
        import torch
        from scipy.stats import mannwhitneyu

        from posenc.experiments.pretraining.network import text_losses

        labels = self.ends["test"].labels.numpy(force=True)  # [texts]
        shares = {}
        for kind, asked in self.questions.items():
            losses = []
            with torch.inference_mode():
                for texts, count in asked:
                    own = []
                    for batch in texts.split(EVALUATION_BATCH):
                        logits = network.next_token_logits(network.states(batch.ids))
                        begins = batch.lengths - count  # [batch]
                        own.append(text_losses(logits, batch.ids, batch.lengths, begins))
                    losses.append(torch.cat(own).numpy(force=True))  # [texts]
            second = losses[0] - losses[1]  # [texts]: how much rather the second word comes
            ranked = mannwhitneyu(second[labels == 1], second[labels == 0]).statistic
            shares[kind] = float(np.mean((second > 0) == (labels == 1)))
            shares[f"{kind}_ranked"] = float(ranked / (labels == 1).sum() / (labels == 0).sum())
        return shares

    def classification(self, network: LanguageModel, part: str) -> tuple[float, float]:
        """Mean cross-entropy in nats and accuracy of a part."""
        import torch

        total, right, texts = 0.0, 0, len(self.ends[part].ids)
        with torch.inference_mode():
            for batch in self.ends[part].split(EVALUATION_BATCH):
                logits = network.class_logits(network.states(batch.ids), batch.lengths).float()
                entropy = torch.nn.functional.cross_entropy(logits, batch.labels, reduction="sum")
                total += float(entropy)
                right += int((logits.argmax(1) == batch.labels).sum())
        return total / texts, right / texts

    def _network(self, architecture: str, stage: str) -> LanguageModel:
        """A new network; new layers never have the weights that pre-training began with."""
        from posenc.experiments.pretraining.network import build

        place = ("pretraining", "finetuning").index(stage)
        seed = int(np.random.default_rng([self.seed, place]).integers(2**31))
        return build(architecture, self.sizes, seed).to(self.device)

    @property
    def sizes(self) -> Sizes:
        """Sizes of the networks."""
        from posenc.experiments.pretraining.network import Sizes

        p = self.parameters
        return Sizes(self.vocabulary, p.tokens, p.n_layers, p.d_model, p.n_heads, self.classes)

    def _check_parameters(self) -> None:
        """Print both numbers of parameters; they must be the same but for rounding of a width."""
        from posenc.experiments.pretraining.network import ARCHITECTURES, parameter_count

        counts = {
            name: parameter_count(self._network(name, "finetuning")) for name in ARCHITECTURES
        }
        apart = relative_difference(*counts.values())
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        print(f"parameters: {said} ({apart:.2%} apart)", file=sys.stderr)
        if apart > MOST_APART:
            raise ArtifactError(
                f"experiments.pretraining: parameters cannot be matched to {MOST_APART:.0%} "
                f"({said}): take a larger d_model"
            )


def _quiet(line: str) -> None:
    """Say nothing: weights that are read are no training that goes on."""


main = trials_command(
    "pretraining",
    LabelledJob[PretrainingTraining],
    measure,
    uses=("scipy", "tokenizers", "transformers"),
)

if __name__ == "__main__":
    run(main)
