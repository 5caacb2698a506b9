"""What tests of training share, and the labels that figures, tables and the page show."""

from __future__ import annotations

import pytest
import torch

from posenc.config.labels import labelled

from .small_models import saved
from .synthetic import params_of


@pytest.fixture(scope="module")
def one_thread():
    """Several threads can, rarely, change the last bits of a sum: bytes are compared on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def small_model_folders(tmp_path_factory):
    """A small model of each family in the hub's format."""
    root = tmp_path_factory.mktemp("models")
    return {family: saved(family, root / family) for family in ("bert", "roberta", "gpt2", "llama")}


@pytest.fixture(scope="session", autouse=True)
def labels():
    """Names are shown as the project's figures show them."""
    with labelled(params_of().figures.style.labels):
        yield
