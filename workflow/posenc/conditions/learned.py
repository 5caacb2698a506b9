"""Learned masks on disk: biases by layer, head and distance, vectors, means of queries and keys."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.files import (
    ArtifactError,
    atomic_file,
    read_sealed,
    sha256_file,
    write_sealed,
)
from posenc.metrics.mask_placebos import hashed_distances, hashed_sides

SCHEMA = 1


@dataclass(frozen=True)
class LearnedMask:
    """A mask that was learned from calibration text, the model frozen.

    Attributes
    ----------
    relative
        float32 [n_layers, n_heads, sides, offsets]: bias of a key by its distance from the query.
        One side for a decoder (the past); two for an encoder (past, future). A distance beyond the
        last has the last's.
    first
        float32 [n_layers, n_heads, offsets]: added to the bias of the first key, by the query's
        position; the last's beyond the last. None where there is none.
    absolute
        float32 [n_layers, n_heads, positions, positions]: bias of query i and key j, in place of
        the others. None where there is none.
    temperature
        float32 [n_layers, n_heads]: what the scores are divided by, before the bias. None for 1.
    hashed
        int64 []: the seed, where distances (and sides) are hashes of two token ids, which know no
        order: :func:`posenc.metrics.mask_placebos.hashed_distances`. None where they are distances.
    constant, initial
        float32 [d_model]: what stands in place of the position embeddings, and of the first one.
        None where positions are not learned.
    queries, keys, first_keys
        float32 [n_layers, n_heads, d_head]: mean queries, keys and first keys of documents, before
        rotation. None where they are not kept.
    """

    relative: NDArray[np.float32] | None = None
    first: NDArray[np.float32] | None = None
    absolute: NDArray[np.float32] | None = None
    constant: NDArray[np.float32] | None = None
    initial: NDArray[np.float32] | None = None
    temperature: NDArray[np.float32] | None = None
    hashed: NDArray[np.int64] | None = None
    queries: NDArray[np.float32] | None = None
    keys: NDArray[np.float32] | None = None
    first_keys: NDArray[np.float32] | None = None

    def bias(
        self, layer: int, length: int, ids: Sequence[int] | None = None
    ) -> NDArray[np.float32]:
        """Bias of a layer, [n_heads, length, length].

        Parameters
        ----------
        layer, length
            Which layer, and the tokens of the document.
        ids
            The tokens themselves, for a mask with hashed distances.

        Raises
        ------
        ArtifactError
            If the mask has no bias, is absolute and shorter than the document, or needs the tokens.
        """
        if self.absolute is not None:
            if length > self.absolute.shape[-1]:
                raise ArtifactError(
                    f"an absolute mask of {self.absolute.shape[-1]} positions does not reach "
                    f"{length} tokens: use a relative one for longer documents"
                )
            return self.absolute[layer, :, :length, :length]
        if self.relative is None:
            raise ArtifactError("the learned mask has no bias: it is not for a mask's profile")
        if self.hashed is not None:
            if ids is None:
                raise ArtifactError("distances are hashes of token ids: the mask needs the tokens")
            n_heads, *places = self.relative[layer].shape  # sides, offsets
            place = hashed_places(tuple(ids), *places, int(self.hashed))  # [length, length]
            return self._with_first(self.relative[layer].reshape(n_heads, -1)[:, place], layer)
        distance = np.minimum(np.arange(length), self.relative.shape[-1] - 1)  # [length]
        past = self.relative[layer][:, 0, distance]  # [n_heads, length]
        future = self.relative[layer][:, -1, distance[1:]]  # [n_heads, length - 1]
        # By offset from the last key back to the first; each row of the bias is a part of it.
        line = np.concatenate([future[:, ::-1], past], axis=1)  # [n_heads, 2 length - 1]
        step = line.strides[1]
        bias = np.lib.stride_tricks.as_strided(
            line[:, length - 1 :], (len(line), length, length), (line.strides[0], step, -step)
        ).copy()
        return self._with_first(bias, layer)

    def _with_first(self, bias: NDArray[np.float32], layer: int) -> NDArray[np.float32]:
        """The bias [n_heads, length, length], which is changed, and what the first key has."""
        if self.first is not None:
            rows = np.minimum(np.arange(bias.shape[1]), self.first.shape[-1] - 1)  # [length]
            bias[:, :, 0] += self.first[layer][:, rows]
        return bias

    @property
    def is_biased(self) -> bool:
        """Whether it has biases, so that it is for a mask's profile."""
        return self.relative is not None or self.absolute is not None

    def vectors(self, positions: int) -> NDArray[np.float32]:
        """Position embeddings, [positions, d_model].

        Raises
        ------
        ArtifactError
            If positions were not learned.
        """
        if self.constant is None:
            raise ArtifactError("the learned mask has no vectors: it is not for a position")
        table = np.repeat(self.constant[None], positions, axis=0)  # [positions, d_model]
        if self.initial is not None:
            table[0] = self.initial
        return table

    def means(self, layer: int) -> tuple[NDArray[np.float32], ...]:
        """Mean query, key and first key of a layer, [n_heads, d_head] each.

        Raises
        ------
        ArtifactError
            If it keeps none.
        """
        if self.queries is None or self.keys is None or self.first_keys is None:
            raise ArtifactError(
                "the learned mask has no mean queries and keys: the position first_order needs a "
                "mask of method means"
            )
        return self.queries[layer], self.keys[layer], self.first_keys[layer]

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Its arrays by name."""
        return {name: array for name, array in vars(self).items() if array is not None}


@functools.lru_cache(maxsize=2)
def hashed_places(ids: tuple[int, ...], sides: int, longest: int, seed: int) -> NDArray[np.int64]:
    """Where each pair of tokens has its bias in [sides * longest], int64 [tokens, tokens].

    All layers of a document share it.
    """
    place = hashed_distances(ids, longest, seed)  # [tokens, tokens]
    return place + longest * hashed_sides(ids, seed) if sides > 1 else place


def write(path: Path, mask: LearnedMask, facts: Mapping[str, Any]) -> None:
    """Write NAME.safetensors, and NAME.json with the facts and its checksum, atomically."""
    from safetensors.numpy import save_file

    # A file holds the bytes as they lie in memory, whatever the order of an array's axes is there.
    arrays = {name: np.asarray(array, order="C") for name, array in mask.arrays().items()}
    with atomic_file(path) as temporary:
        save_file(arrays, temporary)
    write_sealed(
        path.with_suffix(".json"), {"schema": SCHEMA, **facts, "arrays": sha256_file(path)}
    )


def read(path: Path) -> tuple[LearnedMask, Mapping[str, Any]]:
    """Read a mask and what its file says of it.

    Raises
    ------
    DamagedError
        If a file was altered.
    ArtifactError
        If a file is missing.
    """
    from safetensors.numpy import load_file

    from posenc.artifacts.files import DamagedError

    facts = read_sealed(path.with_suffix(".json"))
    if not path.exists():
        raise ArtifactError(f"{path} is missing; start the workflow again")
    if sha256_file(path) != facts["arrays"]:
        raise DamagedError(path, f"{path} does not match its checksum: it was altered or damaged")
    return LearnedMask(**load_file(path)), facts
