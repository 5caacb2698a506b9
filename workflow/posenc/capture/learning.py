"""Learning masks from calibration text with the model frozen (row A5).

Three ways: one slope chosen from a list; the difference that position makes to the scores of the
intact model, averaged over text; a few parameters a head, fitted by gradient. A decoder is judged
by its loss on text, an encoder by the cosine of its last hidden states with the intact ones. The
last part of the calibration documents chooses and is not fitted on; evaluation text is never
seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.capture.capture import batches_of, forward, pad
from posenc.capture.evaluation import INTACT, Outcome, evaluate
from posenc.capture.interventions import (
    Batch,
    Branch,
    applied,
    attending,
    first_row,
    is_decoder,
    position_embedding,
    unpadded,
)
from posenc.conditions import positions
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import DistilledMask, FittedMask, SlopeMask
from posenc.conditions.section import Condition

REACH = 4
"""A parametric mask is written out to so many times the length of the calibration text."""


@dataclass
class Calibration:
    """What masks are learned from.

    Attributes
    ----------
    model
        Frozen; from :func:`posenc.models.load.load`.
    fitting, choosing
        Token ids of the documents for either.
    batch_tokens
        Tokens of one forward pass.
    """

    model: nn.Module
    fitting: list[list[int]]
    choosing: list[list[int]]
    batch_tokens: int

    @property
    def is_decoder(self) -> bool:
        """Whether the model is a causal language model."""
        return is_decoder(self.model)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return max(map(len, [*self.fitting, *self.choosing]))

    def losses(
        self, conditions: dict[str, Condition], mask: LearnedMask | None = None, progress=None
    ) -> dict[str, float]:
        """Of the choosing documents: nats a token, or 1 - cosine of the last hidden state."""
        outcomes: dict[str, list[Outcome]] = {name: [] for name in conditions}
        counted = [[True] * len(ids) for ids in self.choosing]
        for name, outcome in evaluate(
            self.model, self.choosing, counted, conditions, {"it": mask} if mask else {},
            self.batch_tokens, progress,
        ):  # fmt: skip
            outcomes[name].append(outcome)
        if self.is_decoder:
            return {
                name: float(np.concatenate([one.nll for one in found]).mean())
                for name, found in outcomes.items()
            }
        tokens = sum(map(len, self.choosing))
        return {
            name: 1 - sum(float(one.cosine[-1]) for one in found) / tokens
            for name, found in outcomes.items()
        }

    def loss(self, condition: Condition, mask: LearnedMask | None = None) -> float:
        """As :meth:`losses`, of one condition."""
        return self.losses({"it": condition}, mask)["it"]


def start_of(position: str) -> Condition:
    """The position-free model that a mask is put on."""
    return Condition(position=position)


def with_mask(position: str, learn_position: bool = False, biased: bool = True) -> Condition:
    """The condition under which a mask called ``it`` is judged."""
    learned = {"kind": "learned", "mask": "it"}
    start = learned if learn_position else position
    return masked(start, learned) if biased else Condition.model_validate({"position": start})


def masked(position: str | dict, profile: dict) -> Condition:
    """A position with a bias added to the scores."""
    return Condition.model_validate(
        {"position": position, "mask": {"semantics": "additive", "profile": profile}}
    )


def relative_slope(slope: float, shape: tuple[int, int, int], offsets: int) -> np.ndarray:
    """An ALiBi bias as [n_layers, n_heads, sides, offsets]."""
    line = -slope * np.arange(offsets, dtype=np.float32)  # [offsets]
    return np.broadcast_to(line, (*shape, offsets)).copy()


def shape_of(model: nn.Module) -> tuple[int, int, int]:
    """Layers, heads, and sides that a key can stand on."""
    config = model.config
    sides = 1 if is_decoder(model) else 2
    return config.num_hidden_layers, config.num_attention_heads, sides


def choose_slope(
    source: SlopeMask, data: Calibration, progress: Callable[[int], Any] = lambda done: None
) -> tuple[LearnedMask, dict[str, Any]]:
    """The slope of the list that is best on the choosing documents.

    ``progress`` is called with the number of tokens seen, once for each slope.
    """
    conditions = {
        str(slope): masked(source.position, {"kind": "alibi", "slope": slope})
        for slope in source.slopes
    }
    losses = list(data.losses(conditions, progress=SimpleNamespace(update=progress)).values())
    best = int(np.argmin(losses))
    mask = LearnedMask(
        relative=relative_slope(
            source.slopes[best], shape_of(data.model), REACH * data.longest
        )
    )  # fmt: skip
    return mask, {
        "slope": source.slopes[best],
        "curve": [
            {"slope": slope, "loss": loss}
            for slope, loss in zip(source.slopes, losses, strict=True)
        ],
    }


@torch.inference_mode()
def scores_of(
    data: Calibration,
    documents: list[list[int]],
    condition: Condition,
    layers: Iterable[int],
    mask: LearnedMask | None = None,
) -> dict[int, Tensor]:
    """Attention scores by layer before mask and softmax, [batch, n_heads, n, n]."""
    with applied(data.model, condition, {"it": mask} if mask else {}):
        _, recording = forward(data.model, documents, data.is_decoder)
    scores = {}
    for layer in layers:
        query, key = recording.queries[layer], recording.keys[layer]  # [batch, n_heads, n, d_head]
        scores[layer] = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return scores


class _Averages:
    """Weighted sums of score differences by pair of positions, [n_layers, n_heads, n, n]."""

    def __init__(self, n_layers: int, n_heads: int, longest: int) -> None:
        self.sums = torch.zeros(n_layers, n_heads, longest, longest, dtype=torch.float64)
        self.weights = torch.zeros_like(self.sums)

    def add(self, layer: int, difference: Tensor, weight: Tensor) -> None:
        """Add a batch, [batch, n_heads, n, n] each."""
        n = difference.shape[-1]
        self.sums[layer, :, :n, :n] += (difference * weight).sum(0).double().cpu()
        self.weights[layer, :, :n, :n] += weight.sum(0).double().cpu()

    def relative(self, layer: int, sides: int, without_first: bool) -> np.ndarray:
        """Averages by distance, [n_heads, sides, n]; 0 where there is no pair."""
        sums, weights = self.sums[layer].numpy(), self.weights[layer].numpy()
        n = sums.shape[-1]
        out = np.zeros((sums.shape[0], sides, n))
        for side in range(sides):
            for offset in range(n):
                turn = -offset if side == 0 else offset
                top, bottom = (np.diagonal(x, turn, 1, 2) for x in (sums, weights))
                if without_first and turn <= 0:
                    top, bottom = top[:, 1:], bottom[:, 1:]  # the pair with key 0 comes first
                whole = bottom.sum(-1)
                out[:, side, offset] = np.where(
                    whole > 0, top.sum(-1) / np.maximum(whole, 1e-300), 0.0
                )
        return out

    def first(self, layer: int, relative: np.ndarray) -> np.ndarray:
        """What the first key has beyond its distance's average, by query, [n_heads, n]."""
        sums, weights = self.sums[layer][:, :, 0].numpy(), self.weights[layer][:, :, 0].numpy()
        mean = np.where(weights > 0, sums / np.maximum(weights, 1e-300), relative[:, 0])
        return mean - relative[:, 0]

    def absolute(self, layer: int) -> np.ndarray:
        """Averages by pair, [n_heads, n, n]; 0 where there is none."""
        sums, weights = self.sums[layer].numpy(), self.weights[layer].numpy()
        return np.where(weights > 0, sums / np.maximum(weights, 1e-300), 0.0)


