"""Where position enters a model: a table that is added, or modules that turn queries and keys."""

from __future__ import annotations

import contextlib
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from posenc.architectures.table import POSITION_TABLES, ROTARY

TABLE, ROTATION, NONE = "table", "rotation", "none"
"""How positions come into a model."""
CLOSE = 1e-5
"""Cosines and sines that are the same, in float32."""
Turn = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From angles [positions, pairs] to other angles."""


def is_table(name: str, module: nn.Module) -> TypeGuard[nn.Embedding]:
    """Whether a module of that name is a table of position embeddings."""
    weight = getattr(module, "weight", None)
    is_matrix = isinstance(weight, Tensor) and weight.dim() == 2
    return name.rsplit(".", 1)[-1] in POSITION_TABLES and is_matrix


def is_rotary(module: nn.Module) -> bool:
    """Whether a module gives the cosines and sines of a rotation."""
    return ROTARY in type(module).__name__


@contextlib.contextmanager
def replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """A module computes something else during a block, without its hooks; then it is as before."""
    held = ("forward", "_forward_hooks", "_forward_pre_hooks")
    before = {name: module.__dict__[name] for name in held if name in module.__dict__}
    module.forward = forward
    module._forward_hooks, module._forward_pre_hooks = OrderedDict(), OrderedDict()
    try:
        yield
    finally:
        del module.forward
        module.__dict__.update(before)


@dataclass(frozen=True)
class NoPosition:
    """Neither a table nor a rotation."""

    kind = NONE


@dataclass(frozen=True)
class Table:
    """Position embeddings that are added to the input embeddings.

    Attributes
    ----------
    module
        Its ``weight`` is [rows, d_model].
    first
        Row of a document's first token.
    skipped
        A token that is not counted as a position and gets the row of its own number, as the
        padding of some models does wherever it stands; None for none.
    shift
        Row of a document's first token less the position id that the model is given for it.
    """

    module: nn.Embedding
    first: int
    skipped: int | None
    shift: int
    kind = TABLE

    @property
    def positions(self) -> int:
        """Tokens that there is a row for."""
        return len(self.module.weight) - self.first

    def rows(self, ids: Sequence[int]) -> NDArray[np.int64]:
        """The row of each token of a document, [tokens]."""
        if self.skipped is None or self.skipped not in ids:
            return np.arange(len(ids)) + self.first
        counted = np.asarray(ids) != self.skipped  # [tokens]
        return np.cumsum(counted) * counted + self.skipped

    @contextlib.contextmanager
    def removed(self) -> Iterator[None]:
        """Every position gets the zero vector, during a block."""
        original = self.module.weight.data  # [rows, d_model]
        self.module.weight.data = torch.zeros_like(original)
        try:
            yield
        finally:
            self.module.weight.data = original

    @contextlib.contextmanager
    def placed(self, rows: Tensor) -> Iterator[None]:  # [tokens]
        """The tokens of a row are at these rows of the table, whatever it is asked for.

        The module's own look-up is not run: a row of documents may be longer than the table.
        """
        module = self.module

        def forward(*_: Any, **__: Any) -> Tensor:
            return module.weight[rows.to(module.weight.device)][None]  # [1, tokens, d_model]

        with replaced(module, forward):
            yield


@dataclass(frozen=True)
class Turned:
    """How a layer's queries and keys are turned.

    Attributes
    ----------
    module
        The rotary module that gives its angles.
    layer_type
        What that module is asked for, where it has several rotations; None where it has one.
    form
        How angles stand in what the module gives, see :class:`Rotation`.
    features
        The first feature of a head that is turned, and the one after the last.
    interleaved
        Whether a pair of features are neighbours, or half of the features apart.
    """

    module: nn.Module
    layer_type: str | None
    form: str
    features: tuple[int, int]
    interleaved: bool


@dataclass(frozen=True)
class Rotation:
    """Modules that turn queries and keys by their positions.

    Attributes
    ----------
    modules
        All that are called.
    forms
        By module and layer type: how angles stand in what it gives, ``half``, ``interleaved``,
        ``plain`` or ``complex``; absent where that is not known, so that the rotation can be taken
        away and not be changed otherwise.
    positions
        Tokens that it is made for, as the configuration says.
    layers
        By layer, how it is turned; None if it is not, or is one of ``unknown``.
    unknown
        Layers of which that could not be told.
    """

    modules: tuple[nn.Module, ...]
    forms: Mapping[tuple[int, str | None], str]
    positions: int
    layers: Sequence[Turned | None] = ()
    unknown: frozenset[int] = frozenset()
    kind = ROTATION
    first = 0

    @property
    def problem(self) -> str | None:
        """Why it cannot be changed but by taking it away, if it cannot."""
        known = {number for number, _ in self.forms}
        if len(known) == len(self.modules):
            return None
        return (
            "what its rotary modules give is not cosines and sines of positions times frequencies"
        )

    @property
    def unturned(self) -> str | None:
        """Why turned queries and keys cannot be turned back, if they cannot."""
        if self.layers and not self.unknown:
            return None
        which = f"layer {min(self.unknown)} turns" if self.unknown else "its layers turn"
        return f"how {which} pairs of features could not be told"

    def begin(self) -> None:
        """Forget the texts before, as a text alone has none.

        A rotation that depends on the length of its text (``dynamic``) is kept by the library for
        the next one, unless that is shorter than what the model was trained for.
        """
        for module in self.modules:
            for name in [name for name in module.__dict__ if name.endswith("max_seq_len_cached")]:
                trained = module.original_max_seq_len
                if getattr(module, name) > trained:
                    prefix = name.removesuffix("max_seq_len_cached")
                    original = getattr(module, f"{prefix}original_inv_freq")
                    grown = getattr(module, f"{prefix}inv_freq")
                    setattr(module, f"{prefix}inv_freq", original.to(grown.device))
                    setattr(module, name, trained)

    @contextlib.contextmanager
    def removed(self) -> Iterator[None]:
        """Every token has position 0, during a block; the rotation's own scaling stays."""

        def at_zero(module: nn.Module, given: tuple, named: dict) -> tuple[tuple, dict]:
            bound = inspect.signature(module.forward).bind(*given, **named)
            places = bound.arguments.get("position_ids")
            if places is not None:
                bound.arguments["position_ids"] = torch.zeros_like(places)
            return bound.args, bound.kwargs

        with contextlib.ExitStack() as stack:
            for module in self.modules:
                hook = module.register_forward_pre_hook(at_zero, with_kwargs=True)
                stack.callback(hook.remove)
            yield

    @contextlib.contextmanager
    def turned(self, change: Turn, count: int) -> Iterator[None]:
        """Other angles, during a block.

        Parameters
        ----------
        change
            Of the angles of positions 0, 1, ..., float64 [positions, pairs].
        count
            Tokens of the longest document.
        """
        tables: dict[tuple[int, str | None, bytes], Tensor] = {}

        def hook(module: nn.Module, given: tuple, named: dict, output: Any) -> Any:
            bound = inspect.signature(module.forward).bind(*given, **named).arguments
            key = (self.modules.index(module), bound.get("layer_type"))
            rate = frequencies(module, key[1])  # [pairs]; some depend on the length of the text
            if (table := tables.get((*key, rate.tobytes()))) is None:
                places = np.arange(max(self.positions, count))[:, None]  # [positions, 1]
                table = torch.from_numpy(change(places * rate))  # [positions, pairs]
                tables[*key, rate.tobytes()] = table
            places = bound["position_ids"]  # [batch, tokens]
            angle = table.to(places.device)[places]  # [batch, tokens, pairs]
            return _as_given(self.forms[key], angle, scale_of(module, key[1]), output)

        with contextlib.ExitStack() as stack:
            for module in self.modules:
                hooked = module.register_forward_hook(hook, with_kwargs=True)
                stack.callback(hooked.remove)
            yield


