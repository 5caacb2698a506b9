"""Which device a model runs on, and with how many threads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

GPU_NODES = ("nvidia[0-9]*", "dxg")
"""Under ``/dev``: NVIDIA's own driver, and Windows' for Linux."""


def has_gpu(devices: Path = Path("/dev")) -> bool:
    """Whether this machine has a GPU that CUDA can use, without importing torch.

    Parameters
    ----------
    devices
        Where the system lists its devices.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(next(devices.glob(name), None) for name in GPU_NODES)


def device_for(wanted: str) -> str:
    """Return ``cpu`` or ``cuda``.

    Parameters
    ----------
    wanted
        ``auto`` (a GPU where there is one), ``cpu`` or ``cuda``.

    Raises
    ------
    RuntimeError
        If ``cuda`` is wanted and there is none.
    """
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("activations.device is 'cuda', but there is no GPU: use 'auto'")
    return wanted


def use_threads(threads: int) -> None:
    """Have torch compute on as many threads as a rule was given, but on no more than there are.

    ``snakemake --cores 8`` gives a job eight on a machine of two as well, where they would only
    wait for each other.
    """
    import torch

    torch.set_num_threads(min(threads, len(os.sched_getaffinity(0))))


PASSES_AT_ONCE = {"cpu": 1, "cuda": 16}
"""How many times the tokens of a pass on a CPU one takes on a device. A pass on a CPU stays in the
caches; a GPU has to be filled. Results are the same but for rounding: documents do not depend on
those that they run beside."""


def tokens_at_once(model: torch.nn.Module, tokens: int) -> int:
    """Tokens of a forward pass on a model's device, given those of one on a CPU."""
    return tokens * PASSES_AT_ONCE[next(model.parameters()).device.type]


def wait_for(device: torch.device) -> None:
    """Wait until a device has done what it was given; a GPU runs behind its program."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
