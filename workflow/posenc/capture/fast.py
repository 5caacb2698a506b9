"""What a model says in bfloat16, against what it says in float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.artifacts.precision import StatesError, loss_error
from posenc.capture.capture import document_losses, packed_states
from posenc.capture.parts import is_decoder
from posenc.models.affine import pack

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Sample:
    """What a model says of some documents.

    Attributes
    ----------
    states
        n_layers + 1 tensors [tokens, d_model], float32.
    nll
        float32 [scored tokens], nats; empty for an encoder.
    """

    states: list[Tensor]
    nll: np.ndarray

    @classmethod
    def of(cls, model: PreTrainedModel, documents: list[list[int]]) -> Sample:
        """Run documents in one row."""
        states = [state[0] for state in packed_states(model, documents)]
        nll = np.empty(0, np.float32)
        if is_decoder(model):
            nll = np.concatenate(document_losses(model, states[-1], documents))
        return cls([state.float().cpu() for state in states], nll)

    def error(self, reference: Sample) -> StatesError:
        """How far it is from what the model says in float32."""
        pairs = list(zip(self.states, reference.states, strict=True))
        cosines = [functional.cosine_similarity(a.double(), b.double(), dim=-1) for a, b in pairs]
        return {
            "tokens": len(self.states[0]),
            "relative_error": [float((a - b).norm() / b.norm()) for a, b in pairs],
            "one_minus_cosine": [float(1 - cosine.mean()) for cosine in cosines],
            **loss_error(self.nll, reference.nll),
        }


def faster(model: PreTrainedModel) -> PreTrainedModel:
    """Let a ready model compute in bfloat16; it is changed in place."""
    # Parameters alone: a rotation's frequencies are a buffer. Rounded, they would turn what stands
    # some hundred tokens into a document by up to a radian too much.
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return pack(model)
