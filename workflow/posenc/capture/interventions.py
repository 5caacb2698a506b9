"""Conditions applied to the library's own model, in memory, for the duration of a block.

Position embeddings are exchanged, attention goes through the library's attention interface, and
hooks touch the embeddings. Several conditions that differ in their mask alone run in one forward
pass: their rows part from the common trunk at the first layer that differs. A bias and factors that
depend on the key alone keep the library's fused attention; other factors compute it in full.

Documents come as padded rows, or packed: one after the other in a single row, each attending to
itself alone.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from posenc.conditions import positions, profiles
from posenc.conditions import semantics as rows
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition, LearnedPosition, Mask, Scale
from posenc.conditions.semantics import Change
from posenc.models import attention, schemes

NAME = "posenc_conditions"
PACKED = "posenc_packed"


class ConditionError(RuntimeError):
    """A condition does not fit the model or the document."""

    is_user_error = True


KEPT = 64
"""For how many lengths of documents a mask's tensors are held."""
_NOTHING = {"bias": None, "score_factor": None, "pattern_factor": None}


@dataclass
class Branch:
    """The mask of one condition, and the tensors that it has been made into.

    Attributes
    ----------
    mask
        What it does; None for nothing.
    learned
        The learned bias that the mask names, if it does.
    """

    mask: Mask | None
    n_layers: int
    n_heads: int
    causal: bool
    learned: LearnedMask | None = None
    _made: dict = field(default_factory=dict)
    _biases: dict[int, Tensor] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """First layer that it acts on; the number of layers when it acts on none."""
        if self.mask is None:
            return self.n_layers
        return min(self.mask.layers) if self.mask.layers else 0

    def acts_on(self, layer: int) -> bool:
        """Whether it changes the attention of a layer."""
        if self.mask is None or self.mask.semantics == "emb_mul":
            return False
        return not self.mask.layers or layer in self.mask.layers

    def change(self, layer: int, length: int) -> Change:
        """What it does to the attention of a layer in a document of so many tokens."""
        mask = self.mask
        if mask.semantics == "additive":
            if self.learned is not None:
                bias = self.learned.bias(layer, length)  # [n_heads, length, length]
            else:
                places = profiles.Places.of(length, self.n_heads)
                bias = profiles.bias.call(mask.profile, places)
            return rows.additive(bias)
        document = profiles.Document(length, per_query=mask.span == "query")
        return rows.semantics.call(
            mask.semantics, profiles.factor.call(mask.profile, document), self.causal
        )

    def embedding_factor(self, length: int) -> np.ndarray | None:
        """What the input of the first block is multiplied by, float64 [length]."""
        if self.mask is None or self.mask.semantics != "emb_mul":
            return None
        return self.change(0, length).embedding_factor

    def tensors(self, layer: int, lengths: Sequence[int], longest: int, device) -> dict:
        """Its change for a padded batch: bias, and factors where there are any.

        Returns
        -------
        dict
            ``bias`` [batch or 1, n_heads or 1, longest, longest], causal mask and padding included;
            ``score_factor`` and ``pattern_factor``, [batch or 1, n_heads or 1, longest or 1,
            longest], or None.
        """
        is_padded = min(lengths) < longest
        layer = 0 if self.learned is None else layer  # only a learned bias differs between layers
        # A decoder's bias is the same for every document: padding lies in the future.
        if self.mask.semantics == "additive" and (self.causal or not is_padded):
            return {**_NOTHING, "bias": self._bias(layer, longest, device)}
        sizes = tuple(lengths) if is_padded else (longest,)
        key = (layer, longest, sizes)
        if key not in self._made:
            while len(self._made) >= KEPT:
                del self._made[next(iter(self._made))]
            self._made[key] = self._make(layer, sizes, longest, device)
        return self._made[key]

    def _bias(self, layer: int, longest: int, device) -> Tensor:
        """Of the longest documents so far; that of shorter ones is a part of it."""
        whole = self._biases.get(layer)
        if whole is None or whole.shape[-1] < longest:
            whole = self._make(layer, [longest], longest, device)["bias"]
            self._biases[layer] = whole
        return whole[..., :longest, :longest]

    def _make(self, layer: int, lengths: Sequence[int], longest: int, device) -> dict:
        # A bias is the same for every document, but for its padding.
        shared = self.mask.semantics == "additive"
        sizes = [longest] if shared else lengths
        each = [self._padded(self.change(layer, size), size, longest) for size in sizes]
        made = {
            name: None if each[0][name] is None else torch.stack([one[name] for one in each])
            for name in each[0]
        }
        made = {name: value if value is None else value.to(device) for name, value in made.items()}
        if shared and not self.causal:
            made["bias"] = unpadded(made["bias"], lengths)
        return made

    def _padded(self, change: Change, length: int, longest: int) -> dict[str, Tensor | None]:
        chosen = np.ones(self.n_heads, bool)
        if self.mask.heads:
            chosen[:] = False
            chosen[self.mask.heads] = True
        hidden = np.zeros((length, length), bool)
        if self.causal and not change.sees_future:
            hidden = rows.future(length)
        bias = np.zeros((1, 1, 1)) if change.bias is None else change.bias
        bias = bias if bias.ndim == 3 else bias[None]  # [n_heads or 1, length or 1, length]
        with np.errstate(over="ignore"):
            bias = bias.astype(np.float32)
        if not chosen.all():
            causal = np.where(rows.future(length) & self.causal, -np.inf, 0.0)  # [length, length]
            bias = np.where(chosen[:, None, None], np.where(hidden, -np.inf, bias), causal)
        else:
            bias = np.where(hidden, -np.inf, bias)
        if np.isneginf(bias).all(axis=-1).any():
            raise ConditionError(
                f"the mask {self.mask.semantics} with the profile {self.mask.profile.kind} leaves "
                f"a query without any key (its factor is 0): raise the profile's floor above 0"
            )
        # Padded keys are seen by none; padded queries see what the document's do, and are not used.
        whole = np.full((bias.shape[0], longest, longest), -np.inf, np.float32)
        whole[:, :length, :length] = bias
        whole[:, length:, 0] = 0.0
        made = {"bias": torch.from_numpy(whole)}
        for name in ("score_factor", "pattern_factor"):
            factor = getattr(change, name)  # [length or 1, length]
            made[name] = None
            if factor is not None:
                padded = np.ones((1, 1 if factor.shape[-2] == 1 else longest, longest), np.float32)
                padded[0, : factor.shape[-2], :length] = factor
                if not chosen.all():
                    padded = np.where(chosen[:, None, None], padded, np.float32(1))
                made[name] = torch.from_numpy(padded)
        return made