def _allowed(data: Calibration, documents: list[list[int]]) -> Tensor:
    """Pairs of tokens that see each other, bool [batch, 1, n, n]."""
    real = pad(data.model, documents)[1].bool()  # [batch, n]
    pairs = real[:, None, :, None] & real[:, None, None, :]
    return pairs.tril() if data.is_decoder else pairs


def distill(
    source: DistilledMask, data: Calibration, progress: Callable[[int], Any] = lambda done: None
) -> tuple[LearnedMask, dict[str, Any]]:
    """The mean difference that position makes to the scores, z intact - z without positions.

    ``progress`` is called with the number of tokens seen.
    """
    n_layers, n_heads, sides = shape_of(data.model)
    longest = data.longest
    if source.layout == "absolute":
        learned = {"absolute": np.zeros((n_layers, n_heads, longest, longest), np.float32)}
    else:
        learned = {"relative": np.zeros((n_layers, n_heads, sides, longest), np.float32)}
        if source.first:
            learned["first"] = np.zeros((n_layers, n_heads, longest), np.float32)
    # Without order between layers, one pass gives all of them.
    passes = [[layer] for layer in range(n_layers)] if source.sequential else [range(n_layers)]
    for layers in passes:
        so_far = LearnedMask(**{name: array.copy() for name, array in learned.items()})
        averages = _differences(source, data, layers, so_far, progress)
        for layer in layers:
            if source.layout == "absolute":
                learned["absolute"][layer] = averages.absolute(layer)
                continue
            relative = averages.relative(layer, sides, source.first)  # [n_heads, sides, n]
            learned["relative"][layer] = relative
            if source.first:
                learned["first"][layer] = averages.first(layer, relative)
    return LearnedMask(**learned), {}


