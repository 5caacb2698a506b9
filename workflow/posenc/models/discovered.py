"""Weights of any type: read from the loaded model, where its discovered parts are proved to be.

What reads weights asks :func:`tensors_of` and need not know which of both it has.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from posenc.architectures.layouts import LAYOUTS
from posenc.architectures.needs import NotKnown
from posenc.models.values import ValueMaps
from posenc.models.weights import Weights

if TYPE_CHECKING:
    from torch import Tensor

    from posenc.architectures.architecture import Architecture
    from posenc.architectures.maps import Maps, Norm
    from posenc.architectures.sums import Sums

Floats = NDArray[np.float64]
W = TypeVar("W", bound=Weights)
TOKENS = 8
"""Of the text that proves what is read."""


def tensors_of(made_by: type[W], folder: Path, family: str) -> W | Discovered:
    """Weights by the names of their tensors where these are known, else as discovered."""
    return made_by(folder, family) if family in LAYOUTS else Discovered(folder, family)


class Discovered:
    """The same as :class:`Weights` and those made of it, of a model that is loaded.

    Weights in bfloat16 or float16 are widened, which changes no number. Each property raises
    :class:`NotKnown` where the model makes something else of its weights.

    Parameters
    ----------
    folder
        With ``config.json`` and the weights.
    family
        What the model is called in errors.
    """

    def __init__(self, folder: Path, family: str) -> None:
        from posenc.architectures import comparing, discover
        from posenc.models.load import load

        self.found: Architecture = discover.of(load(folder, family))
        self.ids = comparing.sample_ids(self.found.model, TOKENS)
        self.is_decoder = self.found.causal
        self.n_layers, self.n_heads = self.found.n_layers, self.found.n_heads

    def embeddings(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Token and position embeddings, [vocabulary, d_model] and [positions, d_model]."""
        return _array(self._sums.tokens), _array(self._sums.positions)

    def token_type(self) -> NDArray[np.float32]:
        """What is added to every token beside both, [d_model]."""
        return _array(self._sums.constant)

    @property
    def eps(self) -> float:
        """What the first normalisation of the sum of the embeddings adds to the variance."""
        return self._first_norm(0).eps

    @property
    def has_block_norm(self) -> bool:
        """Whether each block begins with a normalisation of its own."""
        return self._sums.norm is None

    def input_norm(self, layer: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gain and bias [d_model] of the layer normalisation that makes the block's input."""
        norm = self._first_norm(layer)
        if norm.eps != self.eps:
            raise NotKnown(f"layer {layer} normalises with another epsilon than the first")
        return _array(norm.gain), _array(norm.bias)

    def heads(self, layer: int) -> tuple[Floats, Floats]:
        """W^Q and W^K of all heads of a layer with their biases, [n_heads, d_model + 1, d_head]."""
        maps = self._maps(layer)
        if not self.found.layers[layer].sees_all(self.found.positions or TOKENS):
            raise NotKnown(f"layer {layer} sees the last tokens alone")
        own = self.found.layers[layer]
        # Scores are products over √d_head, whatever the type scales, and where.
        scale = own.scaling / own.d_head**-0.5
        query, key = _double(maps.query) * scale, _double(maps.key)
        return query, np.repeat(key, len(query) // len(key), axis=0)

    def maps(self, layer: int) -> ValueMaps:
        """The maps of a layer's values and of its output."""
        maps, norm, own = self._maps(layer), self._norms[layer], self.found.layers[layer]
        if not math.isclose(own.scaling, own.d_head**-0.5):  # as stored queries and keys are read
            raise NotKnown(
                f"scores of layer {layer} are not products of queries and keys / √d_head"
            )
        return ValueMaps(
            (_double(norm.gain), _double(norm.bias)) if norm else None,
            norm is not None and norm.is_rms, norm.eps if norm else 0.0,
            _double(maps.value), _double(maps.output), _double(maps.output_bias),
        )  # fmt: skip

    def _first_norm(self, layer: int) -> Norm:
        """The only layer normalisation between the sum of the embeddings and the maps."""
        norms = [norm for norm in (self._sums.norm, self._norms[layer]) if norm is not None]
        if len(norms) != 1 or norms[0].is_rms:
            raise NotKnown(
                f"not one layer normalisation stands between the embeddings and the maps of layer "
                f"{layer}"
            )
        return norms[0]

    def _maps(self, layer: int) -> Maps:
        from posenc.architectures.maps import maps_of

        if (reason := self._unproved) is not None:
            raise NotKnown(reason)
        own = self.found.layers[layer]
        if own.softcap or own.has_sinks or own.has_bias:
            raise NotKnown(f"scores of layer {layer} are capped, or have sinks or biases")
        if not self.found.is_even:
            raise NotKnown("its layers differ in their heads")
        return maps_of(self.found, layer)

    @functools.cached_property
    def _sums(self) -> Sums:
        from posenc.architectures.sums import sums_of

        return sums_of(self.found, self.ids)

    @functools.cached_property
    def _norms(self) -> list[Norm | None]:
        from posenc.architectures.maps import norms_before_maps

        return norms_before_maps(self.found, self._text)

    @functools.cached_property
    def _unproved(self) -> str | None:
        """Why the maps are not what the attention uses, if they are not."""
        from posenc.architectures.maps import check_maps

        return check_maps(self.found, self._text)[0]

    @property
    def _text(self) -> Tensor:
        import torch

        return torch.tensor([self.ids])  # [1, tokens]


def _double(x: Tensor) -> Floats:
    return _array(x).astype(np.float64)


def _array(x: Tensor) -> NDArray[np.float32]:
    return x.detach().float().numpy()
