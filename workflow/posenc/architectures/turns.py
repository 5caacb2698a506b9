"""How each layer's queries and keys are turned, found by running its attention once more alone.

Each layer's attention runs again on what it was given, with the angles of position 0: it then
compares content. Pairs of features are proved if turning the content by them gives what was
compared before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from posenc.architectures import attention
from posenc.architectures.architecture import Architecture, quiet
from posenc.architectures.observed import Call
from posenc.architectures.position import Rotation, Turned, cosines_sines, rotated_as

CLOSE = 1e-4
"""Difference of turned queries, relative to the largest, that rounding explains."""
Given = tuple[tuple, dict[str, object]]
Angles = dict[int, tuple[int, str | None, Any]]
"""By the identity of a tensor that a rotary module gave: module, layer type, the same at 0."""


def find_turns(arch: Architecture, ids: Tensor) -> None:
    """Note in a rotation how it turns each layer; ``ids`` [1, tokens]."""
    rotation = arch.position
    assert isinstance(rotation, Rotation)
    modules = [layer.module for layer in arch.layers]
    if len({id(module) for module in modules}) < len(modules):
        return  # shared ones would be called out of turn
    given: dict[int, Given] = {}
    with _given(modules, given), _outputs(rotation) as outputs, attention.observing() as seen:
        arch.begin()
        arch.body(ids, **quiet(arch.body))
    with rotation.removed(), _outputs(rotation) as still:
        arch.body(ids, **quiet(arch.body))
    angles: Angles = {}
    for (number, kind, output), (_, _, at_zero) in zip(outputs, still, strict=True):
        pairs = (
            [(output, at_zero)] if isinstance(output, Tensor) else zip(output, at_zero, strict=True)
        )
        for tensor, zero in pairs:
            angles[id(tensor)] = (number, kind, zero)
    turns: list[Turned | None] = []
    unknown = set()
    for layer, (module, call) in enumerate(zip(modules, seen.calls, strict=True)):
        turn = _turn(rotation, module, call, given[id(module)], angles)
        if turn is _UNKNOWN:
            unknown.add(layer)
        turns.append(turn if isinstance(turn, Turned) else None)
    arch.position = replace(rotation, layers=turns, unknown=frozenset(unknown))


_UNKNOWN = object()


@contextlib.contextmanager
def _given(modules: list[nn.Module], into: dict[int, Given]) -> Iterator[None]:
    """Keep what modules are given, during a block."""

    def keep(module: nn.Module, args: tuple, named: dict) -> None:
        into[id(module)] = (args, dict(named))

    with contextlib.ExitStack() as stack:
        for module in modules:
            hook = module.register_forward_pre_hook(keep, with_kwargs=True)
            stack.callback(hook.remove)
        yield


@contextlib.contextmanager
def _outputs(rotation: Rotation) -> Iterator[list[tuple[int, str | None, Any]]]:
    """Keep what rotary modules give, during a block: module, layer type, output."""
    outputs: list[tuple[int, str | None, Any]] = []

    def keep(module: nn.Module, args: tuple, named: dict, output: Any) -> None:
        kind = named.get("layer_type", args[2] if len(args) > 2 else None)
        outputs.append((rotation.modules.index(module), kind, output))

    with contextlib.ExitStack() as stack:
        for module in rotation.modules:
            hook = module.register_forward_hook(keep, with_kwargs=True)
            stack.callback(hook.remove)
        yield outputs


def _turn(
    rotation: Rotation,
    module: nn.Module,
    call: Call,
    given: Given,
    angles: Angles,
) -> Any:
    """How a layer is turned; None if it is not, ``_UNKNOWN`` if that cannot be told."""
    used: list[tuple[int, str | None]] = []

    def at_zero(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(at_zero(part) for part in value)
        if isinstance(value, Tensor) and id(value) in angles:
            number, kind, zero = angles[id(value)]
            used.append((number, kind))
            return zero
        return value

    args, named = given
    args, named = at_zero(args), {key: at_zero(value) for key, value in named.items()}
    inner = [m for m in rotation.modules if any(m is part for part in module.modules())]
    if inner and not used:
        used.append((rotation.modules.index(inner[0]), None))
    if not used:
        return None if not inner else _UNKNOWN
    try:
        with rotation.removed(), attention.observing() as seen:
            module(*args, **named)
    # A module that needs more than it was given in the pass.
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError):
        return _UNKNOWN
    if len(seen.calls) != 1:
        return _UNKNOWN
    pairs = ((seen.calls[0].query, call.query), (seen.calls[0].key, call.key))
    if all(_is_close(content, turned) for content, turned in pairs):
        return None
    number, kind = used[0]
    form = rotation.forms.get((number, kind))
    if form is None:
        return _UNKNOWN
    places = torch.arange(call.query.shape[2], device=call.query.device)  # [tokens]
    rotary = rotation.modules[number]
    width = 2 * cosines_sines(rotary, kind, form, call.query, places)[0].shape[-1]
    whole = call.query.shape[-1]
    for features in dict.fromkeys(((0, width), (whole - width, whole))):
        for is_interleaved in (False, True):
            turn = Turned(rotary, kind, form, features, is_interleaved)
            parts = cosines_sines(rotary, kind, form, call.query, places)
            if all(_is_close(rotated_as(c, turn, *parts), t) for c, t in pairs):
                return turn
    return _UNKNOWN


def _is_close(ours: Tensor, theirs: Tensor) -> bool:
    scale = float(theirs.abs().max()) or 1.0
    return ours.shape == theirs.shape and float((ours - theirs).abs().max()) <= CLOSE * scale
