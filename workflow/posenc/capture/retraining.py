"""A rotary decoder that is trained on under a condition, and its loss on other text (row F6).

The condition stays in place while all weights learn: without rotation, say, and with a mask on the
scores that does not. Gelberg et al. (2026, https://arxiv.org/abs/2512.12167) drop rotation in this
way and train on for a short while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from posenc.artifacts.checkpoints import Checkpoint
from posenc.capture.branches import NO_CHANGE, Branch, branch_of
from posenc.capture.capture import batches_of, pad
from posenc.capture.interventions import applied
from posenc.capture.losses import losses_of
from posenc.capture.masked_attention import Batch, attending
from posenc.capture.parts import ConditionError, body, logits
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition
from posenc.config.optimization import Optimization
from posenc.models.training import batch_rows, learning_rate, optimizer_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Schedule:
    """One training.

    Attributes
    ----------
    optimization
        Steps, batch, learning rate, precision, and after how many steps a checkpoint is kept.
    evaluate_steps
        Steps after which documents are evaluated; 0 for the model as it is given.
    batch_tokens
        Tokens of one forward pass. A larger batch is run in parts.
    seed
        Of the order of the sequences.
    """

    optimization: Optimization
    evaluate_steps: Sequence[int]
    batch_tokens: int
    seed: int


@dataclass
class _Kept(Branch):
    """A branch whose biases are made once for all steps, however large they are."""

    whole: list[Tensor] = field(default_factory=list)
    """Of each layer, [1, n_heads, longest, longest]."""

    def tensors(self, layer: int, documents, longest: int, device) -> dict:
        bias = self.whole[layer][..., :longest, :longest]  # [1, n_heads, longest, longest]
        factor = self.inverse_temperature(layer, device)
        return {**NO_CHANGE, "bias": bias, "score_factor": factor}


@contextlib.contextmanager
def trained_under(
    model: PreTrainedModel, condition: Condition, masks: Mapping[str, LearnedMask], tokens: int
) -> Iterator[None]:
    """Put a rotary decoder under a condition for a training and its evaluations.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    condition, masks
        As :func:`posenc.capture.interventions.applied`. Rows are padded on the right alone.
    tokens
        Of the longest row.

    Raises
    ------
    ConditionError
        If the condition cuts documents into segments, or has a mask that is no bias of all
        documents alike.
    """
    branch = branch_of(model, condition.mask, masks)
    if condition.segments is not None or (branch.mask is not None and not branch.is_shared):
        raise ConditionError(
            "a model is trained on whole documents, without a mask or with one that is added to "
            "the scores of all documents alike"
        )
    with applied(model, condition.model_copy(update={"mask": None}), masks, tokens):
        if branch.mask is None:
            yield
            return
        device = next(model.parameters()).device
        kept = _Kept(branch.mask, branch.n_layers, branch.n_heads, branch.causal, branch.learned)
        # Not in an evaluation, which runs without gradients: training needs the same tensors.
        kept.whole = [
            branch.tensors(layer, [tokens], tokens, device)["bias"]
            for layer in range(branch.n_layers)
        ]
        with attending(model, Batch([kept])):
            yield


def retrain(
    model: PreTrainedModel,
    sequences: Tensor,  # int64 [sequences, tokens]
    documents: list[list[int]],
    schedule: Schedule,
    checkpoint: Checkpoint,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> NDArray[np.float64]:
    """Train a decoder on, and evaluate documents on the way.

    Parameters
    ----------
    model
        In float32, under a condition or not; changed in place.
    sequences
        int64 [sequences, tokens], from :func:`posenc.models.training.sequences`, on its device. All
        come once an epoch, in an order of the seed.
    documents
        Token ids of what is evaluated, in float32 whatever the precision of the training.
    schedule
        Steps and batches.
    checkpoint
        Where the state is kept between tries; a training that is done is not done again.
    report
        Called after every step with the number of steps done and the loss in nats.

    Returns
    -------
    float64 [evaluations, documents]: sums of the losses of each document's tokens 1, 2, ... in
    nats.
    """
    given = schedule.optimization
    optimizer = optimizer_for(model, given)
    step, losses = 0, []
    if (state := checkpoint.load()) is not None:
        step, losses = state["step"], list(state["losses"])
        if "model" in state:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
    while len(losses) < len(schedule.evaluate_steps):
        if step == schedule.evaluate_steps[len(losses)]:
            losses.append(document_sums(model, documents, schedule.batch_tokens).tolist())
            continue
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, given)
        rows = torch.from_numpy(batch_rows(step, given.batch, len(sequences), schedule.seed))
        optimizer.zero_grad(set_to_none=True)
        loss = _backward(model, sequences[rows.to(sequences.device)], schedule)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        report(step, loss)
        if step % given.checkpoint_steps == 0 and step < given.steps:
            weights = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            checkpoint.save({"step": step, "losses": losses, **weights})
    optimizer.zero_grad(set_to_none=True)
    # Nothing but the losses is needed of a training that is done.
    checkpoint.save({"step": step, "losses": losses})
    return np.array(losses)  # [evaluations, documents]


def _backward(
    model: PreTrainedModel,
    batch: Tensor,  # int64 [batch, tokens]
    schedule: Schedule,
) -> float:
    """Add the gradient of a batch's mean loss in nats; return the loss."""
    is_mixed = schedule.optimization.precision == "bfloat16"
    targets, total = batch[:, 1:], 0.0
    rows = max(1, schedule.batch_tokens // batch.shape[1])
    for part, wanted in zip(batch.split(rows), targets.split(rows), strict=True):
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=is_mixed):
            # The last token is run, too: kernels are made for round lengths.
            last = body(model)(part, use_cache=False).last_hidden_state  # [rows, tokens, d_model]
            scores = logits(model, last[:, :-1])  # [rows, tokens - 1, vocabulary]
        loss = functional.cross_entropy(
            scores.flatten(0, 1).float(), wanted.flatten(), reduction="sum"
        )
        loss = loss / targets.numel()
        loss.backward()
        total += float(loss.detach())
    return total


@torch.inference_mode()
def document_sums(
    model: PreTrainedModel, documents: list[list[int]], batch_tokens: int
) -> NDArray[np.float64]:
    """Sums of the losses of each document's tokens 1, 2, ... in nats, float64 [documents].

    Documents are padded to rows of one length, at most ``batch_tokens`` with the padding, or one
    document: a bias of the model's condition serves all of them.
    """
    totals = np.empty(len(documents))
    lengths = np.array([len(ids) for ids in documents])
    for batch in batches_of(lengths, range(len(documents)), batch_tokens):
        ids, real = pad(model, [documents[index] for index in batch])  # [batch, longest] each
        # Padding lies in the future, which no token sees.
        last = body(model)(ids, use_cache=False).last_hidden_state  # [batch, longest, d_model]
        keep = real[:, 1:].bool()  # [batch, longest - 1]
        nll = losses_of(model, last[:, :-1][keep], ids[:, 1:][keep])  # [scored]
        sums = [part.double().sum() for part in nll.split((lengths[batch] - 1).tolist())]
        totals[batch] = torch.stack(sums).cpu().numpy()
    return totals
