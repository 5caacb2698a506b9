"""What position information does inside Transformers.

The package is walked one way: ``datasets`` (raw text to documents), ``tokenization``,
``models`` and ``conditions``, ``capture`` and ``store`` (hidden states, queries and keys),
``measures`` (pure mathematics), ``figures`` and ``typeset``. ``steps`` holds one thin command
for each rule of the workflow. Importing the package imports none of them, and torch only where
a model runs.
"""

__version__ = "0.1.0"
