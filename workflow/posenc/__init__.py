"""What position information does inside Transformers.

There is a room for each phase, from ``datasets`` (raw text to documents) over ``models``,
``conditions``, ``capture``, ``measurements`` and ``figures`` to ``report``; a room imports only
from those below it, and docs/architecture.md has them all. Importing the package imports none of
them, and torch only where a model runs.

``load``, ``under`` and ``run`` are for Python code (docs/python.md); they are imported when they
are first used.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "Condition": "posenc.conditions.section",
    "ConditionError": "posenc.capture.parts",
    "Model": "posenc.api.loading",
    "ModelError": "posenc.models.files",
    "Run": "posenc.api.running",
    "load": "posenc.api.loading",
    "run": "posenc.api.running",
    "under": "posenc.api.under",
}
"""Where each public name is; ``__init__.pyi`` has them for checkers of types. A plain import would
make the whole package code of every step."""
__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'posenc' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
