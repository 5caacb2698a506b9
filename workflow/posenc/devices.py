"""Which device a model runs on."""

from __future__ import annotations


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
