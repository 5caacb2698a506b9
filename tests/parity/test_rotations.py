"""Each kind of rotation of the library: taken away, turned back, and limited to one of its own."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from posenc.architectures import attention
from posenc.architectures.architecture import Architecture
from posenc.architectures.classes import positions_of
from posenc.architectures.needs import Need
from posenc.capture.capture import forward, packed_states
from posenc.capture.content import turned_back
from posenc.capture.interventions import applied
from posenc.capture.verified import verified
from posenc.conditions.section import Condition
from posenc.models.files import ModelError, check_configuration
from posenc.models.load import load
from posenc.models.section import Model
from tests.unit.api_models import words

D_HEAD, MOST, ORIGINAL = 16, 64, 24
KINDS = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": ORIGINAL},
    "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": ORIGINAL},
    "longrope": {"original_max_position_embeddings": ORIGINAL,
                 "short_factor": [1.0 + 0.1 * k for k in range(D_HEAD // 2)],
                 "long_factor": [2.0 + 0.5 * k for k in range(D_HEAD // 2)]},
    "proportional": {"factor": 2.0, "partial_rotary_factor": 0.5},
}  # fmt: skip
LIMITS = {"longrope": ORIGINAL}
TEXTS = [list(range(5, 25)), [9, 8, 7], list(range(30, 54)), [3] * 7]


def model_of(kind: str) -> LlamaForCausalLM:
    """A random Llama with a kind of rotation, whose queries and keys are large."""
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=96, hidden_size=48, intermediate_size=40, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=D_HEAD,
        max_position_embeddings=MOST, initializer_range=0.3,
        rope_parameters={"rope_type": kind, "rope_theta": 100.0, **KINDS[kind]},
    )).eval()  # fmt: skip


def test_every_kind_of_the_library_is_here():
    assert set(KINDS) - {"default"} == set(ROPE_INIT_FUNCTIONS)


@pytest.fixture(params=KINDS)
def found(request) -> Architecture:
    """What was found in a model of each kind."""
    verification = verified(model_of(request.param))
    assert verification is not None and all(check.holds for check in verification.checks)
    verification.architecture.model.set_attn_implementation(attention.NAME)
    return verification.architecture


def test_all_is_proved_but_beyond_the_length_that_a_rotation_is_for(found):
    kind = found.model.config.rope_parameters["rope_type"]
    assert found.lacks(Need.ROTATION, Need.TURNS, Need.REMOVABLE, Need.PACKED) is None
    # Their factors of queries and keys are in no map.
    assert (found.lacks(Need.MAPS) is None) == (kind not in ("yarn", "longrope"))
    assert found.positions == LIMITS.get(kind, MOST) == positions_of(found.model.config)


def test_queries_and_keys_are_turned_back(found):
    """In the first layer they are those of the same tokens without positions."""
    _, intact = forward(found.model, TEXTS[:1])
    content = turned_back(found.model, intact)
    with applied(found.model, Condition(position="zero")):
        _, still = forward(found.model, TEXTS[:1])
    for ours, theirs, turned in (
        (content.queries[0], still.queries[0], intact.queries[0]),
        (content.keys[0], still.keys[0], intact.keys[0]),
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        assert (turned - theirs).abs().max() > 0.1


@torch.inference_mode()
def test_documents_of_a_row_are_turned_as_each_alone_by_the_library(found):
    """A row is longer than the length from which a rotation would change."""
    assert sum(map(len, TEXTS)) > ORIGINAL
    library = LlamaForCausalLM(found.model.config).eval()
    library.load_state_dict(found.model.state_dict())
    library.set_attn_implementation("eager")
    alone = [library(torch.tensor([ids]), output_hidden_states=True).hidden_states for ids in TEXTS]
    for ours, *theirs in zip(packed_states(found.model, TEXTS), *alone, strict=True):
        torch.testing.assert_close(ours, torch.cat(theirs, dim=1), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_longer_texts_are_refused_where_they_are_turned_otherwise(tmp_path, kind):
    model_of(kind).save_pretrained(tmp_path / "model")
    words(True).save(str(tmp_path / "model/tokenizer.json"))
    limit = LIMITS.get(kind, MOST)
    source = {"kind": "path", "path": str(tmp_path / "model"), "sha256": "0" * 64}
    section = Model(family="llama", source=source, max_tokens=limit + 1)
    with pytest.raises(ModelError, match=rf"max_tokens is {limit + 1}.*only {limit} positions"):
        check_configuration("mine", section, tmp_path / "model")
    model = load(tmp_path / "model")
    with torch.inference_mode():
        short = model(torch.tensor([TEXTS[0]])).logits
        longer = model(torch.tensor([[*TEXTS[0], *range(5, 5 + limit)]])).logits
    # The limit is real: a longer text turns the same tokens differently.
    assert not torch.allclose(short[0, :5], longer[0, :5], atol=1e-3)
