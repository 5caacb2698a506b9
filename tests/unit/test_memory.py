"""The memory of a model, by its configuration alone."""

from __future__ import annotations

import pytest
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from typer.testing import CliRunner

from posenc.cli import app
from posenc.models import memory as rooms
from posenc.models.files import ModelError
from posenc.models.load import load
from posenc.models.memory import BESIDE, Memory, memory_of, problem
from posenc.study.params import load as load_params
from tests.copies import ROOT
from tests.unit.test_model_commands import save

SEVEN = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "dtype": torch.bfloat16,
}  # fmt: skip
CARD, MACHINE = 24e9, 16e9
"""Bytes of a card, and of the memory of a small machine."""


@pytest.fixture(scope="module")
def seven() -> Memory:
    """The shapes of Llama 2 7B, of which no weight is made."""
    return memory_of(LlamaConfig(**SEVEN), LlamaForCausalLM, {})


def test_weights_are_counted_as_published(seven):
    assert seven.weights == 6_738_415_616  # Llama 2 7B's, by the files of its hub page
    gpt2 = memory_of(GPT2Config(), GPT2LMHeadModel, {})
    assert gpt2.weights == 124_439_808  # its tied output matrix once


def test_seven_billion_fit_a_card_of_24_gb_in_fast_alone(seven):
    assert seven.size("fast") == 2 * seven.weights + BESIDE
    assert problem(seven, "fast", "cuda", 1024, {"cpu": MACHINE, "cuda": CARD}) is None
    said = problem(seven, "exact", "cuda", 1024, {"cpu": MACHINE, "cuda": CARD})
    assert said is not None and said.endswith("precision: fast would fit") and "\n" not in said
    assert "6.74 billion weights in exact" in said and "has 24.0" in said


def test_smaller_passes_are_advised(seven):
    said = problem(seven, "fast", "auto", 32768, {"cpu": MACHINE, "cuda": CARD})
    assert said is not None and "batch_tokens: " in said and "precision" not in said
    most = int(said.split("batch_tokens: ")[1].split()[0])
    assert problem(seven, "fast", "auto", most, {"cpu": MACHINE, "cuda": CARD}) is None
    assert problem(seven, "fast", "auto", most + 1, {"cpu": MACHINE, "cuda": CARD})


def test_another_device_is_advised(seven):
    said = problem(seven, "exact", "cuda", 2048, {"cpu": 64e9, "cuda": 8e9})
    assert said is not None and said.endswith("device: cpu would fit")
    nothing = problem(seven, "exact", "cpu", 2048, {"cpu": 8e9})
    assert nothing is not None and nothing.endswith(
        "it takes a machine with 15 GB at least, in fast"
    )


def test_files_of_float32_are_compared_before_they_are_rounded():
    wide = Memory(10**9, 10**5, is_narrow=False)
    assert wide.size("fast") == wide.size("exact") == 4e9 + BESIDE


def test_a_model_that_has_no_room_is_refused_before_it_is_read(tmp_path, monkeypatch):
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4,
    ))  # fmt: skip
    model.save_pretrained(tmp_path)
    monkeypatch.setattr(rooms, "LARGE", 0)
    monkeypatch.setattr(rooms, "there", lambda: {"cpu": 1e9})
    monkeypatch.setattr(
        transformers.LlamaForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("read")
    )
    with pytest.raises(ModelError, match=r"billion weights in exact .* has 1\.0"):
        load(tmp_path)


def test_what_a_large_model_takes_is_printed(tmp_path, monkeypatch):
    """By `posenc models`, and by `posenc check` if it is in the study."""
    from posenc.study import room, storage

    save(folder := tmp_path / "own", "Qwen3ForCausalLM")
    done = CliRunner().invoke(app, ["models", str(folder)])
    assert done.exit_code == 0 and "memory: 0.00 billion weights take exact 1.5 GB" in done.output
    params = load_params(ROOT / "params.yaml")
    monkeypatch.setattr(storage, "MODELS", tmp_path)
    monkeypatch.setattr(room, "LARGE", 0)
    name = params.study.models[0]
    folder.rename(tmp_path / name)
    (line,) = (line for line in room.lines(params) if line.startswith(name))
    assert line.startswith(f"{name}: memory: ")
    monkeypatch.setattr(rooms, "there", lambda: {"cpu": 1e9})
    (line,) = (line for line in room.lines(params) if line.startswith(name))
    assert line.startswith(f"{name} does not fit: ") and "GB at least" in line
