"""Weights that are a mapped file: its pages count as this process's memory once they are read."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import TYPE_CHECKING

from torch import Tensor

from posenc.artifacts.precision import is_narrow

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_PAGEOUT = 21  # Linux 5.4; Python has no name for it


def release(mapped: Tensor) -> None:
    """Let go of the pages of a tensor that is not read again.

    Advice only: pages that the kernel lets go are read again from the file where needed.
    """
    if mapped.device.type == "cpu" and mapped.nbytes >= mmap.PAGESIZE and sys.platform == "linux":
        begin = -(-mapped.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        size = (mapped.data_ptr() + mapped.nbytes - begin) // mmap.PAGESIZE * mmap.PAGESIZE
        ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), _PAGEOUT)


def widen(model: PreTrainedModel) -> None:
    """Take weights to float32 one by one, so that no file and no copy is there beside all."""
    for parameter in model.parameters():
        if is_narrow(parameter.dtype):
            mapped = parameter.data
            parameter.data = mapped.float()
            release(mapped)
