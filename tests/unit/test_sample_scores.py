"""Scores of a sentence are the library's own, and its tokens those of documents."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from posenc.architectures import attention
from posenc.architectures.attention import recording
from posenc.conditions.section import Condition
from posenc.measurements.sample_scores import measure as step
from posenc.measurements.sample_scores.declaration import SampleScores
from posenc.metrics.patterns import softmax
from posenc.models.section import Reading

from .test_effective_keys import IDS, bert, gpt2, llama, patterns_of
from .test_exchanged_roles import LETTERS, tokenizer_of

MAKERS = {"bert": bert, "gpt2": gpt2, "llama": llama}
INTACT, ZERO = (Condition.model_validate({"position": name}) for name in ("intact", "zero"))


@pytest.fixture(params=MAKERS)
def family(request):
    return request.param


def loaded(family: str) -> torch.nn.Module:
    """A small model whose queries and keys are recorded, as in the workflow."""
    attention.register()
    model = MAKERS[family]()
    model.set_attn_implementation(attention.NAME)
    return model


def measured(family: str, sentence: str = "a man sat", tokens: int = 8) -> dict:
    """The measurement of a small model whose tokens are letters."""
    parameters = SampleScores(sentence=sentence, tokens=tokens)
    job = SimpleNamespace(parameters=parameters, reading=Reading(family=family, max_tokens=16))
    return step.measure(job, loaded(family), tokenizer_of(LETTERS[:30])).as_json()


def test_scores_give_the_librarys_own_patterns(family):
    model = loaded(family)
    expected = patterns_of(model, IDS)
    layer_scores = step.scores_under(model, IDS, INTACT)
    assert len(layer_scores) == len(expected) == 2
    for scores, pattern in zip(layer_scores, expected, strict=True):
        own = softmax(scores.copy(), causal=family != "bert")
        np.testing.assert_allclose(own, pattern, atol=2e-6)


def test_without_positions_the_same_tokens_have_the_same_scores(family):
    ids = [3, 7, 3, 5, 5, 3]
    intact, without = (
        step.scores_under(loaded(family), ids, condition)[0] for condition in (INTACT, ZERO)
    )
    # [n_heads, tokens, tokens] of the first layer: tokens 0 and 2 are the same word.
    np.testing.assert_allclose(without[:, 0], without[:, 2], atol=1e-6)
    np.testing.assert_allclose(without[:, :, 3], without[:, :, 4], atol=1e-6)
    assert np.abs(intact[:, 0] - intact[:, 2]).max() > 1e-3


def test_a_rotary_model_without_positions_is_its_own_products():
    model = loaded("llama")
    with torch.inference_mode(), recording() as turned:
        model(torch.tensor([[4, 9]]))
    scores = step.scores_under(model, [4, 9], ZERO)[0]
    # The first token is not rotated, so its score with itself is the intact one.
    first = turned.queries[0][0, :, 0] * turned.keys[0][0, :, 0]
    np.testing.assert_allclose(scores[:, 0, 0], first.sum(-1).numpy() / 2, atol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_scores_are_written_query_by_query(causal):
    scores = np.array([[1.23456, -0.5, 7], [20.04, 3000.606, 8], [0, 0.25, 6]], np.float32)
    lower, whole = (
        "1.23 20.04 3000.61 0.00 0.25 6.00",
        "1.23 -0.50 7.00 20.04 3000.61 8.00 0.00 0.25 6.00",
    )
    assert step.written(scores, causal) == (lower if causal else whole)


@given(st.integers(0, 1000), st.floats(0.1, 300))
def test_weights_are_right_to_a_hundredth_as_written(seed, scale):
    scores = np.random.default_rng(seed).normal(0, scale, (6, 6))
    read = np.array(step.written(scores, causal=False).split(" "), float).reshape(6, 6)
    # By their logarithms: the smallest weights are below what a number holds to a hundredth.
    ours, exact = (log_softmax(values, axis=-1) for values in (read, scores))
    np.testing.assert_allclose(ours, exact, rtol=0, atol=np.log(1.011))


def test_a_file_has_all_heads_under_both_conditions(family):
    result = measured(family)
    assert [entry["condition"] for entry in result["conditions"]] == ["intact", "zero"]
    assert (result["n_layers"], result["n_heads"]) == (2, 4)
    tokens, causal = result["tokens"], family != "bert"
    assert result["is_causal"] == causal
    pairs = tokens * (tokens + 1) // 2 if causal else tokens**2
    for condition in result["conditions"]:
        assert [len(layer) for layer in condition["layers"]] == [4, 4]
        for layer in condition["layers"]:
            assert all(len(np.array(head.split(" "), float)) == pairs for head in layer)


def test_tokens_are_those_of_documents_and_called_by_their_text(family):
    result = measured(family)
    first = [] if family == "bert" else ["<|endoftext|>"]
    # A space shows nothing: it has the name that the vocabulary gives it.
    assert result["pieces"] == [*first, *"a", "?", *"man", "?", *"sat"][:8]
    assert result["tokens"] == len(result["pieces"]) == 8
    assert measured(family, "man")["pieces"] == [*first, *"man"]


def test_a_sentence_is_no_longer_than_the_model_reads(family):
    assert measured(family, "a man sat on a man", tokens=32)["tokens"] == 16
