"""Where a proof about a model does not hold, it is noticed."""

from __future__ import annotations

import contextlib

import pytest
import torch

from posenc.architectures import attention, discover
from posenc.architectures.needs import ArchitectureError, Need
from posenc.architectures.position import Rotation, Table
from posenc.capture import verified as module
from posenc.capture.verified import verified
from tests.parity.any_models import tiny

KINDS = [("causal", "gpt2"), ("causal", "opt"), ("causal", "llama"), ("causal", "gemma2"),
         ("causal", "deepseek_v2"), ("masked", "roberta"), ("masked", "modernbert")]  # fmt: skip


@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_a_position_that_stays_is_noticed(monkeypatch, task, kind):
    assert verified(tiny(task, kind)).architecture.can[Need.REMOVABLE] is None
    for handle in (Table, Rotation):
        monkeypatch.setattr(handle, "removed", lambda self: contextlib.nullcontext())
    reason = verified(tiny(task, kind)).architecture.can[Need.REMOVABLE]
    assert reason is not None and "positions taken away differ" in reason


@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_rows_that_are_not_the_documents_alone_are_noticed(monkeypatch, task, kind):
    """Like a row whose documents see one another."""
    right = module.packed_row

    def wrong(model, documents, **options):
        joined = [token for document in documents for token in document]
        return right(model, [joined], **options)

    monkeypatch.setattr(module, "packed_row", wrong)
    reason = verified(tiny(task, kind)).architecture.can[Need.PACKED]
    assert reason is not None  # a row beyond the table does not even run
    assert "packed documents differ" in reason or "in a row do not run" in reason


@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_another_attention_is_noticed(monkeypatch, task, kind):
    """The attention function with another scaling than the library's."""
    right, explicit = attention.sdpa_attention_forward, attention.explicit

    def wrong(*given, **named):
        return right(*given, **{**named, "scaling": 0.9 * named["scaling"]})

    monkeypatch.setattr(attention, "sdpa_attention_forward", wrong)
    monkeypatch.setattr(
        attention, "explicit", lambda q, *rest, **named: explicit(0.9 * q, *rest, **named)
    )
    with pytest.raises(ArchitectureError, match="hidden states differ by"):
        verified(tiny(task, kind))


def test_a_model_that_is_not_restored_is_noticed(monkeypatch):
    """A weight that a check leaves changed."""

    @contextlib.contextmanager
    def leaving(self):
        with torch.no_grad():
            self.module.weight.mul_(0.5)
        yield

    monkeypatch.setattr(Table, "removed", leaving)
    with pytest.raises(ArchitectureError, match="the restored model differ"):
        verified(tiny("causal", "gpt2"))


def test_a_decoder_that_sees_the_future_is_noticed():
    network = tiny("causal", "gpt2")
    for layer in discover.of(network).layers:
        layer.module.is_causal = False
    with pytest.raises(ArchitectureError, match=r"(hidden states|the future) differ"):
        verified(network)


@pytest.mark.parametrize(
    ("kind", "is_plain"), [("llama", True), ("qwen3", True), ("gemma2", False), ("gpt_oss", False)]
)
def test_scores_that_are_more_than_products_are_told(kind, is_plain):
    reason = verified(tiny("causal", kind)).architecture.can[Need.PRODUCTS]
    assert (reason is None) == is_plain
