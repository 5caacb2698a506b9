"""Tests that need a GPU: they are collected only where there is one."""

from posenc.models.devices import has_gpu

collect_ignore_glob = [] if has_gpu() else ["test_*.py"]
