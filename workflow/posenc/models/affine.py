"""Affine maps by the fastest product at hand: the same function in fewer passes over memory."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from transformers.activations import GELUActivation, NewGELUActivation, SiLUActivation
from transformers.pytorch_utils import Conv1D

from posenc.architectures.table import ACTIVATION_PAIRS
from posenc.models.devices import device_for, use_threads
from posenc.models.load import load
from posenc.models.mapped import release

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Network = TypeVar("Network", bound=nn.Module)

_FORMS = {
    "none": ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu tanh": ("gelu", "tanh"),
    "silu": ("swish", ""),
}
"""Activations, by oneDNN's names for them and for the form of GELU."""


def affine(
    x: Tensor,  # [..., inputs]
    weight: Tensor,  # [outputs, inputs]
    bias: Tensor | None = None,  # [outputs]
    activation: str = "none",
) -> Tensor:
    """An affine map and the activation after it, by oneDNN where that is quickest.

    PyTorch takes its float32 products from MKL, which does not use AVX-512 on processors of other
    makers: less than half of oneDNN's rate was seen. Without a gradient, the activation is part of
    the same call and costs no pass over memory of its own. Where oneDNN is slower or cannot be used
    (:func:`is_onednn_for`; a GPU, mixed types), the library's functions are.

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
        Gimpel 2016, section 2), or ``silu`` (there too).

    Returns
    -------
    [..., outputs].
    """
    name, form = _FORMS[activation]
    if _is_for_onednn(x, weight):
        if not torch.is_grad_enabled():
            return _onednn(x, weight, bias, name, [], form)
        y = _WithGradient.apply(x, weight, bias)  # [..., outputs]
    else:
        y = functional.linear(x, weight, bias)  # [..., outputs]
    if name == "gelu":
        return functional.gelu(y, approximate=form)
    return functional.silu(y) if activation == "silu" else y


_onednn = torch.ops.mkldnn._linear_pointwise


def _is_for_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype
        and not torch.is_autocast_enabled("cpu")
        and is_onednn_for(x.dtype)
    )


@functools.cache
def is_onednn_for(dtype: torch.dtype) -> bool:
    """Whether oneDNN is what multiplies numbers of a type on this processor.

    Those of 16 bits need instructions that many have not (AVX-512, or AVX-NE-CONVERT): PyTorch
    itself falls back on other products there, and oneDNN's own calls raise an error. In float32
    MKL is the faster library where there is no AVX-512; where there is, it uses that on Intel's
    processors alone.
    """
    if not torch.backends.mkldnn.is_available():
        return False
    if dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    if dtype == torch.float16:
        return torch.ops.mkldnn._is_mkldnn_fp16_supported()
    has_avx512 = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return dtype == torch.float32 and (has_avx512 or not torch.backends.mkl.is_available())


class _WithGradient(torch.autograd.Function):
    """y = x Wᵀ + b by oneDNN, whose own call has no gradient."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias, "none", [], "")

    @staticmethod
    @once_differentiable
    def backward(ctx, dy: Tensor) -> tuple[Tensor | None, ...]:  # dy [..., outputs]
        x, weight = ctx.saved_tensors
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = _onednn(dy, weight.t(), None, "none", [], "")  # [..., inputs]
        rows = dy.reshape(-1, dy.shape[-1])  # [rows, outputs]
        if ctx.needs_input_grad[1]:
            columns = x.reshape(-1, x.shape[-1]).t()  # [inputs, rows]
            dw = _onednn(rows.t(), columns, None, "none", [], "")  # [outputs, inputs]
        if ctx.needs_input_grad[2]:
            db = rows.sum(0)  # [outputs]
        return dx, dw, db


class Affine(nn.Module):
    """:func:`affine` as a module, with the same parameters.

    Parameters
    ----------
    weight
        [outputs, inputs]; or [inputs, outputs], if it is ``transposed``.
    bias
        [outputs], or None.
    activation
        As there.
    transposed
        Whether the weight is kept as GPT-2's are.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        activation: str = "none",
        transposed: bool = False,
    ) -> None:
        super().__init__()
        self.weight, self.bias, self.activation = weight, bias, activation
        self.transposed = transposed

    def forward(self, x: Tensor) -> Tensor:  # [..., inputs] to [..., outputs]
        weight = self.weight.t() if self.transposed else self.weight  # [outputs, inputs]
        return affine(x, weight, self.bias, self.activation)

    def pack(self) -> None:
        """Keep the weight in oneDNN's own layout, where oneDNN multiplies numbers of its type.

        It can be neither read nor trained from then on.
        """
        if not _is_for_onednn(self.weight, self.weight):
            return
        packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.data)
        del self.weight  # the name of a parameter, which a packed tensor cannot be
        self.weight = packed


