"""How the files of measurements and experiments are read for documents: what their folders say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, Quantities
from posenc.figures.catalogue import FOLDERS

QUANTITIES: dict[str, Quantities] = {name: module.QUANTITIES for name, module in FOLDERS.items()}
"""By measurement or experiment."""


def numbers_of(measured: Mapping[str, Any]) -> Facts:
    """The numbers of a measured file, or of a run in it, by quantity."""
    read = QUANTITIES[measured["measurement"]].read
    if read is None:
        raise ValueError(f"{measured['measurement']} has numbers of several places")
    return read(measured)
