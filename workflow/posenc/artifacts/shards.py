"""Shards written part by part: a safetensors file of known size, filled token after token.

The safetensors library writes whole tensors; a shard of activations is larger than the memory that
a capture should take, and its token axis is not its first.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.activations import SCHEMA

DTYPES = {"float16": "F16", "float32": "F32", "bool": "BOOL", "int32": "I32"}


class ShardFile:
    """A safetensors file that is written in any order.

    Parameters
    ----------
    path
        The file, which is written anew.
    tensors
        By name: NumPy's name of the type, and the shape. The file holds them in this order.

    Notes
    -----
    Format: 8 bytes little-endian length of the header, the header in JSON, the tensors
    (https://huggingface.co/docs/safetensors).
    """

    def __init__(self, path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        # One metadata key at most: the library writes several in an order that varies.
        header: dict[str, object] = {"__metadata__": {"schema": str(SCHEMA)}}
        self.tensors, end = dict(tensors), 0
        self._begin: dict[str, int] = {}
        for name, (dtype, shape) in self.tensors.items():
            self._begin[name] = end
            end += np.dtype(dtype).itemsize * math.prod(shape)
            header[name] = {
                "dtype": DTYPES[dtype],
                "shape": list(shape),
                "data_offsets": [self._begin[name], end],
            }
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
        self._data = 8 + len(text)
        self._file = open(path, "wb")  # noqa: SIM115
        self._file.truncate(self._data + end)
        self._file.write(len(text).to_bytes(8, "little") + text)
        self._file.flush()

    def __enter__(self) -> ShardFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, name: str, begin: int, part: NDArray) -> None:
        """Write tokens of a tensor.

        Parameters
        ----------
        name
            Of the tensor.
        begin
            Its first token in the tensor.
        part
            [..., tokens, features], or [tokens] for a tensor with one axis; of the tensor's type.
        """
        dtype, shape = self.tensors[name]
        if part.dtype != np.dtype(dtype):
            raise TypeError(f"{name} is {dtype}, its part {part.dtype}")
        part = part.reshape(-1, *(part.shape[-2:] if len(shape) > 1 else part.shape))
        features = shape[-1] if len(shape) > 1 else 1
        tokens = shape[-2] if len(shape) > 1 else shape[0]
        size = features * part.itemsize  # bytes of a token in one layer or head
        for number, rows in enumerate(part):  # [tokens of the part, features]
            offset = self._data + self._begin[name] + (number * tokens + begin) * size
            view = np.ascontiguousarray(rows).data.cast("B")
            while view:  # a call may write less than it is given
                written = os.pwrite(self._file.fileno(), view, offset)
                view, offset = view[written:], offset + written
