"""The library's attention under masks: of padded rows, or of documents packed into one row.

Attention goes through the library's attention interface. A bias and factors that depend on the key
alone keep the library's fused attention; other factors compute it in full.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from posenc.architectures import attention
from posenc.architectures.architecture import Layer
from posenc.architectures.attention import layer_of
from posenc.architectures.discover import of
from posenc.architectures.options import Options
from posenc.capture.branches import KEPT, Branch, Documents, branch_of, lengths_of, real_keys
from posenc.capture.parts import ConditionError
from posenc.capture.ragged import Ragged

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PairScores = Callable[[Tensor, Tensor, Documents], Tensor]
"""Products of a layer's queries and keys, [batch, n_heads, tokens, d_head] each, of documents, as a
matrix [batch, n_heads, tokens, tokens]."""
NAME = "posenc_conditions"
PACKED = "posenc_packed"


@dataclass
class Batch:
    """What the attention has to know about the forward pass under way.

    Attributes
    ----------
    branches
        Those whose rows are in the batch by now, in the order of the rows; None is the trunk.
    documents
        Token ids of each document, without padding; None when no row is padded.
    is_packed
        Whether all documents lie in one row, one after the other.
    """

    branches: list[Branch]
    documents: Sequence[Sequence[int]] | None = None
    is_packed: bool = False
    _ragged: Ragged | None = None

    def groups(self) -> Iterator[tuple[int, list[Sequence[int]]]]:
        """Packed documents that are neighbours of equal length, and where they begin."""
        begin = 0
        for length, group in itertools.groupby(self.documents, key=len):
            documents = list(group)
            yield begin, documents
            begin += len(documents) * length

    @functools.cached_property
    def lengths(self) -> list[int]:
        """Tokens of each packed document."""
        return lengths_of(self.documents)

    def ragged(self, device: torch.device) -> Ragged:
        """Where packed documents lie; made once for all layers."""
        if self._ragged is None:
            self._ragged = Ragged.of(self.lengths, device)
        return self._ragged


_batch: Batch | None = None
_layers: Sequence[Layer] = ()
"""Of the model that the forward pass is of."""
_pairs: Mapping[int, PairScores] = {}
"""By layer, see :func:`scored`."""


def _attention(
    module: nn.Module,
    query: Tensor,  # [branches * batch, n_heads, tokens, d_head]
    key: Tensor,  # [branches * batch, key_value_heads, tokens, d_head]
    value: Tensor,  # [branches * batch, key_value_heads, tokens, d_head]
    attention_mask: Tensor | None,
    **kwargs,
) -> tuple[Tensor, None]:
    if _batch is None:
        raise ConditionError("the model's attention was left without a condition")
    if all(layer.module is not module for layer in _layers):  # of a model that shares its config
        return attention._attention(module, query, key, value, attention_mask, **kwargs)
    layer, options, own = layer_of(module), Options.of(query, key, kwargs), value
    key, value = (attention.by_query_head(x, query.shape[1]) for x in (key, value))
    # The recorder of the plain implementation: captures go through either.
    if attention._active is not None:
        attention._active.keep(layer, query, key, own, options)
    if _batch.is_packed:
        return _packed_attention(layer, query, key, value, options), None
    size = len(query) // len(_batch.branches)
    longest = query.shape[2]
    documents = _batch.documents or [longest] * size
    parts = []
    for number, branch in enumerate(_batch.branches):
        part = slice(number * size, (number + 1) * size)
        given = (query[part], key[part], value[part])
        own_options = options.of_rows(part)
        parts.append(_attend(layer, *given, branch, documents, own_options, attention_mask))
    joined = torch.cat(parts) if len(parts) > 1 else parts[0]
    return joined.transpose(1, 2).contiguous(), None  # [branches * batch, tokens, n_heads, d_head]


def _packed_attention(
    layer: int,
    query: Tensor,  # [branches, n_heads, tokens, d_head]
    key: Tensor,  # [branches, n_heads, tokens, d_head]
    value: Tensor,  # [branches, n_heads, tokens, d_value]
    options: Options,
) -> Tensor:
    """Attention of each document to itself, [branches, tokens, n_heads, d_value]."""
    n_heads, tokens, width = value.shape[1:]
    out = query.new_empty(len(query), tokens, n_heads, width)
    for row, branch in enumerate(_batch.branches):
        is_one = is_together(query.device) and branch.serves_all(layer)
        if is_one and not options.has_bias:
            parts = [x[row] for x in (query, key, value)]  # [n_heads, tokens, d_head] each
            out[row] = _together(layer, *parts, branch, options)
            continue
        for begin, documents in _batch.groups():
            number, length = len(documents), len(documents[0])
            span = slice(begin, begin + number * length)
            parts = [
                # [number, n_heads, length, d_head]
                x[row, :, span].unflatten(1, (number, length)).transpose(0, 1)
                for x in (query, key, value)
            ]
            own = options.of_span(slice(begin, begin + length)) if number == 1 else options
            if number > 1 and options.has_bias:
                raise ConditionError("a bias on positions is of one document of each length only")
            attended = _attend(layer, *parts, branch, documents, own)
            out[row, span].view(number, length, n_heads, width).copy_(attended.transpose(1, 2))
    return out


def is_together(device: torch.device) -> bool:
    """Whether packed documents of all lengths are computed in one call."""
    return device.type == "cuda"


def _together(
    layer: int,
    query: Tensor,  # [n_heads, tokens, d_head]
    key: Tensor,  # [n_heads, tokens, d_head]
    value: Tensor,  # [n_heads, tokens, d_head]
    branch: Branch,
    options: Options,
) -> Tensor:
    """Attention of each document to itself, in one call: [tokens, n_heads, d_head]."""
    ragged = _batch.ragged(query.device)
    is_plain = not branch.acts_on(layer) and layer not in _pairs and options.is_plain
    is_plain = is_plain and _layers[layer].sees(ragged.longest) is None
    if is_plain and query.dtype == torch.bfloat16:
        return ragged.attend(query, key, value, options.scaling, branch.causal)
    parts = (ragged.padded(x) for x in (query, key, value))
    return ragged.packed(_attend(layer, *parts, branch, _batch.lengths, options))


def _attend(
    layer: int,
    query: Tensor,  # [batch, n_heads, tokens, d_head]
    key: Tensor,  # [batch, n_heads, tokens, d_head]
    value: Tensor,  # [batch, n_heads, tokens, d_head]
    branch: Branch,
    documents: Documents,
    options: Options,
    own_mask: Tensor | None = None,
) -> Tensor:
    """Attention of one branch, [batch, n_heads, tokens, d_head].

    ``own_mask`` is what the library made of the model's mask; it is used only where the model made
    the mask itself.
    """
    longest, lengths = query.shape[2], lengths_of(documents)
    # PyTorch's fused attention is no faster in bfloat16 than in float32 on a CPU.
    is_fused = query.dtype != torch.bfloat16 or query.device.type != "cpu"
    pairs = _pairs.get(layer)  # see `scored`
    is_fused = is_fused and pairs is None and options.is_plain
    # [batch, n_heads, tokens, tokens]
    products = None if pairs is None else pairs(query, key, documents)
    window = _hidden(layer, longest, query.device)  # [tokens, tokens]
    if not branch.acts_on(layer):
        is_padded = not branch.causal and min(lengths) < longest
        mask = real_keys(lengths, longest, query.device) if is_padded else None
        if _layers[layer].mask is None:
            mask, is_causal = own_mask, False
        elif window is not None:
            mask, is_causal = window if mask is None else mask & window, False
        else:
            is_causal = branch.causal
        if is_fused:
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=is_causal, scale=options.scaling
            )
        bias = attention.as_bias(mask, longest, False, query.device)
        if is_causal:
            bias = _future(longest).to(query.device)
        return attention.explicit(query, key, value, options, bias, products=products)
    if _layers[layer].mask is None:
        raise ConditionError(
            f"layer {layer} of the model makes a mask of its own: a condition cannot change it"
        )
    tensors = branch.tensors(layer, documents, longest, query.device)
    score_factor, pattern_factor = tensors["score_factor"], tensors["pattern_factor"]
    whole = tensors["bias"]  # [batch or 1, n_heads or 1, tokens, tokens]
    if window is not None:
        whole = torch.where(window, whole, -torch.inf)
    by_key = [f is None or f.shape[-2] == 1 for f in (score_factor, pattern_factor)]
    if all(by_key) and is_fused:
        if score_factor is not None:
            key = key * score_factor.transpose(-1, -2).to(key.dtype)  # m_j k_j: q k_j times m_j
        if pattern_factor is not None:
            value = value * pattern_factor.transpose(-1, -2).to(value.dtype)  # p_j m_j v_j
        bias = whole.to(query.dtype).expand(len(query), -1, -1, -1)
        if bias.requires_grad and not query.requires_grad:
            # A GPU keeps what the gradient of a bias needs where queries have one, and only there.
            query = query.detach().requires_grad_()
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, scale=options.scaling
        )
    return attention.explicit(
        query, key, value, options, whole, score_factor, pattern_factor, products
    )


def _hidden(layer: int, tokens: int, device: torch.device) -> Tensor | None:
    """Which keys the model's own window leaves a query, bool [tokens, tokens]; None if all."""
    sees = _layers[layer].sees(tokens)
    return None if sees is None else sees.to(device)


