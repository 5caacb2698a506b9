"""Weights in the type of their files: float32 results, bit for bit, in half the memory."""

from __future__ import annotations

import pytest
import torch

from posenc.architectures.float32 import in_float32
from posenc.architectures.verify import verify
from posenc.capture.capture import document_losses, packed_states
from posenc.capture.interventions import applied
from posenc.capture.verified import verified
from posenc.conditions.section import Condition
from posenc.models.affine import ready
from posenc.models.load import load
from tests.parity.any_models import tiny

TYPES = [("causal", "llama"), ("causal", "gpt2"), ("causal", "gemma3_text"), ("causal", "opt"),
         ("causal", "mixtral"), ("causal", "gpt_oss"), ("masked", "bert"), ("masked", "roberta"),
         ("masked", "modernbert")]  # fmt: skip
NARROW = [torch.bfloat16, torch.float16]
TEXTS = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [9, 8, 7, 6, 5]]


def states(model) -> list[torch.Tensor]:
    """Hidden states, with positions and without, and losses."""
    with applied(model, Condition(position="zero")):
        without = packed_states(model, TEXTS)
    whole = packed_states(model, TEXTS)
    losses = []
    if model.get_output_embeddings() is not None:
        losses = [torch.tensor(x) for x in document_losses(model, whole[-1][0], TEXTS)]
    return [*whole, *without, *losses]


@pytest.mark.parametrize("kind", NARROW, ids=str)
@pytest.mark.parametrize(("task", "name"), TYPES)
def test_results_are_those_of_float32(task, name, kind, tmp_path):
    tiny(task, name).to(kind).save_pretrained(tmp_path)
    wide, kept = load(tmp_path), load(tmp_path, is_kept=True)
    types = [parameter.dtype for parameter in kept.parameters()]
    assert set(types) == {kind} and {x.dtype for x in wide.parameters()} == {torch.float32}
    expected, result = verified(wide), verified(kept)
    assert result.architecture.can == expected.architecture.can
    for check, other in zip(result.checks, expected.checks, strict=True):
        assert check.holds == other.holds, check
    with in_float32(kept):
        for state, other in zip(states(kept), states(wide), strict=True):
            assert state.dtype == torch.float32
            torch.testing.assert_close(state, other, rtol=0, atol=0)
    assert [parameter.dtype for parameter in kept.parameters()] == types
    ready(wide), ready(kept)
    with in_float32(kept):
        for state, other in zip(states(kept), states(wide), strict=True):
            torch.testing.assert_close(state, other, rtol=0, atol=0)


def test_a_file_of_float32_is_loaded_as_it_is(tmp_path):
    tiny("causal", "llama").save_pretrained(tmp_path)
    kept = load(tmp_path, is_kept=True)
    assert {x.dtype for x in kept.parameters()} == {torch.float32}


def test_a_pass_that_fails_leaves_the_weights_as_they_are(tmp_path):
    tiny("causal", "llama").bfloat16().save_pretrained(tmp_path)
    kept = load(tmp_path, is_kept=True)
    with in_float32(kept), pytest.raises(Exception):  # noqa: B017
        kept(torch.tensor([[10**6]]))
    assert {x.dtype for x in kept.parameters()} == {torch.bfloat16}


def test_what_a_model_computes_by_itself_is_not_rounded(tmp_path):
    """Gemma's embeddings are scaled by a root that bfloat16 cannot represent."""
    tiny("causal", "gemma3_text").bfloat16().save_pretrained(tmp_path)
    buffers = [dict(load(tmp_path, is_kept=is_kept).named_buffers()) for is_kept in (True, False)]
    assert buffers[0].keys() == buffers[1].keys()
    for name, buffer in buffers[0].items():
        torch.testing.assert_close(buffer, buffers[1][name], rtol=0, atol=0)


def test_a_library_model_in_bfloat16_is_verified_in_float32():
    result = verify(tiny("causal", "qwen3").bfloat16())
    assert all(check.holds for check in result.checks if check.name != "packed documents")
