"""Small random models of each family, in the hub's folder format, and their capture."""

import pytest
import torch

import posenc.steps.capture as step
from posenc.models import rates
from tests.parity.capture_project import CaptureProject
from tests.parity.library import reference


@pytest.fixture(params=["bert", "roberta", "gpt2"])
def family(request) -> str:
    return request.param


@pytest.fixture
def library_model(family):
    return reference(family)


@pytest.fixture
def folder(library_model, tmp_path):
    """The reference model as a folder of the hub's format."""
    library_model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def documents() -> list[list[int]]:
    """Token ids of documents with different lengths; 1 pads RoBERTa and is not used."""
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(2, 97, (length,), generator=generator).tolist()
        for length in (5, 17, 9, 33, 2, 12)
    ]


@pytest.fixture
def project(tmp_path, documents) -> CaptureProject:
    return CaptureProject(tmp_path, documents)


@pytest.fixture
def written(monkeypatch) -> list[tuple[str, int]]:
    """Shards as they are written: condition and number."""
    original, shards = step.write_shard, []

    def write(partial, number, *rest):
        shards.append((partial.name.split(".")[1], number))
        original(partial, number, *rest)

    monkeypatch.setattr(step, "write_shard", write)
    return shards


@pytest.fixture
def in_bfloat16(monkeypatch) -> None:
    """Fast runs compute in bfloat16 even where it is slower."""
    monkeypatch.setattr(rates, "is_quicker_in_bfloat16", lambda model: True)
