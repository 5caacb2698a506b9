"""Maps of heads, found by the names of `architectures/table.py`: one line a type."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posenc.architectures import attention, maps
from posenc.architectures.comparing import sample_ids
from posenc.architectures.discover import of
from posenc.architectures.maps import check_maps, maps_of
from posenc.architectures.needs import Need
from posenc.capture.verified import verified
from tests.parity.any_models import tiny

MAPPED = [
    ("causal", "gpt2"),  # one joint map, kept as [inputs, outputs]
    ("causal", "phi3"),  # one joint map of grouped heads
    ("causal", "llama"),
    ("causal", "gemma2"),
    ("masked", "bert"),
    ("masked", "distilbert"),
    ("masked", "modernbert"),
    ("causal", "opt"),  # scales its queries by itself
]
UNMAPPED = [
    ("causal", "qwen3"),
    ("causal", "deepseek_v3"),
    ("causal", "gpt_neox"),
]


@pytest.mark.parametrize(("task", "kind"), MAPPED)
def test_maps_are_what_the_attention_uses(task, kind):
    architecture = verified(tiny(task, kind)).architecture
    assert architecture.can[Need.MAPS] is None
    own, layer = maps_of(architecture, 1), architecture.layers[1]
    assert own.query.shape == (layer.n_heads, architecture.d_model + 1, layer.d_head)
    assert own.value.shape == (layer.n_key_value_heads, architecture.d_model + 1, layer.d_value)
    assert own.output.shape == (layer.n_heads, layer.d_value, architecture.d_model)


@pytest.mark.parametrize(("task", "kind"), UNMAPPED)
def test_what_is_not_linear_or_has_other_names_is_no_map(task, kind):
    reason = verified(tiny(task, kind)).architecture.can[Need.MAPS]
    assert reason is not None and "layer 0" in reason


@pytest.mark.parametrize("change", ["order", "bias"])
def test_wrong_maps_are_noticed(monkeypatch, change):
    """Heads in another order, or a bias that is left out."""
    network = tiny("causal", "gpt2")
    of(network)
    network.set_attn_implementation(attention.NAME)
    right = maps._heads

    def wrong(weight, bias, heads, width):
        if change == "bias":
            return right(weight, torch.zeros_like(bias), heads, width)
        return right(weight, bias, heads, width).flip(0)

    ids = torch.tensor([sample_ids(network, 8)])
    assert check_maps(of(network), ids)[0] is None
    monkeypatch.setattr(maps, "_heads", wrong)
    assert "of layer 0 are not its map" in str(check_maps(of(network), ids)[0])


@pytest.mark.parametrize("kind", ["qwen3", "llama", "glm4", "cohere2", "deepseek_v2"])
def test_turning_back_gives_what_was_before_rotation(kind):
    """The first layer's content is that of the model with all frequencies 0."""
    from posenc.capture.capture import forward
    from posenc.capture.content import turned_back

    network = tiny("causal", kind)
    of(network)
    network.set_attn_implementation(attention.NAME)
    ids = [sample_ids(network, 9)]
    _, intact = forward(network, ids)
    content = turned_back(network, intact)
    with of(network).removed():
        _, still = forward(network, ids)
    for name in ("queries", "keys"):
        ours, theirs = getattr(content, name)[0], getattr(still, name)[0]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * float(theirs.abs().max()))
        assert not np.allclose(ours, getattr(intact, name)[0], atol=1e-2)