def frequencies(module: nn.Module, layer_type: str | None = None) -> NDArray[np.float64]:
    """Radians per token of each pair of features, float64 [pairs]."""
    name = "inv_freq" if layer_type is None else f"{layer_type}_inv_freq"
    return getattr(module, name).double().cpu().numpy()


def scale_of(module: nn.Module, layer_type: str | None = None) -> float:
    """What cosines and sines are multiplied by."""
    name = "attention_scaling" if layer_type is None else f"{layer_type}_attention_scaling"
    return getattr(module, name, 1.0)


def _as_given(form: str, angle: Tensor, scale: float, output: Any) -> Any:
    """Angles [batch, tokens, pairs] as a rotary module gives them."""
    if form == "complex":
        return (torch.polar(torch.ones_like(angle), angle) * scale).to(output.dtype)
    if form == "half":
        angle = torch.cat([angle, angle], dim=-1)  # [batch, tokens, 2 pairs]
    elif form == "interleaved":
        angle = angle.repeat_interleave(2, dim=-1)  # [batch, tokens, 2 pairs]
    parts = (angle.cos(), angle.sin())
    return tuple((x * scale).to(output[0].dtype) for x in parts)


def form_of(module: nn.Module, named: Mapping[str, Any], output: Any) -> str | None:
    """How angles stand in what a rotary module gave, see :class:`Rotation`; None if unknown."""
    places, layer_type = named.get("position_ids"), named.get("layer_type")
    if places is None or places.dim() != 2:
        return None
    try:
        rate = torch.from_numpy(frequencies(module, layer_type)).to(places.device)  # [pairs]
    except AttributeError:
        return None
    angle = places[..., None] * rate  # [batch, tokens, pairs]
    scale = scale_of(module, layer_type)
    for form in ("complex", "half", "interleaved", "plain"):
        if (form == "complex") != isinstance(output, Tensor):
            continue
        expected = _as_given(form, angle, scale, output)
        pairs = [(expected, output)] if form == "complex" else zip(expected, output, strict=True)
        if all(ours.shape == theirs.shape and _is_close(ours, theirs) for ours, theirs in pairs):
            return form
    return None


