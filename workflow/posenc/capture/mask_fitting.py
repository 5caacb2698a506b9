"""A mask of a few parameters per head, fitted by gradient with the model frozen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.capture.branches import NO_CHANGE, Branch, lengths_of, unpadded
from posenc.capture.calibration import (
    REACH,
    Calibration,
    OfMethod,
    Progress,
    position_of,
    shape_of,
    start_of,
    with_mask,
)
from posenc.capture.capture import forward, pad
from posenc.capture.interventions import applied
from posenc.capture.masked_attention import Batch, attending
from posenc.capture.parts import body, first_row, logits, position_embedding
from posenc.conditions import positions
from posenc.conditions.learned import LearnedMask, hashed_places
from posenc.conditions.masks import FittedMask

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class _Parameters(nn.Module):
    """What is fitted: vectors in place of positions, and a few numbers per head.

    Of the terms of a mask, those that the source has.
    """

    first: Tensor  # [n_layers, n_heads]
    slope: Tensor  # [n_layers, n_heads, sides]
    logarithm: Tensor  # [n_layers, n_heads, sides]
    near: Tensor  # [n_layers, n_heads, sides, near]

    def __init__(
        self,
        source: FittedMask,
        model: PreTrainedModel,
        longest: int,
        base: LearnedMask | None = None,
    ) -> None:
        super().__init__()
        self.source, self.shape, self.longest = source, shape_of(model), longest
        self.base = LearnedMask() if base is None else base
        if source.learn_position:
            embedding = position_embedding(model)
            table = embedding.weight.detach()[first_row(model) :].cpu().numpy()
            start = positions.position.call(source.position, table)  # [positions, d_model]
            begin = np.zeros_like(start) if source.adds else start  # [positions, d_model]
            self.initial = nn.Parameter(torch.tensor(begin[0]))  # [d_model]
            self.constant = nn.Parameter(torch.tensor(begin[1]))  # [d_model]
        for term in source.terms:
            width = {"near": (source.near,), "first": ()}.get(term, ())
            sides = () if term == "first" else (self.shape[2],)
            self.register_parameter(
                term, nn.Parameter(torch.zeros(*self.shape[:2], *sides, *width))
            )

    def relative(self, offsets: int) -> Tensor:
        """Bias by distance, [n_layers, n_heads, sides, offsets]."""
        distance = torch.arange(offsets, dtype=torch.float32, device=self.device)  # [offsets]
        bias = torch.zeros(*self.shape, offsets, device=self.device)
        if self.base.relative is not None:
            bias = bias + _up_to(self.base.relative, offsets).to(self.device)
        # In units in which a step of the optimiser is a step for every term.
        if "slope" in self.source.terms:
            bias = bias - self.slope[..., None] * distance / self.longest * 10
        if "logarithm" in self.source.terms:
            bias = bias - self.logarithm[..., None] * torch.log1p(distance)
        if "near" in self.source.terms:
            count = min(self.source.near, offsets)
            bias = bias + functional.pad(self.near[..., :count], (0, offsets - count))
        return bias

    @property
    def device(self):
        """Where the parameters lie."""
        return next(self.parameters()).device

    def of_first(self, tokens: int) -> Tensor | None:
        """What the first key has beside, [n_layers, n_heads, 1 or tokens]; None for nothing."""
        first = self.first[..., None] if "first" in self.source.terms else None
        if self.base.first is None:
            return first
        given = _up_to(self.base.first, tokens).to(self.device)
        return given if first is None else given + first

    def biases(self, documents: list[list[int]]) -> Callable[[int], Tensor]:
        """Bias of a layer, [batch or 1, n_heads, longest, longest], by its number."""
        tokens, offsets = max(map(len, documents)), self.longest
        if self.source.distances == "hashed":
            place = self._hashed(documents, tokens)  # [batch, longest, longest]
        else:
            offsets, places = tokens, torch.arange(tokens, device=self.device)
            offset = places[:, None] - places  # [longest, longest]
            side = (offset < 0).long() * (self.shape[2] - 1)  # [longest, longest]
            place = (offsets * side + offset.abs())[None]  # [1, longest, longest]
        relative = self.relative(offsets).flatten(2)  # [n_layers, n_heads, sides * offsets]
        first = self.of_first(tokens)

        def of(layer: int) -> Tensor:
            bias = relative[layer][:, place].transpose(0, 1)
            if first is not None:
                bias = bias + functional.pad(first[layer, :, :, None], (0, tokens - 1))
            return bias

        return of

    def _hashed(self, documents: list[list[int]], tokens: int) -> Tensor:
        """Where the pairs of tokens have their bias, [batch, tokens, tokens]; 0 for padding."""
        place = np.zeros((len(documents), tokens, tokens), np.int64)
        for row, ids in zip(place, documents, strict=True):
            row[: len(ids), : len(ids)] = hashed_places(
                tuple(ids), self.shape[2], self.longest, self.source.seed
            )
        return torch.from_numpy(place).to(self.device)

    def mask(self) -> LearnedMask:
        """As arrays, written out beyond the calibration text's length; a hash has no beyond."""
        is_hashed = self.source.distances == "hashed"
        offsets = self.longest if is_hashed else REACH * self.longest
        with torch.no_grad():
            arrays: dict[str, np.ndarray] = {}
            if self.source.terms:
                arrays["relative"] = self.relative(offsets).cpu().numpy()
            if is_hashed:
                arrays["hashed"] = np.array(self.source.seed)
            first = self.of_first(REACH * self.longest)
            if first is not None:
                arrays["first"] = first.cpu().numpy()
            if self.base.temperature is not None:
                arrays["temperature"] = self.base.temperature
            if self.source.learn_position:
                arrays["constant"] = self.constant.cpu().numpy().copy()
                arrays["initial"] = self.initial.cpu().numpy().copy()
        return LearnedMask(**arrays)