@functools.lru_cache(maxsize=KEPT)
def _future(length: int) -> Tensor:
    """What hides the keys after each query, float32 [length, length]; all layers share it."""
    return torch.full((length, length), -torch.inf).triu_(1)


@contextlib.contextmanager
def scored(scores: Mapping[int, PairScores]) -> Iterator[None]:
    """Let layers take other products of queries and keys, during a block.

    Parameters
    ----------
    scores
        By layer, what gives the products; the other layers keep theirs.
    """
    global _pairs
    previous, _pairs = _pairs, {**_pairs, **scores}
    try:
        yield
    finally:
        _pairs = previous


@contextlib.contextmanager
def _routed(model: PreTrainedModel, name: str, mask: Callable, batch: Batch) -> Iterator[None]:
    """Route the model's attention through this module, under a name that the library knows."""
    global _batch, _layers
    AttentionInterface.register(name, _attention)
    AttentionMaskInterface.register(name, mask)
    previous, former = (_batch, _layers), model.config._attn_implementation
    _batch, _layers = batch, of(model).layers
    if former != name:
        model.set_attn_implementation(name)
    try:
        yield
    finally:
        _batch, _layers = previous
        if former != name:
            model.set_attn_implementation(former)


@contextlib.contextmanager
def attending(model: PreTrainedModel, batch: Batch) -> Iterator[Batch]:
    """Let the rows of the forward pass attend under the masks of a batch, during a block."""
    with _routed(model, NAME, sdpa_mask, batch):
        yield batch


