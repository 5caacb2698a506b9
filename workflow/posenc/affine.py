"""Affine maps by the fastest product at hand: the same function in fewer passes over memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import GELUActivation, NewGELUActivation
from transformers.pytorch_utils import Conv1D

_FORMS = {"none": "", "gelu": "none", "gelu tanh": "tanh"}
"""Activations, and what libraries call the form of GELU."""


def affine(
    x: Tensor,  # [..., inputs]
    weight: Tensor,  # [outputs, inputs]
    bias: Tensor | None = None,  # [outputs]
    activation: str = "none",
) -> Tensor:
    """An affine map and the activation after it, as one call of oneDNN on a CPU.

    PyTorch takes its float32 products from MKL, which is slow on processors of other makers: less
    than half of oneDNN's rate was seen. The activation costs no pass over memory of its own. Where
    that call cannot be used (a gradient, a GPU, mixed types), the library's functions are.

    Parameters
    ----------
    x
        [..., inputs].
    weight
        [outputs, inputs].
    bias
        [outputs], or None.
    activation
        ``none`` for the identity, ``gelu``, or ``gelu tanh`` for its tanh form (Hendrycks and
        Gimpel 2016, section 2).

    Returns
    -------
    [..., outputs].
    """
    name, form = activation.split()[0], _FORMS[activation]
    if _has_one_call(x, weight):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, name, [], form)
    y = functional.linear(x, weight, bias)  # [..., outputs]
    return y if name == "none" else functional.gelu(y, approximate=form)


def _has_one_call(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and torch.backends.mkldnn.is_available()
    )


class Affine(nn.Module):
    """:func:`affine` as a module, with the same parameters."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None, activation: str) -> None:
        super().__init__()
        self.weight, self.bias, self.activation = weight, bias, activation

    def forward(self, x: Tensor) -> Tensor:  # [..., inputs] to [..., outputs]
        return affine(x, self.weight, self.bias, self.activation)


_ACTIVATIONS = {NewGELUActivation: "gelu tanh", GELUActivation: "gelu"}
_PAIRS = {"c_fc": "act", "dense": "intermediate_act_fn"}
"""Names of an affine map and of the activation after it, in GPT-2's and in BERT's blocks."""


def ready(model: nn.Module) -> nn.Module:
    """Let a model compute the same function in fewer and faster calls.

    Affine maps, with the activation after them, become :class:`Affine`: GPT-2's activation is eight
    operations in the library, each of which reads and writes the widest tensor of a block. The
    results agree to float32 rounding.

    Parameters
    ----------
    model
        From :func:`posenc.models.load`; it is changed in place.

    Returns
    -------
    The model.
    """
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if not isinstance(child, (Conv1D, nn.Linear)):
                continue
            activation = "none"
            follows = _PAIRS.get(name, "")
            if type(getattr(parent, follows, None)) in _ACTIVATIONS:
                activation = _ACTIVATIONS[type(getattr(parent, follows))]
                setattr(parent, follows, nn.Identity())
            weight = child.weight
            if isinstance(child, Conv1D):  # its weight is [inputs, outputs]
                weight = nn.Parameter(weight.data.T.contiguous(), weight.requires_grad)
            setattr(parent, name, Affine(weight, child.bias, activation))
    return model
