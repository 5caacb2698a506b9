"""What attention scores are made of: query and key maps, and the normalisation before them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posenc.architectures.layouts import LAYOUTS
from posenc.architectures.table import TRAINED_HERE
from posenc.artifacts.files import ArtifactError
from posenc.metrics.relative_attention import augmented
from posenc.models.files import CONFIG
from posenc.models.tables import FLOATS, opened
from posenc.models.weights import Weights

Floats = NDArray[np.float64]


class HeadWeights(Weights):
    """The tensors of a model that attention scores depend on.

    Raises
    ------
    ArtifactError
        If the configuration lacks the numbers of layers and heads, or scales its scores in an
        unknown way.
    """

    def __init__(self, folder: Path, family: str) -> None:
        super().__init__(folder, family)
        self.is_decoder = self.has_block_norm = self.layout.has_block_norm
        names = self.layout.n_layers, self.layout.n_heads
        missing = [name for name in names if name not in self.config]
        if missing:
            raise ArtifactError(f"{folder / CONFIG} has no {missing[0]}; delete it and rerun")
        self.n_layers, self.n_heads = (self.config[name] for name in names)
        if not self.config.get("scale_attn_weights", True) or self.config.get(
            "scale_attn_by_inverse_layer_idx", False
        ):
            raise ArtifactError(
                f"{folder / CONFIG}: scores are not scaled by 1 / √d_head; take another model"
            )

    def input_norm(self, layer: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gain and bias [d_model] of the layer normalisation that makes the block's input."""
        return self.norm(self.layout.input_norm.format(layer=layer))

    def heads(self, layer: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """W^Q and W^K of all heads of a layer with their biases, [n_heads, d_model + 1, d_head]."""
        stems = [name.format(layer=layer) for name in self.layout.maps]
        if len(stems) == 1:
            # Conv1D: x @ W, with queries, keys and values side by side.
            weights = np.split(self.tensor(f"{stems[0]}.weight"), 3, axis=1)
            biases = np.split(self.tensor(f"{stems[0]}.bias"), 3)
        else:
            weights = [self.tensor(f"{stem}.weight").T for stem in stems[:2]]
            biases = [self.tensor(f"{stem}.bias") for stem in stems[:2]]
        return _by_head(weights, biases, self.n_heads)


class HeadFile:
    """The same of a ``.safetensors`` file with tensors of a GPT-2, if need be with those alone.

    It has, for each layer, the first normalisation and either the fused map of queries, keys and
    values, as the hub's files do, or ``attn.query`` and ``attn.key``, [inputs, outputs] both.

    Parameters
    ----------
    path
        The file.
    n_heads
        Heads of a layer, which the file does not say.
    field
        Name of its section in ``params.yaml``, for errors.

    Raises
    ------
    ArtifactError
        If the file has no layer, lacks a tensor of one, or a tensor has another shape or is not
        finite.
    """

    is_decoder = True
    eps = 1e-5
    """GPT-2's."""

    def __init__(self, path: Path, n_heads: int, field: str) -> None:
        self.path, self.n_heads, self.field = path, n_heads, field
        with opened(path, field) as file:
            self.names = {name.removeprefix("transformer."): name for name in file.keys()}  # noqa: SIM118
        layers = {int(match[1]) for name in self.names if (match := _LAYER.match(name))}
        if not layers:
            raise ArtifactError(
                f"{field}: {path} has no tensors h.0..., of which n_heads speaks: leave it out"
            )
        self.n_layers = max(layers) + 1

    def input_norm(self, layer: int) -> tuple[Floats, Floats]:
        """Gain and bias [d_model] of the layer normalisation that makes the block's input."""
        stem = LAYOUTS[TRAINED_HERE].input_norm.format(layer=layer)
        gain = self._tensor(f"{stem}.weight", 1)
        return gain, self._tensor(f"{stem}.bias", gain.shape)

    def heads(self, layer: int) -> tuple[Floats, Floats]:
        """W^Q and W^K of all heads of a layer with their biases, [n_heads, d_model + 1, d_head]."""
        joint = LAYOUTS[TRAINED_HERE].maps[0].format(layer=layer)
        stem = joint.rpartition(".")[0]
        d_model = len(self.input_norm(layer)[0])
        if d_model % self.n_heads:
            raise ArtifactError(
                f"{self.field}.n_heads: {self.n_heads} heads cannot share the width {d_model} of "
                f"{LAYOUTS[TRAINED_HERE].input_norm.format(layer=layer)}.weight of {self.path}"
            )
        if f"{joint}.weight" in self.names:
            weight = self._tensor(f"{joint}.weight", (d_model, 3 * d_model))
            bias = self._tensor(f"{joint}.bias", (3 * d_model,))
            weights, biases = np.split(weight, 3, axis=1), np.split(bias, 3)
        else:
            weights = [self._tensor(f"{stem}.{kind}.weight", (d_model, d_model)) for kind in _KINDS]
            biases = [self._tensor(f"{stem}.{kind}.bias", (d_model,)) for kind in _KINDS]
        return _by_head(weights, biases, self.n_heads)

    def _tensor(self, name: str, shape: int | tuple[int, ...]) -> Floats:
        """A tensor of a shape, or of so many dimensions."""
        if name not in self.names:
            raise ArtifactError(f"{self.field}: {self.path} has no tensor {name!r}")
        with opened(self.path, self.field) as file:
            kind = file.get_slice(self.names[name]).get_dtype()
            if kind not in FLOATS:
                raise ArtifactError(
                    f"{self.field}: {name} of {self.path} has entries of type {kind}, not one of "
                    + ", ".join(FLOATS)
                )
            if kind != "BF16":
                tensor = file.get_tensor(self.names[name]).astype(np.float64)
        if kind == "BF16":  # NumPy has none: only here is the large library imported
            with opened(self.path, self.field, "pt") as file:
                tensor = file.get_tensor(self.names[name]).double().numpy()
        if tensor.ndim != shape if isinstance(shape, int) else tensor.shape != shape:
            expected = f"{shape} dimensions" if isinstance(shape, int) else list(shape)
            raise ArtifactError(
                f"{self.field}: {name} of {self.path} has the shape {list(tensor.shape)}, not "
                f"{expected}"
            )
        if not np.isfinite(tensor).all():
            raise ArtifactError(
                f"{self.field}: {name} of {self.path} has an entry that is not finite"
            )
        return tensor


_LAYER = re.compile(r"h\.(\d+)\.")
_KINDS = ("query", "key")


def _by_head(weights: list, biases: list, n_heads: int) -> tuple[Floats, Floats]:
    """Maps of queries and keys with their biases, [n_heads, d_model + 1, d_head] each."""
    joint = [augmented(weights[n], biases[n]) for n in (0, 1)]  # [d_model + 1, d_model] each
    query, key = (np.stack(np.split(matrix, n_heads, axis=1)) for matrix in joint)
    return query, key
