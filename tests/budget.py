"""What `make test` has time for, and how long a test waits."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

PATIENCE = 300
"""Seconds that a test waits for what has to come: what never comes fails later, what a busy machine
brings late does not fail."""


def quick(*chosen, of: Iterable) -> list:
    """All values of a parameter, of which `make test` has time for the chosen ones."""
    return [one if one in chosen else pytest.param(one, marks=pytest.mark.slow) for one in of]
