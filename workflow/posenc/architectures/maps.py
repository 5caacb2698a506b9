"""Maps of queries, keys, values and outputs, found by their names and proved by what they give."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from posenc.architectures import attention
from posenc.architectures.architecture import Architecture, quiet
from posenc.architectures.needs import NotKnown
from posenc.architectures.observed import Call
from posenc.architectures.position import Rotation, cosines_sines, rotated_as
from posenc.architectures.table import FUSED_MAPS, OUTPUT_MAPS, SEPARATE_MAPS

CLOSE = 1e-4
"""Difference, relative to the largest value, that float32 rounding explains."""
EPSILONS = ("eps", "variance_epsilon", "epsilon")
"""What modules call the number that is added to a variance."""


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of a layer, as its attention uses them.

    Attributes
    ----------
    query
        [n_heads, d_model + 1, d_head]: W^Q, and its bias as a last row, with the scale of queries.
    key
        [n_key_value_heads, d_model + 1, d_head].
    value
        [n_key_value_heads, d_model + 1, d_value].
    output
        [n_heads, d_value, d_model]: each head's part of W^O.
    output_bias
        [d_model]: what W^O's map adds.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    output_bias: Tensor


@dataclass(frozen=True, eq=False)
class Norm:
    """A normalisation in closed form.

    Attributes
    ----------
    gain, bias
        [d_model] each; an RMSNorm's bias is 0.
    eps
        What is added to the variance, or to the mean square.
    is_rms
        Whether states are divided by their root mean square, and not centred.
    """

    gain: Tensor
    bias: Tensor
    eps: float
    is_rms: bool

    def of(self, x: Tensor) -> Tensor:
        """Normalised states; ``x`` [..., d_model]."""
        centred = x if self.is_rms else x - x.mean(dim=-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + self.eps).rsqrt()  # [..., 1]
        return centred * scale * self.gain + self.bias


Passed = list[tuple[nn.Module, Tensor, Tensor]]
"""Modules with a vector of gains, what each was given, and what it gave."""


def maps_of(arch: Architecture, layer: int) -> Maps:
    """The maps of a layer by their names, not proved; see :func:`check_maps`.

    Raises
    ------
    NotKnown
        If none has a known name.
    """
    own = arch.layers[layer]
    sizes = (
        (own.n_heads, own.d_head),
        (own.n_key_value_heads, own.d_head),
        (own.n_key_value_heads, own.d_value),
    )
    linear = _inputs(arch, layer)
    if len(linear) == 3:
        parts = [
            _heads(*_affine(module), *size) for module, size in zip(linear, sizes, strict=True)
        ]
    else:
        weight, bias = _affine(linear[0])  # [d_model, outputs], [outputs]
        widths = [heads * width for heads, width in sizes]
        if sum(widths) != weight.shape[1]:
            raise NotKnown("the joint map of queries, keys and values has another width")
        cuts = [(w, b) for w, b in zip(weight.split(widths, 1), bias.split(widths), strict=True)]
        parts = [_heads(w, b, *size) for (w, b), size in zip(cuts, sizes, strict=True)]
    output, bias = _affine(_output(arch, layer))  # [n_heads * d_value, d_model], [d_model]
    query, key, value = parts
    return Maps(
        query * own.query_scale, key, value, output.unflatten(0, (own.n_heads, own.d_value)), bias
    )


def _inputs(arch: Architecture, layer: int) -> Sequence[nn.Module]:
    """The modules that give queries, keys and values: three, or one that gives all."""
    children = dict(arch.layers[layer].module.named_children())
    for names in SEPARATE_MAPS:
        if all(name in children for name in names):
            return [children[name] for name in names]
    for name in FUSED_MAPS:
        if name in children:
            return [children[name]]
    raise NotKnown(f"layer {layer} has no query, key and value maps that are known by their names")


def _output(arch: Architecture, layer: int) -> nn.Module:
    """The module that takes what the heads give, side by side."""
    block = arch.blocks[layer] if arch.blocks else arch.layers[layer].module
    own = arch.layers[layer].module
    for name, module in [*own.named_modules(), *block.named_modules()]:
        if name.rsplit(".", 1)[-1] in OUTPUT_MAPS and getattr(module, "weight", None) is not None:
            return module
    raise NotKnown(f"layer {layer} has no output map that is known by its name")


def _affine(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight [inputs, outputs] and bias [outputs] of an affine map."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        raise NotKnown("a map is no matrix")
    weight = weight.detach().float()
    if not hasattr(module, "nf"):  # the library's Conv1D keeps [inputs, outputs]
        weight = weight.T
    bias = getattr(module, "bias", None)
    bias = torch.zeros_like(weight[0]) if bias is None else bias.detach().float()
    return weight, bias


def _heads(weight: Tensor, bias: Tensor, heads: int, width: int) -> Tensor:
    """[heads, inputs + 1, width]."""
    if weight.shape[1] != heads * width:
        raise NotKnown("a map has another width than its heads")
    joint = torch.cat([weight, bias[None]])  # [inputs + 1, heads * width]
    return joint.unflatten(1, (heads, width)).transpose(0, 1)


@torch.inference_mode()
def check_maps(arch: Architecture, ids: Tensor) -> tuple[str | None, str | None]:
    """Prove the maps of all layers on a text, and the normalisations before them.

    Parameters
    ----------
    ids
        [1, tokens].

    Returns
    -------
    maps, norms
        Why the maps, and the normalisations, are not what the attention uses; None if they are.
    """
    try:
        layers = _pass(arch, ids)
    except NotKnown as error:
        return str(error), str(error)
    maps: str | None = None
    path: str | None = None
    for number, layer in enumerate(layers):
        try:
            _check_layer(arch, number, layer.call, layer.x, layer.heads)
        except NotKnown as error:
            maps = maps or str(error)
        try:
            layer.norm(number)
        except NotKnown as error:
            path = path or str(error)
    return maps, path


@torch.inference_mode()
def norms_before_maps(arch: Architecture, ids: Tensor) -> list[Norm | None]:
    """What stands between the input of each block and its maps; None where there is nothing.

    Parameters
    ----------
    ids
        [1, tokens] of a text that shows it.

    Raises
    ------
    NotKnown
        If that is no normalisation in closed form.
    """
    return [layer.norm(number) for number, layer in enumerate(_pass(arch, ids))]


@dataclass(frozen=True, eq=False)
class _Layer:
    """What was seen of a layer in one forward pass.

    Attributes
    ----------
    state, x, heads
        [1, tokens, width] each: what the block is given, its maps, and the output map.
    """

    call: Call
    state: Tensor
    x: Tensor
    heads: Tensor
    norms: Passed

    def norm(self, number: int) -> Norm | None:
        what = f"what the maps of layer {number} are given"
        return norm_between(self.state, self.x, self.norms, what)


def _pass(arch: Architecture, ids: Tensor) -> list[_Layer]:
    """Run a text, and keep what each layer is given on its way to its maps."""
    if not arch.blocks:
        raise NotKnown("its layers are no list of blocks")
    linear = [_inputs(arch, layer)[0] for layer in range(arch.n_layers)]
    outputs = [_output(arch, layer) for layer in range(arch.n_layers)]
    given: dict[int, Tensor] = {}
    with contextlib.ExitStack() as stack:
        for modules in (linear, outputs, list(arch.blocks)):
            stack.enter_context(_first(modules, given))
        norms = [stack.enter_context(norms_of(block.modules())) for block in arch.blocks]
        stack.enter_context(attention.explicitly())
        seen = stack.enter_context(attention.observing())
        arch.begin()
        arch.body(ids, **quiet(arch.body))
    return [
        _Layer(call, given[id(block)], given[id(x)], given[id(heads)], passed)
        for call, block, x, heads, passed in zip(
            seen.calls, arch.blocks, linear, outputs, norms, strict=True
        )
    ]


def _check_layer(arch: Architecture, layer: int, call: Call, x: Tensor, heads: Tensor) -> None:
    """Compare what the maps of a layer give with what was recorded."""
    own = maps_of(arch, layer)
    for name, weights, recorded in (
        ("queries", own.query, call.query),
        ("keys", own.key, call.key),
        ("values", own.value, call.value),
    ):
        if weights.shape[1] != x.shape[-1] + 1:
            raise NotKnown(f"{name} of layer {layer} are of a map of another width than its input")
        mapped = x @ weights[:, :-1] + weights[:, -1:]  # [heads, tokens, width]
        if name != "values":
            mapped = _turned(arch, layer, mapped)
        scale = arch.layers[layer].d_head ** -0.5
        # Some types scale their queries themselves, and ask the attention for no more.
        if (
            name == "queries"
            and call.options.scaling == 1
            and _is_close(mapped * scale, recorded[0])
        ):
            arch.layers[layer] = replace(arch.layers[layer], query_scale=scale)
            continue
        if not _is_close(mapped, recorded[0]):
            raise NotKnown(f"{name} of layer {layer} are not its map times its input")
    bias = attention.as_bias(call.mask, x.shape[1], call.is_causal, x.device)
    n_heads = call.query.shape[1]
    key, value = (attention.by_query_head(y, n_heads) for y in (call.key, call.value))
    out = attention.explicit(call.query, key, value, call.options, bias)
    if not _is_close(out.transpose(1, 2).flatten(2), heads):  # [1, tokens, n_heads * d_value]
        raise NotKnown(f"the output map of layer {layer} is not given the heads side by side")


def _turned(arch: Architecture, layer: int, x: Tensor) -> Tensor:  # [heads, tokens, d_head]
    rotation = arch.position
    if not isinstance(rotation, Rotation) or not rotation.layers:
        return x
    if layer in rotation.unknown:
        raise NotKnown(f"how layer {layer} turns queries and keys could not be told")
    turn = rotation.layers[layer]
    if turn is None:
        return x
    places = torch.arange(x.shape[1], device=x.device)  # [tokens]
    parts = cosines_sines(turn.module, turn.layer_type, turn.form, x[None], places)
    return rotated_as(x, turn, *parts)


def _is_close(ours: Tensor, theirs: Tensor) -> bool:
    scale = float(theirs.abs().max()) or 1.0
    return ours.shape == theirs.shape and float((ours - theirs).abs().max()) <= CLOSE * scale


@contextlib.contextmanager
def _first(modules: list[nn.Module], into: dict[int, Tensor]) -> Iterator[None]:
    """Keep what modules are given first, during a block."""

    def keep(module: nn.Module, inputs: tuple, named: dict) -> None:
        given = inputs[0] if inputs else named.get("hidden_states")
        if given is not None:
            into[id(module)] = given

    with contextlib.ExitStack() as stack:
        for module in modules:
            hook = module.register_forward_pre_hook(keep, with_kwargs=True)
            stack.callback(hook.remove)
        yield


@contextlib.contextmanager
def norms_of(modules: Iterable[nn.Module]) -> Iterator[Passed]:
    """Keep what each module with a vector of gains takes and gives, during a block."""
    passed: Passed = []

    def keep(module: nn.Module, inputs: tuple, output: Any) -> None:
        if inputs and isinstance(output, Tensor):
            passed.append((module, inputs[0], output))

    with contextlib.ExitStack() as stack:
        for module in modules:
            weight = getattr(module, "weight", None)
            if isinstance(weight, Tensor) and weight.dim() == 1:
                stack.callback(module.register_forward_hook(keep).remove)
        yield passed


def norm_between(state: Tensor, x: Tensor, passed: Passed, what: str) -> Norm | None:
    """The normalisation that turns one tensor into another; None where both are the same.

    Parameters
    ----------
    state, x
        [1, tokens, width] each: before and after.
    passed
        From :func:`norms_of`.
    what
        The latter in words.

    Raises
    ------
    NotKnown
        If there is none in closed form.
    """
    if x.shape == state.shape and torch.equal(x, state):
        return None
    for module, taken, gave in passed:
        if gave.shape != x.shape or not torch.equal(gave, x) or not torch.equal(taken, state):
            continue
        eps = next((getattr(module, name) for name in EPSILONS if hasattr(module, name)), None)
        if eps is None:
            break
        gain = cast(Tensor, module.weight).detach().float()  # [d_model]
        bias, none = getattr(module, "bias", None), torch.zeros_like(gain)
        for norm in (
            Norm(gain, none if bias is None else bias.detach().float(), eps, is_rms=False),
            Norm(gain, none, eps, is_rms=True),
            Norm(1 + gain, none, eps, is_rms=True),
        ):
            if _is_close(norm.of(taken), x):
                return norm
        break
    raise NotKnown(f"{what} is no known normalisation")
