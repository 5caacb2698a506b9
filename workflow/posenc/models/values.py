"""What a head adds to the residual stream for each key: W_O (W_V x + b_V), its part of both maps.

The output map of an attention sub-layer takes the heads side by side, so what it gives is the sum
of what each head adds, and a bias (Elhage et al. (2021), "A mathematical framework for transformer
circuits", section "Attention heads are independent and additive",
https://transformer-circuits.pub/2021/framework/index.html).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.norms import layer_norm, rms_norm
from posenc.metrics.relative_attention import augmented
from posenc.models.weights import Weights

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ValueMaps:
    """The maps of a layer's values, and of its output.

    Attributes
    ----------
    norm
        Gain and shift, float64 [d_model] each, of the normalisation before the layer; None where
        there is none.
    is_rms
        Whether that is :func:`posenc.metrics.norms.rms_norm`.
    eps
        What it adds to the variance, or to the mean square.
    value
        float64 [key_value_heads, d_model + 1, d_head]: W_V, and b_V as a last row.
    output
        float64 [n_heads, d_head, d_model]: each head's part of W_O.
    bias
        float64 [d_model]: of the output map.
    """

    norm: tuple[Floats, Floats] | None
    is_rms: bool
    eps: float
    value: Floats
    output: Floats
    bias: Floats

    def values(self, states: ArrayLike) -> Floats:
        """Values of each head; heads of a group share theirs.

        Parameters
        ----------
        states
            [tokens, d_model]: the hidden states that the layer is given.

        Returns
        -------
        float64 [n_heads, tokens, d_head].
        """
        x = np.asarray(states, np.float64)  # [tokens, d_model]
        if self.norm is not None:
            gain, shift = self.norm
            x = (rms_norm if self.is_rms else layer_norm)(x, self.eps) * gain + shift
        own = x @ self.value[:, :-1] + self.value[:, -1:]  # [key_value_heads, tokens, d_head]
        return np.repeat(own, len(self.output) // len(own), axis=0)


class ValueWeights(Weights):
    """The tensors that values and outputs of attention depend on."""

    def maps(self, layer: int) -> ValueMaps:
        """The maps of a layer.

        Raises
        ------
        ArtifactError
            If a tensor is absent.
        """
        layout, norm = self.layout, None
        if layout.has_block_norm:
            norm = self.norm(layout.input_norm.format(layer=layer))
        stems = [name.format(layer=layer) for name in layout.maps]
        if len(stems) == 1:
            # Conv1D: x @ W, with queries, keys and values side by side.
            value = (
                np.split(self.tensor(f"{stems[0]}.weight"), 3, axis=1)[2],
                np.split(self.tensor(f"{stems[0]}.bias"), 3)[2],
            )
        else:
            value = self._map(stems[2])
        output = self._map(layout.output.format(layer=layer))
        n_heads = self.config[layout.n_heads]
        parts = np.split(np.asarray(output[0], np.float64), n_heads)  # [d_head, d_model] each
        joint = augmented(*value)  # [d_model + 1, key_value_heads * d_head]
        return ValueMaps(
            norm if norm is None else (norm[0].astype(np.float64), norm[1].astype(np.float64)),
            layout.is_rms,
            self.eps,
            np.stack(np.split(joint, joint.shape[1] // len(parts[0]), axis=1)),
            np.stack(parts),
            np.asarray(output[1], np.float64),
        )

    def _map(self, stem: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weight [inputs, outputs] and bias [outputs] of an affine map, 0 where it has none."""
        weight, bias = self.tensor(f"{stem}.weight"), f"{stem}.bias"
        if not self.layout.is_transposed:
            weight = weight.T
        none = np.zeros(weight.shape[1], np.float32)
        return weight, self.tensor(bias) if self._named(bias) else none
