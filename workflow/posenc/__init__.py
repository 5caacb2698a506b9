"""What position information does inside Transformers.

There is a room for each phase, from ``datasets`` (raw text to documents) over ``models``,
``conditions``, ``capture``, ``measurements`` and ``figures`` to ``report``; a room imports only
from those below it, and docs/architecture.md has them all. Importing the package imports none of
them, and torch only where a model runs.

What Python code calls (docs/python.md) is named in ``api``, and imported when it is first used.
"""

import importlib
from typing import Any

__version__ = "1.0.0"


def _places() -> dict[str, str]:
    """Where each public name is. A plain import would make the whole package code of every step."""
    places: dict[str, str] = importlib.import_module("posenc.api").PLACES
    return places


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _places():
        raise AttributeError(f"module 'posenc' has no attribute {name!r}")
    value = getattr(importlib.import_module(_places()[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_places()})
