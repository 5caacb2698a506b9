"""What a model's normalisations are given, and what they return (row C5)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from posenc.architectures.needs import NotKnown
from posenc.capture.capture import packed_last
from posenc.capture.parts import blocks, body, is_decoder

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Normalisation(NamedTuple):
    """One of a model's normalisations.

    Attributes
    ----------
    name
        Where it is, in words.
    layer
        Of which block, from 0; None for the embedding's, and for the one after the last block.
    added
        What was added to the residual stream just before it: ``tokens``, ``attention``, ``mlp``.
    module
        Of the library.
    """

    name: str
    layer: int | None
    added: str
    module: nn.LayerNorm


def normalisations(model: PreTrainedModel) -> list[Normalisation]:
    """All of them, in the order in which a token passes them: 2 n_layers + 1.

    Raises
    ------
    NotKnown
        If there are fewer or more.
    """
    norms = [module for module in body(model).modules() if isinstance(module, nn.LayerNorm)]
    layers = range(len(blocks(model)))
    if len(norms) != 2 * len(layers) + 1:
        raise NotKnown(
            f"{type(model).__name__} has {len(norms)} layer normalisations, not two for each of "
            f"{len(layers)} blocks and one more: its path is not known"
        )
    named: list[tuple[str, int | None, str]]
    if is_decoder(model):
        named = [
            (f"block {layer}, before {what}", layer, added)
            for layer in layers
            for what, added in (("attention", "mlp" if layer else "tokens"), ("MLP", "attention"))
        ] + [("last", None, "mlp")]
    else:
        named = [("embedding", None, "tokens")] + [
            (f"block {layer}, after {what}", layer, what.lower())
            for layer in layers
            for what in ("attention", "MLP")
        ]
    return [
        Normalisation(name, layer, added, module)
        for (name, layer, added), module in zip(named, norms, strict=True)
    ]


@torch.inference_mode()
def passed(model: PreTrainedModel, documents: list[list[int]]) -> list[tuple[Tensor, Tensor]]:
    """Run documents, and give the input and the output of each normalisation, in their order.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    documents
        Token ids.

    Returns
    -------
    Input and output, [tokens, d_model] each, documents in one row.

    Raises
    ------
    NotKnown
        If they are passed in another order, or stand elsewhere: a decoder's block begins with one
        of its own, and an encoder's is given what one makes.
    """
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def keep(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        seen[module] = inputs[0][0], output[0]  # [1, tokens, d_model] each

    begun: list[Tensor] = []  # what each block is given, [tokens, d_model]

    def begin(module: nn.Module, inputs: tuple, named: dict) -> None:
        begun.append((inputs[0] if inputs else named["hidden_states"])[0])

    modules = [norm.module for norm in normalisations(model)]
    with ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(keep).remove)
        for block in blocks(model):
            hook = block.register_forward_pre_hook(begin, with_kwargs=True)
            stack.callback(hook.remove)
        packed_last(model, documents)
    if list(seen) != modules:
        raise NotKnown("its normalisations are passed in an order that is not known")
    # Of each block, the normalisation that stands where it begins.
    for layer, start in enumerate(begun):
        given, normalised = seen[modules[2 * layer]]
        if not torch.equal(start, given if is_decoder(model) else normalised):
            raise NotKnown(f"layer {layer} normalises its parts in a place that is not known")
    return list(seen.values())
