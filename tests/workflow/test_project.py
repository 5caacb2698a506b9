"""The project that tests work in."""

from __future__ import annotations

import psutil
import pytest

from tests.workflow import conftest
from tests.workflow.conftest import Project


def test_a_command_that_never_ends_is_named_and_leaves_no_job(tmp_path, monkeypatch):
    monkeypatch.setattr(conftest, "LONGEST", 1)
    with pytest.raises(AssertionError, match="`bash -c sleep 3333 & sleep 3333` ran for more"):
        Project(tmp_path).run("bash", "-c", "sleep 3333 & sleep 3333")
    left = [process.info["cwd"] for process in psutil.process_iter(["cwd"])]
    assert str(tmp_path) not in left