@dataclass
class Batch:
    """What the attention has to know of the forward pass that is on its way.

    Attributes
    ----------
    branches
        Those whose rows are in the batch by now, in the order of the rows; None is the trunk.
    lengths
        Tokens of each document, without padding; None when no row is padded.
    is_packed
        Whether all documents lie in one row, one after the other.
    """

    branches: list[Branch]
    lengths: list[int] | None = None
    is_packed: bool = False

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """Begin, number and length of packed documents that are neighbours of equal length."""
        begin = 0
        for length, group in itertools.groupby(self.lengths):
            number = len(list(group))
            yield begin, number, length
            begin += number * length


_batch: Batch | None = None


def _attention(
    module: nn.Module,
    query: Tensor,  # [branches * batch, n_heads, tokens, d_head]
    key: Tensor,  # [branches * batch, n_heads, tokens, d_head]
    value: Tensor,  # [branches * batch, n_heads, tokens, d_head]
    attention_mask: Tensor | None,
    **kwargs,
) -> tuple[Tensor, None]:
    # The recorder of the plain implementation: captures go through either.
    if attention._active is not None:
        attention._active.queries[module.layer_idx] = query
        attention._active.keys[module.layer_idx] = key
    if _batch is None:
        raise ConditionError("the model's attention was left without a condition")
    if _batch.is_packed:
        return _packed_attention(module, query, key, value, kwargs), None
    size = len(query) // len(_batch.branches)
    longest = query.shape[2]
    lengths = _batch.lengths or [longest] * size
    parts = []
    for number, branch in enumerate(_batch.branches):
        part = slice(number * size, (number + 1) * size)
        parts.append(_attend(module, query[part], key[part], value[part], branch, lengths, kwargs))
    joined = torch.cat(parts) if len(parts) > 1 else parts[0]
    return joined.transpose(1, 2).contiguous(), None  # [branches * batch, tokens, n_heads, d_head]


