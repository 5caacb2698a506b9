"""A mask as tensors: a bias on the scores, and factors on scores and pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from posenc.capture.parts import ConditionError, architecture
from posenc.conditions import profiles
from posenc.conditions import semantics as rows
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Mask
from posenc.conditions.semantics import Change

if TYPE_CHECKING:
    from transformers import PreTrainedModel

KEPT = 64
"""For how many lengths of documents the tensors of a mask are kept."""
KEPT_BYTES = 2**23
"""Larger biases of all layers are made again in each pass, which may be of a hundred masks."""
UNSEEN = np.float32(-np.inf)
"""Bias of a key that a query does not see."""
NO_CHANGE = {"bias": None, "score_factor": None, "pattern_factor": None}
"""Of a layer's attention, in the form of :meth:`Branch.tensors`."""


Documents = Sequence[Sequence[int]] | Sequence[int]
"""Token ids of each document, or its number of tokens alone."""


def _length_and_ids(document: Sequence[int] | int) -> tuple[int, Sequence[int] | None]:
    return (document, None) if isinstance(document, int) else (len(document), document)


def lengths_of(documents: Documents) -> list[int]:
    """Tokens of each document."""
    return [_length_and_ids(document)[0] for document in documents]


@dataclass
class Branch:
    """The mask of one condition, and the tensors made from it.

    Attributes
    ----------
    mask
        What it does; None for nothing.
    learned
        The learned bias that the mask names, if any.
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

    @property
    def is_hashed(self) -> bool:
        """Whether its bias depends on what the tokens are."""
        return self.learned is not None and self.learned.hashed is not None

    @property
    def is_shared(self) -> bool:
        """Whether one bias serves all documents, but for their padding."""
        return self.mask.semantics == "additive" and not self.is_hashed

    def serves_all(self, layer: int) -> bool:
        """Whether one change serves a layer's attention in documents of all lengths."""
        return not self.acts_on(layer) or self.is_shared

    def change(self, layer: int, length: int, ids: Sequence[int] | None = None) -> Change:
        """What it does to the attention of a layer in a document of so many tokens."""
        mask = self.mask
        if mask.semantics == "additive":
            if self.learned is not None:
                bias = self.learned.bias(layer, length, ids)  # [n_heads, length, length]
                if mask.profile.scale != 1:
                    bias = mask.profile.scale * bias
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

    def tensors(self, layer: int, documents: Documents, longest: int, device) -> dict:
        """Its change for a padded batch: bias, and factors where there are any.

        Parameters
        ----------
        layer
            Which layer.
        documents
            Token ids of each document, or its number of tokens where that alone is known.
        longest
            Tokens of each row of the batch.
        device
            Where the tensors lie.

        Returns
        -------
        dict
            ``bias`` [batch or 1, n_heads or 1, longest, longest], causal mask and padding included;
            ``score_factor`` and ``pattern_factor``, [batch or 1, n_heads or 1, longest or 1,
            longest], or None.
        """
        lengths = lengths_of(documents)
        is_padded = min(lengths) < longest
        layer = 0 if self.learned is None else layer  # only a learned bias differs between layers
        factor = self.inverse_temperature(layer, device)
        # A decoder's bias is the same for every document: padding lies in the future.
        if self.is_shared and (self.causal or not is_padded):
            bias = self._bias(layer, longest, device)
            return {**NO_CHANGE, "bias": bias, "score_factor": factor}
        if self.is_hashed:
            tensors = self._make(layer, documents, longest, device)
        else:
            tensors = self._kept(layer, lengths, longest, device)
        return tensors if factor is None else {**tensors, "score_factor": factor}

    def inverse_temperature(self, layer: int, device) -> Tensor | None:
        """What the scores are multiplied by, [1, n_heads, 1, 1], where there are temperatures."""
        if self.learned is None or self.learned.temperature is None:
            return None
        factor = 1 / torch.from_numpy(self.learned.temperature[layer])  # [n_heads]
        if self.mask is not None and self.mask.heads:
            chosen = torch.zeros(self.n_heads, dtype=torch.bool)
            chosen[self.mask.heads] = True
            factor = torch.where(chosen, factor, 1.0)
        return factor[None, :, None, None].to(device)

    def _kept(self, layer: int, lengths: Sequence[int], longest: int, device) -> dict:
        """As :meth:`tensors`, from what was made before for documents of these lengths."""
        sizes = tuple(lengths) if min(lengths) < longest else (longest,)
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
            if whole.nbytes * (1 if self.learned is None else self.n_layers) <= KEPT_BYTES:
                self._biases[layer] = whole
        return whole[..., :longest, :longest]

    def _make(self, layer: int, documents: Documents, longest: int, device) -> dict:
        each = [
            self._padded(self.change(layer, length, ids), length, longest)
            for length, ids in map(_length_and_ids, [longest] if self.is_shared else documents)
        ]
        tensors = {
            name: None if each[0][name] is None else torch.stack([change[name] for change in each])
            for name in each[0]
        }
        tensors = {
            name: value if value is None else value.to(device) for name, value in tensors.items()
        }
        if self.is_shared and not self.causal:
            tensors["bias"] = unpadded(tensors["bias"], lengths_of(documents))
        return tensors

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
            bias = bias.astype(np.float32, copy=False)
        if not chosen.all():
            causal = np.where(rows.future(length) & self.causal, UNSEEN, 0)  # [length, length]
            bias = np.where(chosen[:, None, None], np.where(hidden, UNSEEN, bias), causal)
        else:
            bias = np.where(hidden, UNSEEN, bias)
        if np.isneginf(bias.max(axis=-1)).any():
            raise ConditionError(
                f"the mask {self.mask.semantics} with the profile {self.mask.profile.kind} leaves "
                f"a query without any key (its factor is 0): raise the profile's floor above 0"
            )
        # Padded keys are seen by none; padded queries see what the document's do, and are not used.
        whole = bias
        if length < longest:
            whole = np.full((len(bias), longest, longest), UNSEEN)
            whole[:, :length, :length] = bias
            whole[:, length:, 0] = 0.0
        tensors = {"bias": torch.from_numpy(whole)}
        for name in ("score_factor", "pattern_factor"):
            factor = getattr(change, name)  # [length or 1, length]
            tensors[name] = None
            if factor is not None:
                padded = np.ones((1, 1 if factor.shape[-2] == 1 else longest, longest), np.float32)
                padded[0, : factor.shape[-2], :length] = factor
                if not chosen.all():
                    padded = np.where(chosen[:, None, None], padded, np.float32(1))
                tensors[name] = torch.from_numpy(padded)
        return tensors


def branch_of(
    model: PreTrainedModel, mask: Mask | None, masks: Mapping[str, LearnedMask] | None = None
) -> Branch:
    """The branch of a condition's mask; None for the trunk, which has none."""
    arch = architecture(model)
    profile = mask.profile if mask else None
    return Branch(
        mask=mask,
        n_layers=arch.n_layers,
        n_heads=arch.n_heads,
        causal=arch.causal,
        learned=(masks or {})[profile.mask] if getattr(profile, "kind", "") == "learned" else None,
    )


def real_keys(lengths: Sequence[int], longest: int, device) -> Tensor:
    """Which keys are tokens, bool [batch, 1, 1, longest]."""
    places = torch.arange(longest, device=device)
    return (places < torch.tensor(lengths, device=device)[:, None])[:, None, None, :]


def unpadded(bias: Tensor, lengths: Sequence[int]) -> Tensor:
    """A bias [1, n_heads, longest, longest] that hides padded keys, where there are any."""
    longest = bias.shape[-1]
    if min(lengths) == longest:
        return bias
    return torch.where(real_keys(lengths, longest, bias.device), bias, -torch.inf)
