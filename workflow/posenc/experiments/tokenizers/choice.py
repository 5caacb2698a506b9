"""A model whose learning rate and number of steps are chosen on validation documents (D3).

Each rate is tried for the first steps of a whole training. The one with the fewest bits per byte of
the validation documents goes on, and of its weights those with the fewest bits are kept. A short
training of each, with a schedule of its own, would choose another: high rates are ahead early, and
behind where the schedule ends. Test documents are read after that, by others.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from posenc.artifacts.checkpoints import Checkpoint, State
from posenc.artifacts.files import ArtifactError
from posenc.experiments.fitting import Fitted, fit
from posenc.experiments.frame import Report
from posenc.experiments.tokenizers.kinds import Tokens
from posenc.experiments.tokenizers.network import bits_per_byte, language_model, nll
from posenc.experiments.tokenizers.section import TokenizersTraining
from posenc.metrics.tokenizers import FLAT, late_fall


class Tried(TypedDict):
    """A learning rate, and the fewest bits per byte in its first steps; None if it diverged."""

    learning_rate: float
    bits_per_byte: float | None


class Validation(TypedDict):
    """Bits per byte of the validation documents after some steps."""

    step: int
    bits_per_byte: float


class Choice(TypedDict):
    """How a learning rate and a number of steps were chosen; bits are of validation documents."""

    tried: list[Tried]
    learning_rate: float
    best_step: int
    steps: int
    """That were taken."""
    bits_per_byte: float
    """After the best step."""
    curve: list[Validation]
    fall: float
    """Of :func:`posenc.metrics.tokenizers.late_fall`."""
    flat: bool


@dataclass
class Chosen:
    """A model, and how it was chosen.

    Attributes
    ----------
    network
        In evaluation mode, with the weights of the best step.
    rate
        The learning rate that was best.
    tried
        By rate, the fewest bits per byte of the validation documents in its first steps; infinite
        where it diverged.
    fitted
        How the training went, its ``validation_loss`` in bits per byte.
    """

    network: torch.nn.Module
    rate: float
    tried: dict[float, float]
    fitted: Fitted

    def as_json(self) -> Choice:
        """What a measurement keeps."""
        curve = self.fitted.curve
        steps = [int(row["step"]) for row in curve]
        bits = [row["validation_loss"] for row in curve]
        fall = late_fall(steps, bits)
        return {
            "tried": [
                # JSON has no infinity.
                {"learning_rate": rate, "bits_per_byte": loss if math.isfinite(loss) else None}
                for rate, loss in self.tried.items()
            ],
            "learning_rate": self.rate,
            "best_step": self.fitted.step,
            "steps": self.fitted.steps,
            "bits_per_byte": self.fitted.loss,
            "curve": [{"step": s, "bits_per_byte": b} for s, b in zip(steps, bits, strict=True)],
            "fall": fall,
            "flat": fall < FLAT,
        }


class _TriedError(Exception):
    """The steps that a rate is tried for are done and kept."""


class _Beginning(Checkpoint):
    """Ends a training as soon as it is kept."""

    def __init__(self, kept: Checkpoint) -> None:
        self._kept = kept
        self.state: State = {}

    def load(self) -> None:
        """Nothing: it was looked for before."""

    def save(self, state: State) -> None:
        self._kept.save(state)
        self.state = state
        raise _TriedError


def choose(
    parameters: TokenizersTraining,
    vocabulary: int,
    training: Tokens,
    validation: Tokens,
    validation_bytes: int,
    seed: int,
    kept: Sequence[Checkpoint],
    report: Report,
    device: str,
) -> Chosen:
    """Train a model with the learning rate and for the steps that validation documents prefer.

    Parameters
    ----------
    parameters
        Sizes, rates that are tried, and the most steps.
    vocabulary
        Tokens that there are.
    training, validation
        Segments that are learned from, and that choose.
    validation_bytes
        UTF-8 bytes of the validation documents.
    seed
        Of the first weights and of the order of the segments, which all rates share.
    kept
        For each rate, where its training is kept between tries.
    report
        Is told of each step.
    device
        ``cpu`` or ``cuda``.

    Raises
    ------
    ArtifactError
        If the training diverged.
    """

    def trained(rate: float, checkpoint: Checkpoint, every: int, before: int) -> Chosen:
        network = language_model(parameters, vocabulary, seed)
        nn.Module.to(network, device)

        def loss(rows: NDArray[np.int64]) -> torch.Tensor:
            total, count = nll(network, training, rows.tolist(), device)
            # Segments that a long token has run over are empty.
            return total / max(1, count)

        def validate() -> float:
            return bits_per_byte(network, validation, validation_bytes, device)["total"]

        optimization = parameters.optimization.model_copy(
            update={"learning_rate": rate, "checkpoint_steps": every}
        )

        def told(step: int, value: float) -> None:
            report(before + step, value)

        fitted = fit(
            network, loss, len(training.segments), validate, optimization, seed, checkpoint,
            device, told,
        )  # fmt: skip
        return Chosen(network, rate, {}, fitted)

    tried, steps = {}, parameters.tried_steps
    for number, (rate, checkpoint) in enumerate(zip(parameters.rates, kept, strict=True)):
        state = checkpoint.load()
        if state is None:
            beginning = _Beginning(checkpoint)
            with contextlib.suppress(_TriedError):
                trained(rate, beginning, steps, number * steps)
            state = beginning.state
        # What a training did after that, before it was killed, has no say.
        first = [r["validation_loss"] for r in state["fitted"]["curve"] if r["step"] <= steps]
        tried[rate] = min(filter(math.isfinite, first), default=math.inf)
    rate = min(tried, key=lambda candidate: tried[candidate])
    every, before = parameters.optimization.checkpoint_steps, (len(tried) - 1) * steps
    chosen = trained(rate, kept[parameters.rates.index(rate)], every, before)
    if not all(math.isfinite(row["validation_loss"]) for row in chosen.fitted.curve):
        raise ArtifactError(
            f"the training with a learning rate of {rate:g} diverged: lower optimization."
            f"learning_rate of experiments.tokenizers in params.yaml"
        )
    chosen.tried = tried
    return chosen