def _packed_attention(
    module: nn.Module,
    query: Tensor,  # [branches, n_heads, tokens, d_head]
    key: Tensor,  # [branches, n_heads, tokens, d_head]
    value: Tensor,  # [branches, n_heads, tokens, d_head]
    options: Mapping,
) -> Tensor:
    """Attention of each document to itself, [branches, tokens, n_heads, d_head]."""
    n_heads, tokens, width = query.shape[1:]
    out = query.new_empty(len(query), tokens, n_heads, width)
    for row, branch in enumerate(_batch.branches):
        for begin, number, length in _batch.groups():
            span = slice(begin, begin + number * length)
            parts = [
                # [number, n_heads, length, d_head]
                x[row, :, span].unflatten(1, (number, length)).transpose(0, 1)
                for x in (query, key, value)
            ]
            attended = _attend(module, *parts, branch, [length] * number, options)
            out[row, span].view(number, length, n_heads, width).copy_(attended.transpose(1, 2))
    return out


def _attend(
    module: nn.Module,
    query: Tensor,  # [batch, n_heads, tokens, d_head]
    key: Tensor,  # [batch, n_heads, tokens, d_head]
    value: Tensor,  # [batch, n_heads, tokens, d_head]
    branch: Branch,
    lengths: Sequence[int],
    options: Mapping,
) -> Tensor:
    """Attention of one branch, [batch, n_heads, tokens, d_head]."""
    layer, longest = module.layer_idx, query.shape[2]
    scaling = options.get("scaling")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    # PyTorch's fused attention is no faster in bfloat16 than in float32 on a CPU.
    is_fused = query.dtype != torch.bfloat16 or query.device.type != "cpu"
    if not branch.acts_on(layer):
        is_padded = not branch.causal and min(lengths) < longest
        mask = _padding(lengths, longest, query.device) if is_padded else None
        if is_fused:
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=branch.causal, scale=scaling
            )
        bias = None if mask is None else torch.where(mask, 0.0, -torch.inf)
        if branch.causal:
            bias = _future(longest)
        return _step_by_step(query, key, value, scaling, bias)
    made = branch.tensors(layer, lengths, longest, query.device)
    score_factor, pattern_factor = made["score_factor"], made["pattern_factor"]
    by_key = [f is None or f.shape[-2] == 1 for f in (score_factor, pattern_factor)]
    if all(by_key) and is_fused:
        if score_factor is not None:
            key = key * score_factor.transpose(-1, -2).to(key.dtype)  # m_j k_j: q k_j times m_j
        if pattern_factor is not None:
            value = value * pattern_factor.transpose(-1, -2).to(value.dtype)  # p_j m_j v_j
        bias = made["bias"].to(query.dtype).expand(len(query), -1, -1, -1)
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, scale=scaling
        )
    return _step_by_step(query, key, value, scaling, made["bias"], score_factor, pattern_factor)


@functools.lru_cache(maxsize=KEPT)
def _future(length: int) -> Tensor:
    """What hides the keys after each query, float32 [length, length]; all layers share it."""
    return torch.full((length, length), -torch.inf).triu_(1)


def _step_by_step(
    query: Tensor,  # [batch, n_heads, tokens, d_head]
    key: Tensor,  # [batch, n_heads, tokens, d_head]
    value: Tensor,  # [batch, n_heads, tokens, d_head]
    scaling: float,
    bias: Tensor | None,
    score_factor: Tensor | None = None,
    pattern_factor: Tensor | None = None,
) -> Tensor:
    """Attention with its scores and its pattern in float32, whatever the model computes in.

    Factors and biases are large numbers. All three are [batch or 1, n_heads or 1, tokens or 1,
    tokens], or fewer axes.
    """
    scores = (query @ key.transpose(-1, -2)).float() * scaling  # [batch, n_heads, tokens, tokens]
    if score_factor is not None:
        scores *= score_factor
    if bias is not None:
        scores += bias
    pattern = scores.softmax(dim=-1)  # [batch, n_heads, tokens, tokens]
    if pattern_factor is not None:
        pattern *= pattern_factor
    return pattern.to(value.dtype) @ value


