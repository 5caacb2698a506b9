"""Packed documents in one call of attention, as a GPU computes them, here on the CPU."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from posenc.capture import masked_attention
from posenc.capture.capture import packed_states
from posenc.capture.evaluation import evaluate
from posenc.capture.ragged import Ragged
from posenc.conditions.section import Condition
from posenc.models.affine import load_ready

LENGTHS = (5, 17, 17, 1, 9)
CONDITIONS = {
    "intact": {},
    "slope": {"position": "zero", "mask": {"semantics": "additive", "heads": [1],
                                           "profile": {"kind": "alibi", "slope": 0.5}}},
    "late": {"position": "zero", "mask": {"semantics": "prob_mul", "layers": [2],
                                          "profile": {"kind": "linear", "floor": 0.1}}},
}  # fmt: skip


def by_hand(self, query, key, value, scaling, causal):
    """What Flash attention computes, document by document and in float64."""
    out = torch.empty_like(query.transpose(0, 1))  # [tokens, n_heads, d_head]
    for begin, end in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
        q, k, v = (x[:, begin:end].double() for x in (query, key, value))
        scores = q @ k.transpose(-1, -2) * scaling  # [n_heads, length, length]
        if causal:
            scores = scores.masked_fill(~torch.ones_like(scores).tril().bool(), -torch.inf)
        out[begin:end] = (scores.softmax(-1) @ v).transpose(0, 1).to(out)
    return out


@pytest.fixture
def together(monkeypatch):
    """Let the CPU compute as a GPU does; say which calls it makes."""
    calls = []
    original = masked_attention._together

    def counted(*arguments):
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(masked_attention, "_together", counted)
    monkeypatch.setattr(masked_attention, "is_together", lambda device: True)
    monkeypatch.setattr(Ragged, "attend", by_hand)
    return calls


def test_padded_and_packed_again():
    rows = torch.randn(3, sum(LENGTHS), 4)  # [n_heads, tokens, d_head]
    ragged = Ragged.of(LENGTHS, torch.device("cpu"))
    padded = ragged.padded(rows)  # [documents, n_heads, longest, d_head]
    assert padded.shape == (len(LENGTHS), 3, max(LENGTHS), 4)
    begin = 0
    for number, length in enumerate(LENGTHS):
        assert torch.equal(padded[number, :, :length], rows[:, begin : begin + length])
        begin += length
    assert torch.equal(ragged.packed(padded), rows.transpose(0, 1))
    attended = functional.scaled_dot_product_attention(*[padded] * 3, is_causal=True, scale=0.3)
    torch.testing.assert_close(
        ragged.packed(attended), by_hand(ragged, rows, rows, rows, 0.3, True)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_are_those_of_groups_of_equal_length(folder, family, documents, dtype, monkeypatch):
    model = load_ready(folder, family, "cpu", 1).to(dtype)
    groups = packed_states(model, documents)
    monkeypatch.setattr(masked_attention, "is_together", lambda device: True)
    monkeypatch.setattr(Ragged, "attend", by_hand)
    near = 1e-5 if dtype == torch.float32 else 0.05
    for ours, theirs in zip(packed_states(model, documents), groups, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near)


def test_outcomes_are_those_of_groups_of_equal_length(folder, family, documents, together):
    """A change that is the same for all lengths is one call; others are as before."""
    model = load_ready(folder, family, "cpu", 1)
    conditions = {name: Condition.model_validate(fields) for name, fields in CONDITIONS.items()}
    counted = [[True] * len(ids) for ids in documents]
    outcomes = dict_of(evaluate(model, documents, counted, conditions, {}, 200))
    assert together
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masked_attention, "is_together", lambda device: False)
        expected = dict_of(evaluate(model, documents, counted, conditions, {}, 200))
    assert outcomes.keys() == expected.keys()
    for key, outcome in expected.items():
        np.testing.assert_allclose(outcomes[key].nll, outcome.nll, rtol=0, atol=1e-5)
        np.testing.assert_allclose(outcomes[key].cosine, outcome.cosine, rtol=0, atol=1e-4)


def dict_of(outcomes):
    return {(name, outcome.document): outcome for name, outcome in outcomes}
