"""The store of activations: whole-document shards read back by memory map.

A store is a folder with ``index.parquet`` (one row a document; its metadata names the run, the
shapes and each shard's checksum), ``shard-NNNNN.safetensors`` and, for a decoder,
``losses.parquet``. Within a shard the layer, then the head, is the slowest axis, so one layer or
one head across documents is a contiguous read, and a document is a slice of the token axis.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import numpy as np

from posenc.artifacts.files import (
    ArtifactError,
    DamagedError,
    sha256_file,
)
from posenc.artifacts.precision import Precision
from posenc.artifacts.tables import read_table

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = 2
INDEX = "index.parquet"
LOSSES = "losses.parquet"
_DTYPES = {"F16": np.float16, "F32": np.float32, "BOOL": np.bool_, "I32": np.int32}


class Identity(TypedDict):
    """All that determines the bytes of a store."""

    inputs: dict[str, str]
    """Checksums of tokens and model, by name."""
    condition: Mapping[str, Any]
    """The condition, written out."""
    parameters: Mapping[str, str | int | list[str]]
    """The section ``activations`` of params.yaml."""
    versions: dict[str, str]
    """Of packages."""
    code: str


class Sizes(TypedDict):
    """Sizes of a model."""

    n_layers: int
    n_heads: int
    d_model: int
    vocabulary_size: int
    width: NotRequired[int]
    """Features of a head, where they are not those of ``d_model`` shared out."""


class OfModel(Sizes):
    """What the receipt of a shard says of the model that was run."""

    precision: Precision
    not_rebuilt: NotRequired[str]
    """Why attention does not follow from queries and keys, where it does not."""


class StoredFile(TypedDict):
    """A file of a store, and its checksum."""

    file: str
    sha256: str


class Metadata(Identity, OfModel):
    """What the index of a store says of it."""

    schema: int
    run: dict[str, str]
    """``model``, ``dataset`` and ``condition``."""
    family: str
    is_decoder: bool
    bos: bool
    """Whether texts begin with the end-of-text token."""
    n_shards: int
    files: list[StoredFile]


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:05d}.safetensors"


def map_shard(path: Path) -> dict[str, np.ndarray]:
    """Map the tensors of a safetensors file into memory, read-only and without copying.

    Raises
    ------
    DamagedError
        If the file is absent or shorter than its header says.
    """
    index = path.with_name(INDEX)  # without it, the store is made again
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
    except FileNotFoundError:
        raise DamagedError(index, f"{path} is missing", path) from None
    except (json.JSONDecodeError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise DamagedError(index, f"{path} is damaged ({error})", path) from None
    header.pop("__metadata__", None)
    arrays: dict[str, np.ndarray] = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        if 8 + length + end > size:
            raise DamagedError(index, f"{path} is truncated", path)
        arrays[name] = np.memmap(
            path,
            dtype=_DTYPES[entry["dtype"]],
            mode="r",
            offset=8 + length + start,
            shape=tuple(entry["shape"]),
        )
        if math.prod(entry["shape"]) * arrays[name].itemsize != end - start:
            raise DamagedError(index, f"{path}: {name} has a wrong size", path)
    return arrays


class ActivationStore:
    """A run's cached activations, verified when opened.

    Parameters
    ----------
    directory
        Folder written by ``posenc.steps.capture``.
    verify
        Names of the files whose SHA-256 is compared with the index (about 1 s a gigabyte); None
        for all. Name those that are going to be read.

    Raises
    ------
    DamagedError
        If a file is absent, truncated or altered.
    ArtifactError
        If the store is absent or of another version.
    """

    def __init__(self, directory: str | Path, verify: Collection[str] | None = None) -> None:
        self.directory = Path(directory)
        self.documents, metadata = read_table(self.directory / INDEX)
        self.metadata = cast(Metadata, metadata)
        if self.metadata.get("schema") != SCHEMA:
            raise ArtifactError(
                f"{self.directory} has schema {self.metadata.get('schema')}, this version reads "
                f"{SCHEMA}; delete it and rerun"
            )
        index = self.directory / INDEX
        self.digest = sha256_file(index)
        for entry in self.metadata["files"]:
            path = self.directory / entry["file"]
            if not path.exists():
                raise DamagedError(index, f"{path} is missing", path)
            wanted = verify is None or entry["file"] in verify
            if wanted and sha256_file(path) != entry["sha256"]:
                raise DamagedError(
                    index, f"{path} does not match its checksum: it was altered or damaged", path
                )

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return self.metadata["n_shards"]

    def shard(self, number: int) -> dict[str, np.ndarray]:
        """All tensors of a shard, memory-mapped.

        ``hidden_states`` [n_layers + 1, tokens, d_model]; ``queries`` and ``keys``
        [n_layers, n_heads, tokens, d_head]; ``special_mask`` and ``token_ids`` [tokens].
        Quantities that the parameters left out are absent.
        """
        return map_shard(self.directory / shard_name(number))

    def hidden_states(self, shard: int) -> np.ndarray:
        """Hidden states of a shard, [n_layers + 1, tokens, d_model].

        Raises
        ------
        ArtifactError
            If the run did not cache hidden states.
        """
        return self._quantity(shard, "hidden_states")

    def queries(self, shard: int) -> np.ndarray:
        """Queries of a shard before scaling, [n_layers, n_heads, tokens, d_head]."""
        return self._quantity(shard, "queries")

    def keys(self, shard: int) -> np.ndarray:
        """Keys of a shard, [n_layers, n_heads, tokens, d_head]."""
        return self._quantity(shard, "keys")

    def special_mask(self, shard: int) -> np.ndarray:
        """Which tokens of a shard were added by the tokenizer, bool [tokens]."""
        return self._quantity(shard, "special_mask")

    def token_ids(self, shard: int) -> np.ndarray:
        """Ids of a shard's tokens in the model's vocabulary, int32 [tokens]."""
        return self._quantity(shard, "token_ids")

    def losses(self) -> pa.Table:
        """Per-token negative log-likelihoods in nats; decoders only.

        Raises
        ------
        ArtifactError
            If the model is an encoder.
        """
        if not self.metadata["is_decoder"]:
            raise ArtifactError(f"{self.directory}: an encoder has no language-model losses")
        return read_table(self.directory / LOSSES)[0]

    def _quantity(self, shard: int, name: str) -> np.ndarray:
        arrays = self.shard(shard)
        if name not in arrays:
            raise ArtifactError(
                f"{self.directory} holds no {name}: add it to activations.quantities in params.yaml"
            )
        return arrays[name]


def check_pair(intact: ActivationStore, condition: ActivationStore) -> None:
    """Check that a run can be compared with the intact one, token by token.

    Raises
    ------
    ArtifactError
        If it is not its intact run, or their tokens do not correspond one to one.
    """
    run_of_intact, run_of_condition = intact.metadata["run"], condition.metadata["run"]
    if run_of_intact != {**run_of_condition, "condition": "intact"}:
        raise ArtifactError(f"{run_of_intact} is not the intact run of {run_of_condition}")
    if not intact.documents.equals(condition.documents):
        raise ArtifactError(
            f"{intact.directory} and {condition.directory} hold different documents; rerun both"
        )
