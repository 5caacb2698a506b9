"""Modules that are found by their place: the same file in each folder of a package."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType


def discovered(package: str, file: str) -> dict[str, ModuleType]:
    """The modules of that name in the folders of a package, by folder; a folder may have none.

    Where both are written out, :mod:`posenc.artifacts.imports` counts these modules to the code of
    the module that calls this.

    Examples
    --------
    >>> sorted(discovered("posenc.experiments", "section"))[:2]
    ['downstream', 'memory_networks']
    """
    folder = Path(importlib.import_module(package).__path__[0])
    # A folder without the file is not imported: it is no code of the module that calls this.
    return {
        path.parent.name: importlib.import_module(f"{package}.{path.parent.name}.{file}")
        for path in sorted(folder.glob(f"*/{file}.py"))
    }