def _padding(lengths: Sequence[int], longest: int, device) -> Tensor:
    """Which keys are tokens, bool [batch, 1, 1, longest]."""
    places = torch.arange(longest, device=device)
    return (places < torch.tensor(lengths, device=device)[:, None])[:, None, None, :]


def unpadded(bias: Tensor, lengths: Sequence[int]) -> Tensor:
    """A bias [1, n_heads, longest, longest] that hides padded keys, where there are any."""
    longest = bias.shape[-1]
    if min(lengths) == longest:
        return bias
    return torch.where(_padding(lengths, longest, bias.device), bias, -torch.inf)


def is_decoder(model: nn.Module) -> bool:
    """Whether a model is a causal language model."""
    return hasattr(model, "transformer")


def blocks(model: nn.Module) -> nn.ModuleList:
    """The model's Transformer blocks in order."""
    body = getattr(model, "transformer", model)
    return body.h if hasattr(body, "h") else body.encoder.layer


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


def embeddings_of(
    original: Tensor,  # [rows, d_model]
    first: int,
    condition: Condition,
    masks: Mapping[str, LearnedMask],
    tokens: int,
) -> Tensor:
    """The position embeddings under a condition, at least for so many tokens."""
    table = original[first:].float().cpu().numpy()  # [positions, d_model]
    if isinstance(condition.position, LearnedPosition):
        made = masks[condition.position.mask].vectors(len(table))
    else:
        made = positions.position.call(condition.position, table)
    made = positions.extended(made, tokens, condition.beyond)  # [positions, d_model]
    whole = torch.from_numpy(np.ascontiguousarray(made)).to(original)  # [positions, d_model]
    return torch.cat([original[:first], whole]) if first else whole


def _check(model: nn.Module, condition: Condition, masks: Mapping[str, LearnedMask]) -> None:
    config = model.config
    problem = condition.problem(config.num_hidden_layers, config.num_attention_heads)
    missing = [name for name in condition.masks() if name not in masks]
    if missing:
        problem = f"the learned mask {missing[0]!r} is not there"
    if problem:
        raise ConditionError(problem)


def branch_of(
    model: nn.Module, condition: Condition, masks: Mapping[str, LearnedMask] | None = None
) -> Branch:
    """The branch of a condition."""
    config = model.config
    profile = condition.mask.profile if condition.mask else None
    return Branch(
        mask=condition.mask,
        n_layers=config.num_hidden_layers,
        n_heads=config.num_attention_heads,
        causal=is_decoder(model),
        learned=(masks or {})[profile.mask] if getattr(profile, "kind", "") == "learned" else None,
    )


def common_part(condition: Condition) -> Condition:
    """What conditions must have in common to share a forward pass: all but the mask."""
    return condition.model_copy(update={"mask": None, "only": None})


@contextlib.contextmanager
def embedded(
    model: nn.Module,
    condition: Condition,
    masks: Mapping[str, LearnedMask] | None = None,
    tokens: int = 0,
) -> Iterator[None]:
    """Exchange position embeddings, and touch the sum of the embeddings, during a block."""
    _check(model, condition, masks or {})
    embedding = position_embedding(model)
    original = embedding.weight.data  # [rows, d_model]
    hooks = []
    try:
        if condition.position != "intact" or tokens > len(original):
            embedding.weight.data = embeddings_of(
                original, first_row(embedding), condition, masks or {}, tokens
            )
        if condition.embeddings != "intact":
            module = model.transformer.drop if is_decoder(model) else model.embeddings.LayerNorm
            hooks.append(
                module.register_forward_pre_hook(
                    lambda module, inputs: (_resized(inputs[0], condition.embeddings),)
                )
            )
        yield
    finally:
        embedding.weight.data = original
        for hook in hooks:
            hook.remove()


def _resized(x: Tensor, change: str | Scale) -> Tensor:  # [batch, tokens, d_model]
    if isinstance(change, Scale):
        return x * change.by
    return functional.normalize(x, dim=-1)


