"""Schemes of positions, against the library's rotary embeddings and ALiBi, and by identities."""

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import (
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from posenc.architectures import attention
from posenc.capture.interventions import applied
from posenc.capture.parts import ConditionError
from posenc.conditions.section import Condition
from posenc.metrics.sinusoid import sinusoidal
from posenc.models import schemes
from posenc.models.load import load, save
from posenc.models.training import build, train

from .test_training import ROWS, SOURCE

ALL = ("learned", "sinusoidal", "alibi", "rotary", "none")


def built(scheme, **changed):
    source = SOURCE.model_copy(update={"positions": scheme, **changed})
    return build(source, vocabulary_size=50, end_of_text=0).eval()


def randomised(scheme, **changed):
    """A model with attention far from uniform, unlike a freshly initialised one."""
    model = built(scheme, **changed)
    torch.manual_seed(1)
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_attn.weight.normal_(std=0.7)
        model.transformer.wte.weight.normal_()
    return model


def test_rotary_is_the_librarys():
    torch.manual_seed(0)
    query, key = torch.randn(2, 3, 4, 7, 8)  # [batch, n_heads, tokens, d_head] each
    rotary = LlamaRotaryEmbedding(
        LlamaConfig(hidden_size=32, num_attention_heads=4, max_position_embeddings=16)
    )
    cosine, sine = rotary(query, torch.arange(7)[None])
    expected = apply_rotary_pos_emb(query, key, cosine, sine)
    ours = schemes.with_rotary(query, key, None)
    for turned, other in zip(ours, expected, strict=False):
        torch.testing.assert_close(turned, other)


def test_rotary_scores_depend_on_the_offset_alone():
    torch.manual_seed(0)
    query, key = (torch.randn(8, dtype=torch.float64).expand(1, 1, 12, 8) for _ in range(2))
    turned_query, turned_key, _ = schemes.with_rotary(query, key, None)
    scores = (turned_query @ turned_key.transpose(-1, -2))[0, 0]  # [tokens, tokens]
    for offset in range(-5, 6):
        diagonal = scores.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-6, rtol=0)
    assert scores.std() > 0.1


@pytest.mark.parametrize("n_heads", [2, 4, 8])
def test_alibi_gives_the_pattern_of_the_librarys(n_heads):
    torch.manual_seed(0)
    query = torch.randn(1, n_heads, 9, 4)
    _, _, bias = schemes.with_alibi(query, query, None)
    future = torch.ones(9, 9, dtype=torch.bool).triu(1)
    # Bloom adds slope x position of the key, which differs by a constant for each query.
    theirs = build_alibi_tensor(torch.ones(1, 9), n_heads, torch.float32)  # [n_heads, 1, tokens]
    theirs = theirs.expand(n_heads, 9, 9).masked_fill(future, -torch.inf)
    scores = query @ query.transpose(-1, -2)
    torch.testing.assert_close((scores + bias).softmax(-1), (scores + theirs[None]).softmax(-1))


def test_alibi_takes_no_padding():
    query = torch.zeros(1, 2, 3, 4)
    with pytest.raises(ValueError, match="without padding"):
        schemes.with_alibi(query, query, torch.zeros(1, 1, 3, 3))


def test_learned_is_the_librarys_own_model():
    ours = built("learned")
    torch.manual_seed(SOURCE.seed)
    theirs = GPT2LMHeadModel(GPT2Config(**ours.config.to_diff_dict()))
    for (name, weight), (_, other) in zip(
        ours.state_dict().items(), theirs.state_dict().items(), strict=True
    ):
        assert torch.equal(weight, other), name


@pytest.mark.parametrize("scheme", ALL)
def test_only_without_positions_the_order_of_the_prefix_is_lost(scheme):
    # One layer: the last token sees a set. Its logits tell whether the order came in.
    model = randomised(scheme, n_layers=1)
    ids = torch.tensor([[3, 7, 9, 20, 31, 5]])
    turned = ids[:, [2, 4, 0, 3, 1, 5]]
    with torch.inference_mode():
        logits, other = (model(rows).logits[0, -1] for rows in (ids, turned))
    difference = float((logits - other).abs().max())
    assert difference < 1e-4 if scheme == "none" else difference > 1e-3


@pytest.mark.parametrize("scheme", ALL)
def test_a_table_that_is_not_learned_stays_as_it_is(scheme, tmp_path):
    source = SOURCE.model_copy(update={"positions": scheme})
    model = build(source, vocabulary_size=50, end_of_text=0)
    before = model.transformer.wpe.weight.detach().clone()  # [n_positions, d_model]
    words = model.transformer.wte.weight.detach().clone()
    train(model, ROWS[4:], ROWS[:4], source, tmp_path, "same", say=lambda line: None)
    assert torch.equal(before, model.transformer.wpe.weight) == (scheme != "learned")
    assert not torch.equal(words, model.transformer.wte.weight)
    if scheme in ("alibi", "rotary", "none"):
        assert not before.any()
    if scheme == "sinusoidal":
        expected = sinusoidal(*before.shape)
        ratio = before.numpy() / np.where(expected == 0, 1, expected)
        np.testing.assert_allclose(ratio[expected != 0], ratio[0, 1], rtol=1e-5)
        assert float(before.std()) == pytest.approx(model.config.initializer_range, rel=1e-5)


@pytest.mark.parametrize("scheme", ALL)
def test_a_folder_of_weights_says_its_scheme(scheme, tmp_path):
    model = randomised(scheme)
    save(model, tmp_path)
    loaded = load(tmp_path, "gpt2")
    ids = torch.tensor([[3, 7, 9, 20, 31, 5]])
    with torch.inference_mode(), attention.recording() as recording:
        torch.testing.assert_close(loaded(ids).logits, model(ids).logits)
    if scheme == "rotary":  # rotated: recorded queries give the scores
        module = loaded.transformer.h[0].attn
        inputs = loaded.transformer.h[0].ln_1(loaded.transformer.wte(ids))
        query = module.c_attn(inputs).split(module.split_size, dim=2)[0]
        query = query.view(1, 6, module.num_heads, -1).transpose(1, 2)
        torch.testing.assert_close(recording.queries[0], schemes.with_rotary(query, query, None)[0])


@pytest.mark.parametrize("scheme", schemes.IN_ATTENTION)
def test_conditions_are_refused_where_there_is_no_table(scheme):
    with (
        pytest.raises(ConditionError, match=scheme),
        applied(built(scheme), Condition(position="zero")),
    ):
        pass
