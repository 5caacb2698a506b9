"""Maps of queries, keys, values and outputs, found by their names and proved by what they give."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posenc.architectures import attention
from posenc.architectures.architecture import Architecture, quiet
from posenc.architectures.attention import Call
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
        [n_heads, d_model + 1, d_head]: W^Q, and its bias as a last row.
    key
        [n_key_value_heads, d_model + 1, d_head].
    value
        [n_key_value_heads, d_model + 1, d_value].
    output
        [n_heads, d_value, d_model]: each head's part of W^O.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor


class NoMaps(RuntimeError):
    """The maps of a layer are not known, or not what its attention uses."""


def maps_of(found: Architecture, layer: int) -> Maps:
    """The maps of a layer by their names, not proved; see :func:`check_maps`.

    Raises
    ------
    NoMaps
        If there are none by a name that is known.
    """
    own = found.layers[layer]
    sizes = (
        (own.n_heads, own.d_head), (own.n_key_value_heads, own.d_head),
        (own.n_key_value_heads, own.d_value),
    )  # fmt: skip
    linear = _inputs(found, layer)
    if len(linear) == 3:
        parts = [
            _heads(*_affine(module), *size) for module, size in zip(linear, sizes, strict=True)
        ]
    else:
        weight, bias = _affine(linear[0])  # [d_model, outputs], [outputs]
        widths = [heads * width for heads, width in sizes]
        if sum(widths) != weight.shape[1]:
            raise NoMaps("the joint map of queries, keys and values has another width")
        cuts = [(w, b) for w, b in zip(weight.split(widths, 1), bias.split(widths), strict=True)]
        parts = [_heads(w, b, *size) for (w, b), size in zip(cuts, sizes, strict=True)]
    output, _ = _affine(_output(found, layer))  # [n_heads * d_value, d_model]
    query, key, value = parts
    return Maps(query, key, value, output.unflatten(0, (own.n_heads, own.d_value)))


def _inputs(found: Architecture, layer: int) -> Sequence[nn.Module]:
    """The modules that give queries, keys and values: three, or one that gives all."""
    children = dict(found.layers[layer].module.named_children())
    for names in SEPARATE_MAPS:
        if all(name in children for name in names):
            return [children[name] for name in names]
    for name in FUSED_MAPS:
        if name in children:
            return [children[name]]
    raise NoMaps(f"layer {layer} has no maps of queries, keys and values by a name that is known")


def _output(found: Architecture, layer: int) -> nn.Module:
    """The module that takes what the heads give, side by side."""
    block = found.blocks[layer] if found.blocks else found.layers[layer].module
    own = found.layers[layer].module
    for name, module in [*own.named_modules(), *block.named_modules()]:
        if name.rsplit(".", 1)[-1] in OUTPUT_MAPS and getattr(module, "weight", None) is not None:
            return module
    raise NoMaps(f"layer {layer} has no map of its output by a name that is known")


def _affine(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight [inputs, outputs] and bias [outputs] of an affine map."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        raise NoMaps("a map is no matrix")
    weight = weight.detach().float()
    if not hasattr(module, "nf"):  # the library's Conv1D keeps [inputs, outputs]
        weight = weight.T
    bias = getattr(module, "bias", None)
    bias = torch.zeros_like(weight[0]) if bias is None else bias.detach().float()
    return weight, bias


def _heads(weight: Tensor, bias: Tensor, heads: int, width: int) -> Tensor:
    """[heads, inputs + 1, width]."""
    if weight.shape[1] != heads * width:
        raise NoMaps("a map has another width than its heads")
    joint = torch.cat([weight, bias[None]])  # [inputs + 1, heads * width]
    return joint.unflatten(1, (heads, width)).transpose(0, 1)


@torch.inference_mode()
def check_maps(found: Architecture, ids: Tensor) -> tuple[str | None, str | None]:
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
    if not found.blocks:
        return ("its layers are no list of blocks",) * 2
    try:
        linear = [_inputs(found, layer)[0] for layer in range(found.n_layers)]
        outputs = [_output(found, layer) for layer in range(found.n_layers)]
    except NoMaps as error:
        return str(error), str(error)
    given: dict[int, Tensor] = {}
    norms: dict[int, list[tuple[nn.Module, Tensor, Tensor]]] = {}
    with (
        _first(linear, given), _first(outputs, given), _first(list(found.blocks), given),
        _norms(found, norms), attention.explicitly(), attention.observing() as seen,
    ):  # fmt: skip
        found.begin()
        found.body(ids, **quiet(found.body))
    maps: str | None = None
    path: str | None = None
    for layer, call in enumerate(seen.calls):
        x = given[id(linear[layer])]  # [1, tokens, d_model]
        try:
            _check_layer(found, layer, call, x, given[id(outputs[layer])])
        except NoMaps as error:
            maps = maps or str(error)
        if not _is_known(given[id(found.blocks[layer])], x, norms.get(layer, [])):
            path = path or f"what the maps of layer {layer} are given is no known normalisation"
    return maps, path


def _check_layer(found: Architecture, layer: int, call: Call, x: Tensor, heads: Tensor) -> None:
    """Compare what the maps of a layer give with what was recorded."""
    own = maps_of(found, layer)
    for name, weights, recorded in (
        ("queries", own.query, call.query), ("keys", own.key, call.key),
        ("values", own.value, call.value),
    ):  # fmt: skip
        if weights.shape[1] != x.shape[-1] + 1:
            raise NoMaps(f"{name} of layer {layer} are of a map of another width than its input")
        mapped = x @ weights[:, :-1] + weights[:, -1:]  # [heads, tokens, width]
        if name != "values":
            mapped = _turned(found, layer, mapped)
        if not _is_close(mapped, recorded[0]):
            raise NoMaps(f"{name} of layer {layer} are not its map times its input")
    bias = attention.as_bias(call.mask, x.shape[1], call.is_causal, x.device)
    n_heads = call.query.shape[1]
    key, value = (attention.by_query_head(y, n_heads) for y in (call.key, call.value))
    out = attention.explicit(call.query, key, value, call.options, bias)
    if not _is_close(out.transpose(1, 2).flatten(2), heads):  # [1, tokens, n_heads * d_value]
        raise NoMaps(f"the output map of layer {layer} is not given the heads side by side")


def _turned(found: Architecture, layer: int, x: Tensor) -> Tensor:  # [heads, tokens, d_head]
    rotation = found.position
    if not isinstance(rotation, Rotation) or not rotation.layers:
        return x
    if layer in rotation.unknown:
        raise NoMaps(f"how layer {layer} turns queries and keys could not be told")
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
        into[id(module)] = inputs[0] if inputs else named.get("hidden_states")

    with contextlib.ExitStack() as stack:
        for module in modules:
            hook = module.register_forward_pre_hook(keep, with_kwargs=True)
            stack.callback(hook.remove)
        yield


@contextlib.contextmanager
def _norms(found: Architecture, into: dict[int, list]) -> Iterator[None]:
    """Keep what modules with a vector of gains take and give, by block, during a block."""

    def keep_of(layer: int) -> Any:
        def keep(module: nn.Module, inputs: tuple, output: Any) -> None:
            if inputs and isinstance(output, Tensor):
                into.setdefault(layer, []).append((module, inputs[0], output))

        return keep

    with contextlib.ExitStack() as stack:
        for layer, block in enumerate(found.blocks):
            for module in block.modules():
                weight = getattr(module, "weight", None)
                if isinstance(weight, Tensor) and weight.dim() == 1:
                    stack.callback(module.register_forward_hook(keep_of(layer)).remove)
        yield


def _is_known(state: Tensor, x: Tensor, norms: list[tuple[nn.Module, Tensor, Tensor]]) -> bool:
    """Whether the input of maps is a block's, or a normalisation of it in closed form."""
    if x.shape == state.shape and torch.equal(x, state):
        return True
    for module, taken, gave in norms:
        if gave.shape != x.shape or not torch.equal(gave, x) or not torch.equal(taken, state):
            continue
        eps = next((getattr(module, name) for name in EPSILONS if hasattr(module, name)), None)
        if eps is None:
            return False
        gain = module.weight.float()  # [d_model]
        bias = getattr(module, "bias", None)
        centred = taken - taken.mean(dim=-1, keepdim=True)
        layer_norm = centred * (centred.square().mean(-1, keepdim=True) + eps).rsqrt() * gain
        rms = taken * (taken.square().mean(-1, keepdim=True) + eps).rsqrt()
        layer_norm = layer_norm if bias is None else layer_norm + bias
        return any(_is_close(own, x) for own in (layer_norm, rms * gain, rms * (1 + gain)))
    return False