@contextlib.contextmanager
def packed(model: PreTrainedModel, documents: Sequence[Sequence[int]]) -> Iterator[None]:
    """Treat the one row of the forward pass as several documents, during a block.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, under a condition or not.
    documents
        Token ids of each document, in order.
    """
    branches = _batch.branches if _batch else [branch_of(model, None)]
    # The library must build no mask: it would let documents attend to each other.
    # The list of branches is shared: rows that part from the trunk are added to it on the way.
    batch = Batch(branches, documents, is_packed=True)
    with _routed(model, PACKED, lambda *_, **__: None, batch):
        yield


@contextlib.contextmanager
def of_documents(documents: Sequence[Sequence[int]]) -> Iterator[None]:
    """Say what the documents of a padded batch are, for masks that depend on it."""
    if _batch is None:
        yield
        return
    previous, _batch.documents = _batch.documents, documents
    try:
        yield
    finally:
        _batch.documents = previous


def embedding_factors(branch: Branch, x: Tensor) -> Tensor:  # x [batch, tokens, d_model]
    """What the rows of a padded batch are multiplied by, [batch, tokens, 1]."""
    if _batch is not None and _batch.is_packed:
        each = [torch.from_numpy(branch.embedding_factor(len(ids))) for ids in _batch.documents]
        return torch.cat(each)[None, :, None].to(x)
    lengths = lengths_of((_batch.documents if _batch else None) or [x.shape[1]] * len(x))
    factors = torch.ones(len(lengths), x.shape[1], 1)
    for row, length in enumerate(lengths):
        factors[row, :length, 0] = torch.from_numpy(branch.embedding_factor(length))
    return factors.to(x)
