"""What `make test` has time for, and how long a test waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

PATIENCE = 300
"""Seconds that a test waits for what has to come: what never comes fails later, what a busy machine
brings late does not fail."""


def wait_for(condition: Callable[[], Any]) -> Any:
    """Wait until a condition gives something that is true, and return it."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.005)
    return found


def quick(*chosen, of: Iterable) -> list:
    """All values of a parameter, of which `make test` has time for the chosen ones."""
    return [one if one in chosen else pytest.param(one, marks=pytest.mark.slow) for one in of]
