"""Runs of a model that are compared: with the library's attention, or with the registered one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc.architectures.architecture import Architecture, quiet
from posenc.architectures.needs import ArchitectureError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FLOAT32 = 2e-4
"""Relative difference of hidden states that float32 rounding explains, against the largest."""
LONGEST = 512
"""Tokens of the longest text that is run."""
FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, KeyError)
"""What a model of the library raises where it does not run in a way that it is asked to."""
WORK = 2e9
"""Parameters times tokens of the longest text: a large model is run on short texts alone."""


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes
    ----------
    name
        What is compared.
    difference
        The largest; of hidden states relative to the largest value.
    allowed
        Up to which difference it holds.
    reason
        Why there was nothing to compare, if so.
    """

    name: str
    difference: float | None
    allowed: float
    reason: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the difference is as small as it has to be."""
        return self.difference is not None and self.difference <= self.allowed

    @property
    def problem(self) -> str | None:
        """What is wrong; None if nothing is."""
        if self.holds:
            return None
        return self.reason or f"{self.name} differ by {self.difference:.1e}"


@contextlib.contextmanager
def under(model: PreTrainedModel, name: str) -> Iterator[None]:
    """Let a model compute its attention by another implementation, during a block."""
    former = model.config._attn_implementation
    if former != name:
        model.set_attn_implementation(name)
    try:
        yield
    finally:
        if former != name:
            model.set_attn_implementation(former)


def sample_ids(model: PreTrainedModel, tokens: int) -> list[int]:
    """Tokens that are neither padding nor special.

    Raises
    ------
    ArchitectureError
        If the model has no table of input embeddings.
    """
    config = model.config
    try:
        weight = getattr(model.get_input_embeddings(), "weight", None)
    except (AttributeError, NotImplementedError):
        weight = None
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        kind = getattr(config, "model_type", type(model).__name__)
        raise ArchitectureError(
            f"{kind}: it has no table with an input embedding for each token, as texts need"
        )
    size = len(weight)
    special: set[Any] = set()
    for name in ("pad", "bos", "eos", "sep", "cls"):
        token = getattr(config, f"{name}_token_id", None)
        special |= set(token) if isinstance(token, list) else {token}
    plain = [number for number in range(size - 1, -1, -1) if number not in special]
    return [plain[(7 * step) % len(plain)] for step in range(1, tokens + 1)]


def ids_of(arch: Architecture, ids: Sequence[int]) -> Tensor:
    """A document as the model takes it, [1, tokens]."""
    device = next(arch.model.parameters()).device
    return torch.tensor([list(ids)], device=device)  # [1, tokens]


def whole(arch: Architecture, ids: Sequence[int], **options: Any) -> Any:
    """The model's output for one document alone."""
    arch.begin()
    model = arch.model
    return model(ids_of(arch, ids), **quiet(model, output_hidden_states=True, **options))


def states_alone(arch: Architecture, ids: Sequence[int]) -> list[Tensor]:
    """Hidden states of one document by layer, of the body alone, as runs take them."""
    arch.begin()
    output = arch.body(ids_of(arch, ids), **quiet(arch.body, output_hidden_states=True))
    return list(output.hidden_states)


def at_most(arch: Architecture) -> int:
    """Tokens of the longest row that a check may run."""
    return min(LONGEST, int(WORK / sum(x.numel() for x in arch.model.parameters())))


def affordable(arch: Architecture) -> int:
    """Tokens of the longest document that a check may run."""
    return at_most(arch) if arch.positions is None else min(at_most(arch), arch.positions)


def states_of(outputs: Sequence[Any]) -> list[list[Tensor]]:
    """Hidden states of each output, by layer."""
    return [list(output.hidden_states) for output in outputs]


def worse(worst: float, difference: float) -> float:
    """The larger of two differences; one that is no number is infinite."""
    return max(worst, difference) if difference == difference else float("inf")


def apart(ours: Sequence[Sequence[Tensor]], theirs: Sequence[Sequence[Tensor]]) -> float:
    """The largest difference of hidden states, relative to the largest of their layer."""
    worst = 0.0
    for our_states, their_states in zip(ours, theirs, strict=True):
        for a, b in zip(our_states, their_states, strict=True):
            scale = float(b.abs().max()) or 1.0
            worst = worse(worst, float((a.float() - b.float()).abs().max()) / scale)
    return worst


def check_finite(arch: Architecture, outputs: Sequence[Any]) -> None:
    """Refuse a model whose own run gives what is no number, and say where it begins.

    Raises
    ------
    ArchitectureError
        If a hidden state is infinite or not a number.
    """
    for states in states_of(outputs):
        for layer, state in enumerate(states):
            if not bool(state.isfinite().all()):
                _refuse(arch, f"after block {layer}" if layer else "after the embeddings")


def _refuse(arch: Architecture, where: str) -> None:
    named = (name for name, x in arch.model.named_parameters() if not bool(x.isfinite().all()))
    if (name := next(named, None)) is not None:
        why = f"its weight {name} has such values: take the weights again from where they came"
    else:
        why = "its weights are finite, but their products are too large for float32: take others"
    raise ArchitectureError(
        f"{arch.model_type}: {where} hidden states are infinite or not a number (NaN), in the "
        f"library's own run of it too; {why}"
    )
