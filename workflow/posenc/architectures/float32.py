"""Float32 results of weights that are kept in fewer bits: each module widens its own as it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from posenc.artifacts.precision import is_narrow


@contextlib.contextmanager
def in_float32(model: nn.Module) -> Iterator[None]:
    """Compute in float32 during a block, with the weights kept in the type that they have.

    bfloat16 and float16 are float32 numbers of fewer bits, so that the results are those of the
    same model loaded in float32; the memory is that of its weights, and of one module in float32.

    Parameters
    ----------
    model
        Changed in place during the block; a float32 model stays as it is.
    """
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if any(is_narrow(parameter.dtype) for parameter in module.parameters(recurse=False)):
                if type(module) is nn.Embedding:  # its rows are widened, not all of its table
                    hook = module.register_forward_hook(lambda _, given, rows: rows.float())
                    stack.callback(hook.remove)
                else:
                    _widened(module, stack)
        yield


def exactly_if(is_exact: bool, model: nn.Module) -> contextlib.AbstractContextManager[None]:
    """:func:`in_float32`, or the type that the weights have where a study asks for speed."""
    return in_float32(model) if is_exact else contextlib.nullcontext()


def _widened(module: nn.Module, stack: contextlib.ExitStack) -> None:
    """Widen a module's own parameters while it runs."""
    kept: list[tuple[nn.Parameter, Tensor]] = []

    def widen(*_: Any) -> None:
        for parameter in module.parameters(recurse=False):
            if is_narrow(parameter.dtype):
                kept.append((parameter, parameter.data))
                parameter.data = parameter.data.float()

    def restore(*_: Any) -> None:
        while kept:
            parameter, data = kept.pop()
            parameter.data = data

    stack.callback(module.register_forward_pre_hook(widen).remove)
    stack.callback(module.register_forward_hook(restore, always_call=True).remove)


def keeping(made_by: type[Any], kind: torch.dtype) -> type[Any]:
    """A class of the library whose weights are of a type, and whose buffers are float32.

    The library's own option would round what it computes by itself too: the scale of embeddings,
    for one.
    """

    def init(self: Any, *given: Any, **named: Any) -> None:
        made_by.__init__(self, *given, **named)
        for parameter in self.parameters():  # on no device yet
            parameter.data = parameter.data.to(kind)

    return type(made_by.__name__, (made_by,), {"__init__": init})
