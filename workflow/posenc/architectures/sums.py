"""What a model with a table adds up before its first block: tokens, positions, and a constant.

Nothing is taken on trust: the sum is compared with what passes through the model itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.architectures.architecture import Architecture, quiet
from posenc.architectures.float32 import in_float32
from posenc.architectures.maps import Norm, norm_between, norms_of
from posenc.architectures.needs import NotKnown
from posenc.architectures.position import Table

CLOSE = 1e-5
"""Difference of a sum, relative to its largest value, that float32 rounding explains."""


@dataclass(frozen=True, eq=False)
class Sums:
    """The terms of a sum of embeddings, and what normalises it.

    Attributes
    ----------
    tokens
        float32 [vocabulary, d_model].
    positions
        float32 [positions, d_model], from the first token's on.
    constant
        float32 [d_model]: what is added to every token, such as the embedding of its type.
    norm
        Between the sum and the first block; None where there is none.
    """

    tokens: Tensor
    positions: Tensor
    constant: Tensor
    norm: Norm | None


@torch.inference_mode()
def sums_of(arch: Architecture, ids: Sequence[int]) -> Sums:
    """The terms of the sum that a model makes of a text.

    Parameters
    ----------
    arch
        The model.
    ids
        Tokens of the text that proves them.

    Raises
    ------
    NotKnown
        If there is no table, or the model makes another sum.
    """
    table, embedding = arch.position, arch.input_embedding
    if not isinstance(table, Table):
        raise NotKnown("its positions are no table")
    if arch.embeddings is None:
        raise NotKnown("its layers are no list of blocks")
    inside = {id(part) for block in arch.blocks for part in block.modules()}
    outside = [module for module in arch.body.modules() if id(module) not in inside]
    summed: list[Tensor] = []
    given: list[Tensor] = []

    def keep(x: Tensor) -> Tensor:
        summed.append(x)
        return x

    hook = arch.blocks[0].register_forward_pre_hook(
        lambda _, inputs, named: given.append(inputs[0] if inputs else named["hidden_states"]),
        with_kwargs=True,
    )
    device = embedding.weight.device
    text = torch.tensor([list(ids)], device=device)  # [1, tokens]
    with in_float32(arch.model):
        try:
            with arch.embeddings.changed(keep), norms_of(outside) as passed:
                arch.begin()
                arch.body(text, **quiet(arch.body))
        finally:
            hook.remove()
        every = torch.arange(arch.vocabulary_size, device=device)
        tokens = embedding(every)  # [vocabulary, d_model]
    weight = table.module.weight.detach().float()  # [rows, d_model]
    rows = torch.as_tensor(table.rows(ids), device=device)  # [tokens]
    if tokens.shape[-1] != arch.d_model or weight.shape[-1] != arch.d_model:
        raise NotKnown("its embeddings are of another width than its hidden states")
    rest = summed[0][0] - tokens[text[0]] - weight[rows]  # [tokens, d_model]
    constant, rounding = rest.mean(dim=0), CLOSE * float(summed[0].abs().max())
    if float((rest - constant).abs().max()) > rounding:
        raise NotKnown("what its blocks are given is not the sum of a token's and a position's row")
    if float(constant.abs().max()) <= rounding:
        constant = torch.zeros_like(constant)
    norm = norm_between(summed[0], given[0], passed, "what its first block is given")
    return Sums(tokens, weight[table.first :], constant, norm)