def _differences(
    source: DistilledMask, data: Calibration, layers, so_far: LearnedMask, progress
) -> _Averages:
    averages = _Averages(*shape_of(data.model)[:2], data.longest)
    lengths = np.array([len(ids) for ids in data.fitting])
    is_first = 0 in layers
    condition = start_of(source.position) if is_first else with_mask(source.position)
    for batch in batches_of(lengths, range(len(lengths)), data.batch_tokens):
        documents = [data.fitting[index] for index in batch]
        intact = scores_of(data, documents, INTACT, layers)
        without = scores_of(data, documents, condition, layers, None if is_first else so_far)
        allowed = _allowed(data, documents)  # [batch, 1, n, n]
        for layer in layers:
            difference = intact[layer] - without[layer]  # [batch, n_heads, n, n]
            weight = allowed.expand_as(difference).to(difference)
            if source.weights == "attention":
                pattern = intact[layer].masked_fill(~allowed, -torch.inf).softmax(-1)
                weight = pattern.nan_to_num(0.0)  # padded queries see nothing
                difference = difference - (difference * weight).sum(-1, keepdim=True)
            averages.add(layer, difference, weight)
        progress(int(lengths[batch].sum()))
    return averages


class _Parameters(nn.Module):
    """What is fitted: vectors in place of positions, and a few numbers a head."""

    def __init__(self, source: FittedMask, model: nn.Module, longest: int) -> None:
        super().__init__()
        self.source, self.shape, self.longest = source, shape_of(model), longest
        embedding = position_embedding(model)
        table = embedding.weight.detach()[first_row(embedding) :].cpu().numpy()
        start = positions.position.call(source.position, table)  # [positions, d_model]
        if source.learn_position:
            self.initial = nn.Parameter(torch.tensor(start[0]))  # [d_model]
            self.constant = nn.Parameter(torch.tensor(start[1]))  # [d_model]
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

    def biases(self, tokens: int) -> Tensor:
        """Bias of each layer, [n_layers, n_heads, tokens, tokens]."""
        places = torch.arange(tokens, device=self.device)
        offset = places[:, None] - places  # [tokens, tokens]
        side = (offset < 0).long() * (self.shape[2] - 1)  # [tokens, tokens]
        bias = self.relative(tokens)[:, :, side, offset.abs()]
        if "first" in self.source.terms:
            first = functional.pad(self.first[..., None, None], (0, tokens - 1))
            bias = bias + first  # [n_layers, n_heads, 1, tokens]
        return bias

    def mask(self) -> LearnedMask:
        """As arrays, written out beyond the calibration text's length."""
        with torch.no_grad():
            arrays: dict[str, np.ndarray] = {}
            if self.source.terms:
                arrays["relative"] = self.relative(REACH * self.longest).cpu().numpy()
            if "first" in self.source.terms:
                arrays["first"] = self.first[..., None].cpu().numpy()
            if self.source.learn_position:
                arrays["constant"] = self.constant.cpu().numpy().copy()
                arrays["initial"] = self.initial.cpu().numpy().copy()
        return LearnedMask(**arrays)


@dataclass
class _FittedBranch(Branch):
    """A branch whose bias is a tensor with a gradient."""

    bias: Tensor | None = None  # [n_layers, n_heads, longest, longest]

    def acts_on(self, layer: int) -> bool:
        return self.bias is not None

    def tensors(self, layer: int, lengths, longest: int, device) -> dict:
        bias = self.bias[layer][None]  # [1, n_heads, longest, longest]
        if self.causal:
            future = torch.ones_like(bias, dtype=torch.bool).triu(1)
            bias = bias.masked_fill(future, -torch.inf)
        else:
            bias = unpadded(bias, lengths)
        autocast = torch.is_autocast_enabled(device.type)
        bias = bias.to(torch.get_autocast_dtype(device.type)) if autocast else bias
        return {"bias": bias, "score_factor": None, "pattern_factor": None}


