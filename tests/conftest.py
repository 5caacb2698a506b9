"""Settings of all tests."""

import os

# Before NumPy is loaded. Threads of two workers wait for each other: a regression took 20 times
# as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest

from posenc.artifacts.command import collect_rarely
from tests.budget import commit, is_due

collect_rarely()  # as jobs do: a third of the tests' time was spent on looks for cycles
# No test is timed: a machine may be busy.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

FIRST = ("front_ends", "pages", "recipes", "recovery", "remotes", "studies")
"""Files of tests/workflow that take about half of its time, those of the tiny study among them."""


COMMIT = commit()


def pytest_itemcollected(item) -> None:
    """Mark the slow tests that are in this commit's share."""
    if item.get_closest_marker("slow") and is_due(item.nodeid, COMMIT):
        item.add_marker(pytest.mark.due)


@pytest.hookimpl(trylast=True)  # after slow tests were taken out
def pytest_collection_modifyitems(items) -> None:
    """Long tests first, so that a worker does not wait for the other at the end.

    Each of two workers is given half of the list. So each half begins with half of the workflow's
    tests: one worker builds the tiny study while the other is busy with the core study.
    """
    first, second, short = [], [], []
    for item in items:
        long = item.path.parent.name == "workflow"
        name = item.path.stem.removeprefix("test_")
        (short if not long else first if name in FIRST else second).append(item)
    middle = max(0, len(items) // 2 - len(first))
    items[:] = [*first, *short[:middle], *second, *short[middle:]]


MAY_BE_SKIPPED = ("does not let a test mount",)  # what a container may be refused


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session) -> None:
    """Where everything can be installed (``POSENC_CI=1``), a skipped test is a failure.

    Slow tests may lack a service that `make setup-tests` does not install: sshd, Slurm.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or "POSENC_CI" not in os.environ:
        return
    skipped = [r for r in reporter.stats.get("skipped", []) if "slow" not in r.keywords]
    reasons = [str(report.longrepr) for report in skipped]
    refused = [reason for reason in reasons if not any(part in reason for part in MAY_BE_SKIPPED)]
    if refused:
        reporter.write_line(f"POSENC_CI=1: these may not be skipped: {refused}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
