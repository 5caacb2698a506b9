"""Tests that need a GPU: they are collected where there is one, and nowhere else."""

from posenc.models.devices import has_gpu

collect_ignore_glob = [] if has_gpu() else ["test_*.py"]
