"""What tests of training share."""

from __future__ import annotations

import pytest
import torch

from .small_models import saved


@pytest.fixture(scope="module")
def one_thread():
    """On several threads the last bits of a sum are rarely others; bytes are compared on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def small_model_folders(tmp_path_factory):
    """A small model of each family in the hub's format."""
    root = tmp_path_factory.mktemp("models")
    return {family: saved(family, root / family) for family in ("bert", "roberta", "gpt2")}
