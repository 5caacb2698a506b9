"""What a job asks of the C library."""

import platform
import subprocess
import sys

import pytest

from tests.budget import PATIENCE

LARGE = """
import resource, sys
from posenc.artifacts.command import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
b"x" * 2**26  # the first is new for either
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    b"x" * 2**26
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not asked")
def test_a_job_keeps_memory_that_it_freed():
    """Pages that the system clears for twenty arrays of 64 MiB: those of twenty, or of none."""
    new, kept = (
        int(subprocess.run([sys.executable, "-c", LARGE, how], capture_output=True, text=True,
                           check=True, timeout=PATIENCE).stdout)
        for how in ("given back", "kept")
    )  # fmt: skip
    assert kept < new / 10
