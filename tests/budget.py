"""What `make test` has time for, and how long a test waits."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 300
"""Seconds that a test waits for what has to come: what never comes fails later, what a busy machine
brings late does not fail."""


def wait_for(condition: Callable[[], Any]) -> Any:
    """Wait until a condition returns something true, and return it."""
    end = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.005)
    return result


def quick(*chosen, of: Iterable) -> list:
    """All values of a parameter; `make test` has time for the chosen ones."""
    return [case if case in chosen else pytest.param(case, marks=pytest.mark.slow) for case in of]


def commit() -> str:
    """The commit that is checked out, in hexadecimal digits; empty where there is none."""
    command = ["git", "-C", Path(__file__).parent, "rev-parse", "HEAD"]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else ""


SHARES = 24
"""Of the slow tests `make test` takes one share, another with each commit: none rots unseen."""


def is_due(nodeid: str, commit: str) -> bool:
    """Whether a slow test is in the share of a commit, by the digits of both."""
    of_test = int(hashlib.sha256(nodeid.encode()).hexdigest(), 16)
    return bool(commit) and (of_test - int(commit, 16)) % SHARES == 0