def pack(model: PreTrainedModel) -> PreTrainedModel:
    """Pack a ready model's weights on a CPU, except those that are also read elsewhere.

    It makes products in bfloat16 about a sixth faster. The model is changed in place: what it
    computes has no gradient from then on.
    """
    read = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    # Losses are computed from blocks of the output matrix.
    read.add(id(getattr(model.get_output_embeddings(), "weight", None)))
    for module in model.modules():
        if isinstance(module, Affine) and id(module.weight) not in read:
            module.pack()
    return model


def for_training(model: Network) -> Network:
    """Let a model of the library be trained in fewer and faster calls; it is changed in place.

    Affine maps become :class:`Affine` with the same parameters under the same names, and the tanh
    form of GELU, eight operations, PyTorch's one. It is the same function, up to rounding, and the
    same model once it is saved. oneDNN compiles code for each new shape: with small batches of many
    lengths, that takes longer than the products.
    """
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, NewGELUActivation):
                setattr(parent, name, nn.GELU(approximate="tanh"))
            elif isinstance(child, (Conv1D, nn.Linear)):
                transposed = isinstance(child, Conv1D)
                setattr(parent, name, Affine(child.weight, child.bias, transposed=transposed))
    return model


_ACTIVATIONS = {
    NewGELUActivation: "gelu tanh",
    GELUActivation: "gelu",
    SiLUActivation: "silu",
}


@torch.inference_mode()
def _fused(module: nn.Module) -> nn.Module | None:
    """PyTorch's RMSNorm in place of a library's, which takes seven passes over memory.

    None if the module is none: a class of that name may add 1 to its gains, or do something else.
    """
    weight, eps = getattr(module, "weight", None), getattr(module, "variance_epsilon", None)
    if not type(module).__name__.endswith("RMSNorm") or weight is None or eps is None:
        return None
    fused = nn.RMSNorm(weight.shape, eps=eps)
    fused.weight = weight
    x = torch.linspace(-2, 3, 4 * len(weight), device=weight.device).view(4, -1).to(weight.dtype)
    near = 1e-3 if x.dtype == torch.float32 else 3e-2
    return fused if torch.allclose(fused(x), module(x), rtol=near, atol=near) else None


def ready(model: PreTrainedModel) -> PreTrainedModel:
    """Let a model compute the same function in fewer and faster calls.

    Affine maps, with the activation after them, become :class:`Affine`: GPT-2's activation is eight
    operations in the library, each of which reads and writes the widest tensor of a block. The
    results agree to float32 rounding. Weights are brought from the file that they lie in to memory.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`; it is changed in place.

    Returns
    -------
    The model.
    """
    transposed = set()  # weights that the library keeps as [inputs, outputs]
    is_on_gpu = next(model.parameters()).device.type == "cuda"
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if is_on_gpu and (fused := _fused(child)) is not None:
                setattr(parent, name, fused)
            # A class of a model's own may do more than its product.
            if type(child) is Conv1D or type(child) is nn.Linear:
                activation = "none"
                follows = ACTIVATION_PAIRS.get(name, "")
                if type(getattr(parent, follows, None)) in _ACTIVATIONS:
                    activation = _ACTIVATIONS[type(getattr(parent, follows))]
                    setattr(parent, follows, nn.Identity())
                if isinstance(child, Conv1D):
                    transposed.add(id(child.weight))
                setattr(parent, name, Affine(child.weight, child.bias, activation))
    for parameter in model.parameters():
        _bring(parameter, id(parameter) in transposed)
    return model


def load_ready(
    folder: Path, family: str, device: str, threads: int, is_kept: bool = False
) -> PreTrainedModel:
    """A model as :func:`posenc.models.load.load` reads it, :func:`ready` for many forward passes.

    Parameters
    ----------
    folder, family, is_kept
        As there.
    device
        ``auto``, ``cpu`` or ``cuda``.
    threads
        On which torch computes, as far as the machine has them.
    """
    use_threads(threads)
    return ready(load(folder, family, device_for(device), is_kept))


def _bring(parameter: nn.Parameter, transposed: bool) -> None:
    """Copy a parameter to memory of its own, and let go of the file that it lies in."""
    mapped = parameter.data
    data = mapped.T if transposed else mapped
    parameter.data = data.clone(memory_format=torch.contiguous_format)
    release(mapped)