def _up_to(curves: np.ndarray, offsets: int) -> Tensor:  # [..., n], n or more
    """Curves by distance at so many distances, [..., offsets]; beyond their last, its value."""
    return torch.from_numpy(curves[..., np.minimum(np.arange(offsets), curves.shape[-1] - 1)])


@dataclass
class _FittedBranch(Branch):
    """A branch whose bias is a tensor with a gradient."""

    bias: Callable[[int], Tensor] | None = None
    """Of a layer, [batch or 1, n_heads, longest, longest]."""

    def acts_on(self, layer: int) -> bool:
        return self.bias is not None

    def tensors(self, layer: int, documents, longest: int, device) -> dict:
        assert self.bias is not None
        bias = self.bias(layer)  # [batch or 1, n_heads, longest, longest]
        if self.causal:
            future = torch.ones_like(bias, dtype=torch.bool).triu(1)
            bias = bias.masked_fill(future, -torch.inf)
        else:
            bias = unpadded(bias, lengths_of(documents))
        autocast = torch.is_autocast_enabled(device.type)
        bias = bias.to(torch.get_autocast_dtype(device.type)) if autocast else bias
        factor = self.inverse_temperature(layer, device)
        return {**NO_CHANGE, "bias": bias, "score_factor": factor}


def fit(
    source: FittedMask,
    data: Calibration,
    progress: Progress = lambda done: None,
    base: LearnedMask | None = None,
) -> tuple[LearnedMask, OfMethod]:
    """Fit the mask's parameters by gradient; the model's weights stay as they are.

    ``progress`` is called with 1 after every step; ``base`` is the mask that the fit begins with.
    """
    model, device = data.model, next(data.model.parameters()).device
    model.requires_grad_(False)
    parameters = _Parameters(source, model, data.longest, base).to(device)
    optimizer = torch.optim.Adam(parameters.parameters(), lr=source.learning_rate)
    generator = np.random.default_rng(source.seed)
    condition = with_mask(position_of(source), bool(source.terms))
    best, curve = (np.inf, parameters.mask(), 0), []
    order: list[int] = []
    for step in range(source.steps + 1):
        if step % source.validate_steps == 0 or step == source.steps:
            mask = parameters.mask()
            loss = data.loss(condition, mask)
            curve.append({"step": step, "loss": loss})
            best = min(best, (loss, mask, step), key=lambda candidate: candidate[0])
        if step == source.steps:
            break
        rate = 0.5 * (1 + np.cos(np.pi * step / source.steps))
        for group in optimizer.param_groups:
            group["lr"] = source.learning_rate * rate
        if len(order) < source.batch_documents:
            order += generator.permutation(len(data.fitting)).tolist()
        batch, order = order[: source.batch_documents], order[source.batch_documents :]
        batch_loss = _loss(parameters, data, [data.fitting[index] for index in batch])
        optimizer.zero_grad(set_to_none=True)
        batch_loss.backward()
        optimizer.step()
        progress(1)
    return best[1], {
        "kept_step": best[2],
        "parameters": sum(p.numel() for p in parameters.parameters()),
        "curve": curve,
    }


def _loss(parameters: _Parameters, data: Calibration, documents: list[list[int]]) -> Tensor:
    """Of a batch, with a gradient to the parameters."""
    model, source = data.model, parameters.source
    device = parameters.device
    ids, real = pad(model, documents)  # [batch, longest] each
    bias = parameters.biases(documents) if source.terms else None
    n_layers, n_heads, _ = parameters.shape
    branch = _FittedBranch(
        None, n_layers, n_heads, data.is_decoder, learned=parameters.base, bias=bias
    )

    first = first_row(model)

    def vectors(module, inputs, output):
        is_first = (inputs[0] == first)[..., None]  # [1 or batch, longest, 1]
        learned = torch.where(is_first, parameters.initial, parameters.constant)
        return output + learned if source.adds else learned

    hook = None
    if source.learn_position:
        hook = position_embedding(model).register_forward_hook(vectors)
    options = {"use_cache": False} if data.is_decoder else {"attention_mask": real}
    start = "intact" if source.learn_position else source.position
    try:
        with (
            applied(model, start_of(start)),
            attending(model, Batch([branch], documents)),
            torch.autocast(device.type, torch.bfloat16, enabled=source.precision == "bfloat16"),
        ):
            last = body(model)(ids, **options).last_hidden_state  # [batch, longest, d_model]
            if data.is_decoder:
                keep = real[:, 1:].bool()  # [batch, longest - 1]
                scores = logits(model, last[:, :-1][keep])  # [scored, vocabulary]
                return functional.cross_entropy(scores.float(), ids[:, 1:][keep])
    finally:
        if hook is not None:
            hook.remove()
    with torch.no_grad():
        intact = forward(model, documents)[0][-1]  # [batch, longest, d_model]
    keep = real.bool()
    return 1 - functional.cosine_similarity(last.float()[keep], intact[keep], dim=-1).mean()