def fit(
    source: FittedMask, data: Calibration, progress: Callable[[int], Any] = lambda done: None
) -> tuple[LearnedMask, dict[str, Any]]:
    """Fit the mask's parameters by gradient; the model's weights stay as they are.

    ``progress`` is called with 1 after every step.
    """
    model, device = data.model, next(data.model.parameters()).device
    model.requires_grad_(False)
    parameters = _Parameters(source, model, data.longest).to(device)
    optimizer = torch.optim.Adam(parameters.parameters(), lr=source.learning_rate)
    generator = np.random.default_rng(source.seed)
    condition = with_mask(source.position, source.learn_position, bool(source.terms))
    best, curve = (np.inf, parameters.mask(), 0), []
    order: list[int] = []
    for step in range(source.steps + 1):
        if step % source.validate_steps == 0 or step == source.steps:
            mask = parameters.mask()
            loss = data.loss(condition, mask)
            curve.append({"step": step, "loss": loss})
            best = min(best, (loss, mask, step), key=lambda one: one[0])
        if step == source.steps:
            break
        rate = 0.5 * (1 + np.cos(np.pi * step / source.steps))
        for group in optimizer.param_groups:
            group["lr"] = source.learning_rate * rate
        if len(order) < source.batch_documents:
            order += generator.permutation(len(data.fitting)).tolist()
        batch, order = order[: source.batch_documents], order[source.batch_documents :]
        loss = _loss(parameters, data, [data.fitting[index] for index in batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
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
    lengths = [len(ids) for ids in documents]
    ids, real = pad(model, documents)  # [batch, longest] each
    bias = parameters.biases(max(lengths)) if source.terms else None
    n_layers, n_heads, _ = parameters.shape
    branch = _FittedBranch(None, n_layers, n_heads, data.is_decoder, bias=bias)
    embedding = position_embedding(model)

    def vectors(module, inputs, output):
        is_first = (inputs[0] == first_row(module))[..., None]  # [1 or batch, longest, 1]
        return torch.where(is_first, parameters.initial, parameters.constant)

    hook = embedding.register_forward_hook(vectors) if source.learn_position else None
    body = model.transformer if data.is_decoder else model
    options = {"use_cache": False} if data.is_decoder else {"attention_mask": real}
    start = "intact" if source.learn_position else source.position
    try:
        with (
            applied(model, start_of(start)),
            attending(model, Batch([branch], lengths)),
            torch.autocast(device.type, torch.bfloat16, enabled=source.precision == "bfloat16"),
        ):
            last = body(ids, **options).last_hidden_state  # [batch, longest, d_model]
            if data.is_decoder:
                keep = real[:, 1:].bool()  # [batch, longest - 1]
                logits = model.lm_head(last[:, :-1][keep])  # [scored, vocabulary]
                return functional.cross_entropy(logits.float(), ids[:, 1:][keep])
    finally:
        if hook is not None:
            hook.remove()
    with torch.no_grad():
        intact = forward(model, documents, False)[0][-1]  # [batch, longest, d_model]
    keep = real.bool()
    return 1 - functional.cosine_similarity(last.float()[keep], intact[keep], dim=-1).mean()


def learn(
    source: SlopeMask | DistilledMask | FittedMask,
    data: Calibration,
    progress: Callable[[int], Any] = lambda done: None,
) -> tuple[LearnedMask, dict[str, Any]]:
    """Learn a mask as its section says, and judge it on the choosing documents.

    Returns
    -------
    mask
        To be used by :func:`posenc.capture.interventions.applied`.
    facts
        ``unit``, and losses on the choosing documents: ``intact``, ``start`` (the model that the
        mask is put on) and ``loss`` (with the mask); what a method adds.
    """
    mask, facts = {"slope": choose_slope, "distilled": distill, "fitted": fit}[source.method](
        source, data, progress
    )
    learns = getattr(source, "learn_position", False)
    judged = with_mask(source.position, learns, biased=mask.relative is not None
                       or mask.absolute is not None)  # fmt: skip
    return mask, {
        "unit": "nats a token" if data.is_decoder else "1 - cosine of the last hidden state",
        **data.losses({"intact": INTACT, "start": start_of(source.position), "loss": judged}, mask),
        **facts,
    }


def work(source: SlopeMask | DistilledMask | FittedMask, data: Calibration) -> int:
    """How far a mask's progress goes."""
    if source.method == "slope":
        return len(source.slopes) * sum(map(len, data.choosing))
    if source.method == "fitted":
        return source.steps
    tokens = sum(map(len, data.fitting))
    return tokens * (data.model.config.num_hidden_layers if source.sequential else 1)
