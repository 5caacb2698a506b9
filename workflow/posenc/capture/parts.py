"""The parts of the library's models that conditions touch, as :mod:`posenc.architectures` finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

from posenc.architectures.architecture import LINEAR, Architecture
from posenc.architectures.discover import of
from posenc.architectures.position import Rotation, Table

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class ConditionError(RuntimeError):
    """A condition does not fit the model or the document."""

    is_user_error = True


def is_decoder(model: PreTrainedModel) -> bool:
    """Whether a model is a causal language model, which has losses."""
    return of(model).has_losses


def is_causal(model: PreTrainedModel) -> bool:
    """Whether no token of a model sees a later one."""
    return of(model).causal


def body(model: PreTrainedModel) -> nn.Module:
    """A model without its language-model head; itself where it has none."""
    return of(model).body


def blocks(model: PreTrainedModel) -> Sequence[nn.Module]:
    """The model's Transformer blocks in order.

    Raises
    ------
    ConditionError
        If they are no list of blocks, each of which holds the attention of one layer.
    """
    arch = of(model)
    if not arch.blocks:
        raise ConditionError(f"the layers of {arch.model_type} are no list of blocks")
    return arch.blocks


def is_rotary(model: PreTrainedModel) -> bool:
    """Whether a model turns queries and keys in place of adding embeddings."""
    return isinstance(of(model).position, Rotation)


def rotary(model: PreTrainedModel) -> nn.Module:
    """The module that gives a rotary model's angles.

    Raises
    ------
    ConditionError
        If there are several, or none.
    """
    arch = of(model)
    modules: Sequence[nn.Module] = getattr(arch.position, "modules", ())
    if len(modules) != 1:
        raise ConditionError(f"{arch.model_type} has {len(modules)} modules that give angles")
    return modules[0]


def positions_of(model: PreTrainedModel) -> str:
    """How positions come into a model: ``table``, ``rotation`` or ``none``."""
    return of(model).position.kind


def table(model: PreTrainedModel) -> Table:
    """A model's table of position embeddings.

    Raises
    ------
    ConditionError
        If it has none.
    """
    arch = of(model)
    if not isinstance(arch.position, Table):
        raise ConditionError(f"{arch.model_type} has no learned position embeddings")
    return arch.position


def position_embedding(model: PreTrainedModel) -> nn.Embedding:
    """The module that holds a model's position embeddings, see :func:`table`."""
    return table(model).module


def first_row(model: PreTrainedModel) -> int:
    """Row of the first position that a token can have, as the model reads its table."""
    return getattr(of(model).position, "first", 0)


def first_position(model: PreTrainedModel) -> int:
    """The position id of a document's first token."""
    position = of(model).position
    return position.first - position.shift if isinstance(position, Table) else 0


def logits(model: PreTrainedModel, last: Tensor) -> Tensor:
    """Logits of hidden states after the final norm, [tokens, d_model] to [tokens, vocabulary]."""
    arch = of(model)
    return model.get_output_embeddings()(last) if arch.head == LINEAR else arch.logits(last)


def architecture(model: PreTrainedModel) -> Architecture:
    """All that was found out about a model."""
    return of(model)
