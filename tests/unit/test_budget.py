"""`make test` takes a share of the slow tests with each commit, and all of them in time."""

import subprocess
import sys

from tests.budget import SHARES, commit, is_due
from tests.copies import ROOT


def test_each_slow_test_is_in_one_share_of_as_many():
    commits = [f"{number:040x}" for number in range(7_000, 7_000 + SHARES)]
    for name in ("tests/a.py::test_a", "tests/a.py::test_a[b]", "tests/b.py::test_c"):
        assert sum(is_due(name, commit) for commit in commits) == 1
    names = [f"tests/a.py::test_{number}" for number in range(2_400)]
    share = sum(is_due(name, commits[0]) for name in names)
    assert 2_400 / SHARES / 2 < share < 2_400 / SHARES * 2


def test_without_a_commit_no_slow_test_is_due():
    assert not any(is_due(f"tests/a.py::test_{number}", "") for number in range(100))


def test_a_share_of_the_slow_tests_is_taken_along():
    """Collected as `make test` does it, the slow tests of a file are those that are due."""
    file = "tests/unit/test_typeset.py"
    collect = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--collect-only", "-q", file]
    every, slow, due = (
        subprocess.run([*collect, "-m", mark], cwd=ROOT, capture_output=True, text=True).stdout
        for mark in ("slow or not slow", "slow", "due")
    )
    tests = [line for line in slow.splitlines() if "::" in line]
    assert tests and len(tests) < every.count("::")
    assert [line for line in due.splitlines() if "::" in line] == [
        name for name in tests if is_due(name, commit())
    ]