@contextlib.contextmanager
def applied(
    model: nn.Module,
    condition: Condition,
    masks: Mapping[str, LearnedMask] | None = None,
    tokens: int = 0,
) -> Iterator[nn.Module]:
    """Put a model under a condition for the duration of a block, then restore it exactly.

    Only tensors in memory are exchanged: the weights on disk are never touched. Documents are cut
    into segments by :mod:`posenc.capture.evaluation`, not here.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    condition
        What is done to it.
    masks
        Learned masks by name, for a condition that needs one.
    tokens
        Length of the longest document, where it may exceed the positions that the model has.

    Raises
    ------
    ConditionError
        If the condition does not fit the model.
    """
    scheme = getattr(model.config, schemes.KEY, "learned")
    if scheme in schemes.IN_ATTENTION:
        raise ConditionError(f"conditions edit position embeddings; the model has {scheme} instead")
    with embedded(model, condition, masks, tokens):
        if condition.mask is None:
            yield model
            return
        branch = branch_of(model, condition, masks)
        with attending(model, Batch([branch])), _multiplied(model, branch):
            yield model


@contextlib.contextmanager
def _multiplied(model: nn.Module, branch: Branch) -> Iterator[None]:
    """Multiply the input of the first block, where the branch says so."""
    if branch.mask.semantics != "emb_mul":
        yield
        return

    # A BERT's hidden state 0 is the output of its embeddings, a GPT-2's the input of its block 0.
    module = model.transformer.drop if is_decoder(model) else model.embeddings
    hook = module.register_forward_hook(
        lambda module, inputs, output: output * embedding_factors(branch, output)
    )
    try:
        yield
    finally:
        hook.remove()


def embedding_factors(branch: Branch, x: Tensor) -> Tensor:  # x [batch, tokens, d_model]
    """What the rows of a padded batch are multiplied by, [batch, tokens, 1]."""
    if _batch is not None and _batch.is_packed:
        each = [torch.from_numpy(branch.embedding_factor(length)) for length in _batch.lengths]
        return torch.cat(each)[None, :, None].to(x)
    lengths = (_batch.lengths if _batch else None) or [x.shape[1]] * len(x)
    factors = torch.ones(len(lengths), x.shape[1], 1)
    for row, length in enumerate(lengths):
        factors[row, :length, 0] = torch.from_numpy(branch.embedding_factor(length))
    return factors.to(x)


@contextlib.contextmanager
def attending(model: nn.Module, batch: Batch) -> Iterator[Batch]:
    """Route the model's attention through this module during a block."""
    global _batch
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    previous, former = _batch, model.config._attn_implementation
    _batch = batch
    model.set_attn_implementation(NAME)
    try:
        yield batch
    finally:
        _batch = previous
        model.set_attn_implementation(former)


@contextlib.contextmanager
def packed(model: nn.Module, lengths: Sequence[int]) -> Iterator[None]:
    """Let the one row of the forward pass be documents of such lengths, during a block.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, under a condition or not.
    lengths
        Tokens of each document, in order.
    """
    global _batch
    AttentionInterface.register(PACKED, _attention)
    # The library must build no mask: it would let documents attend to each other.
    AttentionMaskInterface.register(PACKED, _no_mask)
    previous, former = _batch, model.config._attn_implementation
    config = model.config
    branches = previous.branches if previous else [
        Branch(None, config.num_hidden_layers, config.num_attention_heads, is_decoder(model))
    ]  # fmt: skip
    # The list of branches is shared: rows that part from the trunk are added to it on the way.
    _batch = Batch(branches, list(lengths), is_packed=True)
    if former != PACKED:
        model.set_attn_implementation(PACKED)
    try:
        yield
    finally:
        _batch = previous
        if former != PACKED:
            model.set_attn_implementation(former)


def _no_mask(*_, **__) -> None:
    return None


@contextlib.contextmanager
def documents_of(lengths: Sequence[int]) -> Iterator[None]:
    """Say how long the documents of a padded batch are, for masks that depend on it."""
    if _batch is None:
        yield
        return
    previous, _batch.lengths = _batch.lengths, list(lengths)
    try:
        yield
    finally:
        _batch.lengths = previous