def _is_close(ours: Tensor, theirs: Tensor) -> bool:
    return bool((ours - theirs).abs().max() < CLOSE)


def cosines_sines(
    module: nn.Module, layer_type: str | None, form: str, x: Tensor, places: Tensor
) -> tuple[Tensor, Tensor]:
    """Cosines and sines at some positions, [positions, pairs] each.

    The library's scale of queries and keys is not part of them: it stays with the vectors.

    Parameters
    ----------
    module, layer_type, form
        As of :class:`Turned`.
    x
        Whatever has the type and the device of the model's states.
    places
        int64 [positions].
    """
    named = {} if layer_type is None else {"layer_type": layer_type}
    output = module(x, position_ids=places[None], **named)  # of one text
    scale = scale_of(module, layer_type)
    if form == "complex":
        return output[0].real / scale, output[0].imag / scale
    cosine, sine = (part[0] for part in output)  # [positions, features] each
    if form == "half":
        half = cosine.shape[-1] // 2
        cosine, sine = cosine[:, :half], sine[:, :half]
    elif form == "interleaved":
        cosine, sine = cosine[:, ::2], sine[:, ::2]
    return cosine / scale, sine / scale


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Vectors whose feature pairs (c, c + d_head / 2) are turned by angles.

    Parameters
    ----------
    x
        [..., tokens, d_head].
    cosine, sine
        [tokens, d_head / 2], or one row for all tokens; a negated sine turns back.
    """
    first, second = x.chunk(2, dim=-1)  # [..., tokens, d_head / 2] each
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def rotated_as(x: Tensor, turned: Turned, cosine: Tensor, sine: Tensor) -> Tensor:
    """As :func:`rotated`, with the features and the pairs of a layer."""
    whole = x.shape[-1]
    begin, end = turned.features
    part = x[..., begin:end]  # [..., tokens, turned features]
    if turned.interleaved:
        pairs = part.unflatten(-1, (-1, 2))  # [..., tokens, pairs, 2]
        flat = torch.cat([pairs[..., 0], pairs[..., 1]], dim=-1)
        first, second = rotated(flat, cosine, sine).chunk(2, dim=-1)
        part = torch.stack([first, second], dim=-1).flatten(-2)
    else:
        part = rotated(part, cosine, sine)
    if begin == 0 and end == whole:
        return part
    return torch.cat([x[..., :begin], part, x[..., end:]], dim=-1)
