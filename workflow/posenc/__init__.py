"""What position information does inside Transformers.

There is a room for each phase, from ``datasets`` (raw text to documents) over ``models``,
``conditions``, ``capture``, ``measurements`` and ``figures`` to ``report``; a room imports only
from those below it, and docs/architecture.md has them all. Importing the package imports none of
them, and torch only where a model runs.
"""

__version__ = "0.1.0"
