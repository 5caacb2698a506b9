"""The parts of the library's models that conditions touch."""

from __future__ import annotations

from torch import nn

from posenc.conditions.positions import ROTATION, TABLE


class ConditionError(RuntimeError):
    """A condition does not fit the model or the document."""

    is_user_error = True


def is_decoder(model: nn.Module) -> bool:
    """Whether a model is a causal language model."""
    return body(model) is not model


def body(model: nn.Module) -> nn.Module:
    """A model without its language-model head; an encoder has none."""
    return getattr(model, "transformer", getattr(model, "model", model))


def blocks(model: nn.Module) -> nn.ModuleList:
    """The model's Transformer blocks in order."""
    inner = body(model)
    for name in ("h", "layers"):
        if hasattr(inner, name):
            return getattr(inner, name)
    return inner.encoder.layer


def is_rotary(model: nn.Module) -> bool:
    """Whether a model of the library turns queries and keys in place of adding embeddings."""
    return hasattr(body(model), "rotary_emb")


def rotary(model: nn.Module) -> nn.Module:
    """The library's module that gives a rotary model's angles."""
    return body(model).rotary_emb


def positions_of(model: nn.Module) -> str:
    """How positions come into a model: ``table`` or ``rotation``."""
    return ROTATION if is_rotary(model) else TABLE


def position_embedding(model: nn.Module) -> nn.Embedding:
    """The module that holds a model's learned position embeddings.

    Raises
    ------
    ConditionError
        If the model has none.
    """
    for name, module in model.named_modules():
        if name.rsplit(".", 1)[-1] in ("position_embeddings", "wpe"):
            return module
    raise ConditionError(f"{type(model).__name__} has no learned position embeddings")


def first_row(embedding: nn.Embedding) -> int:
    """Row of the first position that a token can have: RoBERTa's come after its padding's."""
    return 0 if embedding.padding_idx is None else embedding.padding_idx + 1


def first_position(model: nn.Module) -> int:
    """The position id of a document's first token."""
    return 0 if is_rotary(model) else first_row(position_embedding(model))
