"""Modules that are found by their place: the same file in each folder of a package."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
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
    path = importlib.import_module(package).__path__
    names = [entry.name for entry in pkgutil.iter_modules(path) if entry.ispkg]
    return {
        name: importlib.import_module(module)
        for name in names
        if importlib.util.find_spec(module := f"{package}.{name}.{file}")
    }
