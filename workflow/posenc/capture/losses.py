"""Losses and logits of hidden states after the final norm, by the head that a model has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from posenc.architectures.architecture import LINEAR, Architecture
from posenc.capture.parts import ConditionError, architecture
from posenc.models.affine import affine

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LOGITS = {"cpu": 2048, "cuda": 2**13}
"""Tokens, and entries of the vocabulary, whose logits are made at a time."""
_HEAD_LOGITS = 2**26
"""Logits of a model's own head that are made at a time."""


@torch.inference_mode()
def token_losses(
    hidden: Tensor,  # [tokens, d_model], after the final norm
    weight: Tensor,  # [vocabulary, d_model]
    targets: Tensor,  # [tokens]
    chunk: int | None = None,
) -> Tensor:
    """Negative log-likelihood in nats of the token that each hidden state predicts, [tokens].

    Logits are made for ``chunk`` tokens and ``chunk`` entries of the vocabulary at a time, so that
    they stay in the processor's cache; the sum over the vocabulary grows block by block. None takes
    as many as the device is best at.
    """
    losses = []
    chunk = chunk or _LOGITS[hidden.device.type]
    for states, wanted in zip(hidden.split(chunk), targets.split(chunk), strict=True):
        total = torch.full(wanted.shape, -torch.inf, device=hidden.device)  # [chunk]
        for rows in weight.split(chunk):  # [chunk of the vocabulary, d_model]
            logits = affine(states, rows.to(states.dtype))  # [chunk, chunk of the vocabulary]
            total = torch.logaddexp(total, logits.float().logsumexp(dim=-1))
        losses.append(total - (states.float() * weight[wanted].float()).sum(dim=-1))
    return torch.cat(losses)


def losses_of(model: PreTrainedModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """As :func:`token_losses`, by the head that a model has.

    Raises
    ------
    ConditionError
        If it has no row for a token: some have fewer than the input embeddings.
    """
    arch = architecture(model)
    try:
        if arch.head == LINEAR:
            return token_losses(hidden, arch.output_weight(), targets)
        return head_losses(arch, hidden, targets)
    except IndexError as error:
        raise ConditionError(
            f"a text has a token that the language-model head has no row for ({error})"
        ) from error


def logits_of(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Logits of hidden states after the final norm, [tokens, d_model] to [tokens, vocabulary]."""
    arch = architecture(model)
    if arch.head == LINEAR:
        return affine(hidden, arch.output_weight().to(hidden.dtype))
    return arch.logits(hidden)


@torch.inference_mode()
def head_losses(arch: Architecture, hidden: Tensor, targets: Tensor) -> Tensor:
    """As :func:`token_losses`, through a head that is more than a product with its weight."""
    losses = []
    chunk = max(1, _HEAD_LOGITS // arch.vocabulary_size)
    for part, wanted in zip(hidden.split(chunk), targets.split(chunk), strict=True):
        logits = arch.logits(part).float()  # [chunk, vocabulary]
        losses.append(functional.cross_entropy(logits, wanted, reduction="none"))
    return torch.cat(losses)
