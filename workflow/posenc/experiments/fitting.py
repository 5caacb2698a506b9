"""Fitting the small networks of an experiment: seeded, stopped early, resumable to the bit.

A plain PyTorch loop, as in :mod:`posenc.models.training`, rather than a trainer library: losses
here are of classifiers, of recurrent language models and of memory networks, and the batches must
be a function of the seed and the step alone, so that a killed training goes on as if undisturbed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from posenc.artifacts.checkpoints import Checkpoint
from posenc.config.optimization import Optimization
from posenc.experiments.frame import Training
from posenc.models.training import batch_rows, learning_rate, optimizer_for


@dataclass
class Fitted:
    """How a training went.

    Attributes
    ----------
    step
        Steps after which the validation loss was lowest; the network has the weights of then.
    steps
        Steps that were taken.
    loss
        The lowest validation loss.
    curve
        By validation, ``step``, ``training_loss`` (mean since the last row), ``validation_loss``,
        and what else was noted.
    """

    step: int = 0
    steps: int = 0
    loss: float = math.inf
    curve: list[dict[str, float]] = field(default_factory=list)

    def as_json(self) -> Training:
        """What a measurement keeps."""
        return {
            "best_step": self.step,
            "steps": self.steps,
            "validation_loss": self.loss,
            "curve": self.curve,
        }


def fit(
    network: nn.Module,
    loss: Callable[[NDArray[np.int64]], Tensor],
    examples: int,
    validate: Callable[[], float],
    optimization: Optimization,
    seed: int,
    checkpoint: Checkpoint,
    device: str = "cpu",
    report: Callable[[int, float], None] = lambda step, loss: None,
    also: Callable[[], dict[str, float]] = dict,
) -> Fitted:
    """Fit a network, going on from its checkpoint where there is one.

    Parameters
    ----------
    network
        On the device; what does not require a gradient stays as it is. Changed in place: it ends
        in evaluation mode with the weights of the lowest validation loss.
    loss
        From the numbers of a batch's training examples, [batch], to their mean loss; called in
        training mode.
    examples
        How many training examples there are; every one comes once an epoch, in an order that
        depends on seed and epoch only.
    validate
        The mean loss on the validation examples; called in evaluation mode, without gradients.
    optimization
        Steps, learning rate, precision, when to stop.
    seed
        Of the order of the examples, and of the dropout.
    checkpoint
        Where the state is kept between tries.
    device
        ``cpu`` or ``cuda``.
    report
        Called after every step with the number of steps done and the loss.
    also
        What is noted beside each validation loss; nothing is chosen by it. Called as ``validate``.

    Returns
    -------
    Fitted

    Raises
    ------
    ValueError
        If there are no examples.
    """
    if examples < 1:
        raise ValueError("there are no examples to learn from")
    optimizer = optimizer_for(network, optimization)
    torch.manual_seed(seed)
    fitted, recent, best = Fitted(), [], copy.deepcopy(network.state_dict())
    state = checkpoint.load()
    if state is not None:
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        fitted, recent, best = Fitted(**state["fitted"]), list(state["recent"]), state["best"]
        # Dropout goes on where it was.
        torch.set_rng_state(state["random"])
        if device == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"])
    while fitted.steps < optimization.steps and not _stopped(fitted, optimization):
        network.train()
        rows = batch_rows(fitted.steps, optimization.batch, examples, seed)  # [batch]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(fitted.steps, optimization)
        with torch.autocast(device, torch.bfloat16, enabled=_is_mixed(optimization)):
            value = loss(rows)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        fitted.steps += 1
        recent.append(float(value.detach()))
        report(fitted.steps, recent[-1])
        if fitted.steps % optimization.validate_steps == 0 or fitted.steps == optimization.steps:
            network.eval()
            with (
                torch.inference_mode(),
                torch.autocast(device, torch.bfloat16, enabled=_is_mixed(optimization)),
            ):
                validation_loss, beside = validate(), also()
            fitted.curve.append(
                {
                    "step": fitted.steps,
                    "training_loss": float(np.mean(recent)),
                    "validation_loss": validation_loss,
                    **beside,
                }
            )
            recent = []
            if validation_loss < fitted.loss:
                fitted.step, fitted.loss = fitted.steps, validation_loss
                best = copy.deepcopy(network.state_dict())
        if fitted.steps % optimization.checkpoint_steps == 0:
            checkpoint.save(
                {
                    "network": network.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "best": best,
                    "step": fitted.steps,
                    "fitted": vars(fitted),
                    "recent": recent,
                    "random": torch.get_rng_state(),
                    "random_cuda": torch.cuda.get_rng_state() if device == "cuda" else None,
                }
            )
    network.load_state_dict(best)
    network.eval()
    return fitted


def _is_mixed(optimization: Optimization) -> bool:
    return optimization.precision == "bfloat16"


def _stopped(fitted: Fitted, optimization: Optimization) -> bool:
    """Whether the loss is low enough, or patience is at its end."""
    if optimization.enough is not None and fitted.loss <= optimization.enough:
        return True
    if optimization.patience is None or not fitted.curve:
        return False
    since = sum(row["step"] > fitted.step for row in fitted.curve)
    return since >= optimization.patience
