"""Terms that rotation adds to scores: identities, brute force over pairs, planted cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc.artifacts.files import ArtifactError
from posenc.artifacts.numbers import Number
from posenc.capture.content import with_and_without
from posenc.measurements.of_models import CellsJob
from posenc.measurements.rotation_terms import measure as step
from posenc.measurements.rotation_terms.quantities import QUANTITIES
from posenc.metrics import first_order, rotary
from posenc.metrics.closed_form import Means
from posenc.metrics.patterns import softmax

from .runs import made_of_weights
from .test_score_parts_measurement import llama, write

PARAMETERS = step.RotationTerms(
    documents=3, tokens=9, bootstrap_samples=100, confidence=0.9, seed=1
)


@pytest.fixture
def text(tmp_path):
    """Eight documents of 3 to 12 tokens; all begin with token 2."""
    rng = np.random.default_rng(5)
    ids = [[2, *rng.integers(3, 40, length - 1).tolist()] for length in (12, 6, 9, 5, 11, 7, 4, 8)]
    return write(tmp_path / "text.parquet", ids)


def drawn(seed, heads=2, tokens=5, width=6):
    rng = np.random.default_rng(seed)
    q, k, mean_k = (rng.normal(size=(heads, tokens, width)) for _ in range(3))
    return q, k, rng.normal(size=(heads, width)), mean_k, np.array([1.0, 0.3, 0.01])


@given(seed=st.integers(0, 1000), layout=st.sampled_from(["halves", "interleaved"]))
def test_the_four_terms_are_what_rotation_adds(seed, layout):
    q, k, mean_q, mean_k, rate = drawn(seed)
    total = first_order.terms(q, k, mean_q, mean_k, rate, layout=layout).sum(axis=0)
    places = np.arange(q.shape[1])
    whole, none = (rotary.scores(q, k, places, r, layout=layout) for r in (rate, []))
    np.testing.assert_allclose(total, whole - none, atol=1e-12)


@given(seed=st.integers(0, 1000))
def test_terms_vanish_where_vectors_do_not_vary(seed):
    q, k, mean_q, mean_k, rate = drawn(seed)
    same_q = np.repeat(mean_q[:, None], q.shape[1], axis=1)
    _, _, query, rest = first_order.terms(same_q, k, mean_q, mean_k, rate)
    assert not query.any() and not rest.any()
    _, key, _, rest = first_order.terms(q, mean_k, mean_q, mean_k, rate)
    assert not key.any() and not rest.any()
    zeros = np.zeros_like(mean_q), np.zeros_like(mean_k)
    assert not first_order.terms(q, k, *zeros, rate)[:3].any()


@given(seed=st.integers(0, 1000))
def test_each_term_depends_on_what_it_is_named_after(seed):
    """Another key changes the key's term and the rest, only in its own column."""
    q, k, mean_q, mean_k, rate = drawn(seed)
    other = k.copy()
    other[:, 2] += 1
    before, after = (first_order.terms(q, x, mean_q, mean_k, rate) for x in (k, other))
    changed = np.abs(after - before) > 1e-12  # [4, heads, tokens, tokens]
    assert not changed[0].any() and not changed[2].any()
    assert not np.delete(changed, 2, axis=-1).any() and changed[1, ..., 2].any()


def by_hand(model, documents, means, layer, head, partial, weighting):
    """Explained share of one head, pair by pair."""
    total = left = 0.0
    for ids in documents:
        heads = with_and_without(model, [ids])
        scores, content = (
            getattr(heads, name)(layer)[0, head].double().numpy() for name in ("scores", "content")
        )
        n = len(ids)
        gain = scores - content
        q, k = (
            getattr(heads, name)[layer][0, head].double().numpy()
            for name in ("content_queries", "content_keys")
        )
        rate = model.model.rotary_emb.inv_freq.double().numpy()

        def turned(x, place, rate=rate):
            return rotary.rotate(x[None], [place], rate)[0]

        pattern = softmax(scores[None], causal=True)[0]
        for i in range(n):
            weights, gains, rests = [], [], []
            for j in range(i + 1):
                mean_q = means.query[layer, head]
                mean_k = (means.first_key if j == 0 else means.key)[layer, head]
                pairs = {
                    "mask": (mean_q, mean_k),
                    "key": (mean_q, k[j] - mean_k),
                    "query": (q[i] - mean_q, mean_k),
                    "rest": (q[i] - mean_q, k[j] - mean_k),
                }
                explained = sum(
                    (turned(a, i) @ turned(b, j) - a @ b) / np.sqrt(len(a))
                    for name, (a, b) in pairs.items()
                    if name in partial
                )
                weights.append(1.0 if weighting == "pairs" else pattern[i, j])
                gains.append(gain[i, j])
                rests.append(gain[i, j] - explained)
            for values, which in ((gains, "total"), (rests, "left")):
                mean = np.average(values, weights=weights)
                square = float(np.dot(weights, np.square(np.array(values) - mean)))
                total, left = (total + square, left) if which == "total" else (total, left + square)
    return 1 - left / total


def test_a_head_pair_by_pair(text):
    model = llama()
    result = step.measure(PARAMETERS, model, text).as_json()
    calibration, documents = step.halves(
        text, 3, "documents", tokens=9, shortest=step.SHORTEST, seed=1
    )
    runs = [with_and_without(model, [ids]) for ids in calibration]

    def mean(name, of_tokens):
        return np.stack([
            np.concatenate([vectors[layer][0][:, of_tokens].double().numpy() for vectors in
                            (getattr(run, name) for run in runs)], axis=1).mean(axis=1)
            for layer in range(2)
        ])  # fmt: skip

    rest, first = slice(1, None), slice(0, 1)
    means = Means(
        mean("content_queries", rest), mean("content_keys", rest), mean("content_keys", first)
    )
    (entry,) = (row for row in result["heads"] if (row["layer"], row["head"]) == (1, 2))
    for name, partial in step.PARTIAL_SUMS.items():
        expected = by_hand(model, documents, means, 1, 2, partial, "pairs")
        assert entry[name] == pytest.approx(expected, abs=1e-5)
    for weighting in step.WEIGHTINGS:
        for kind, other in step.all_means(means, PARAMETERS.seed).items():
            each = [
                by_hand(model, documents, other, 0, head, ("mask", "key"), weighting)
                for head in range(4)
            ]
            (share,) = (
                row["layers"][0]["mask_key"]["value"]
                for row in result["explained"]
                if (row["means"], row["weights"]) == (kind, weighting)
            )
            assert share == pytest.approx(np.mean(each), abs=1e-5)


def test_more_terms_explain_a_constant_head_wholly(text):
    """Queries and keys that are biases alone: the mask is all that rotation adds."""
    model = llama(biases=True)
    for layer in model.model.layers:
        for name in ("q_proj", "k_proj"):
            getattr(layer.self_attn, name).weight.data.zero_()
            getattr(layer.self_attn, name).bias.data.normal_()
    result = step.measure(PARAMETERS, model, text).as_json()
    for entry in result["explained"]:
        if entry["means"] == "own":
            assert all(entry["all"][name]["value"] > 1 - 1e-6 for name in step.PARTIAL_SUMS)
        if entry["means"] == "other_heads":
            assert entry["all"]["first_order"]["value"] < 0.9


def test_too_few_documents_are_said_by_the_parameter(text):
    more = PARAMETERS.model_copy(update={"documents": 5})
    with pytest.raises(ArtifactError, match=r"measurements\.rotation_terms\.documents 5 takes 10"):
        step.measure(more, llama(), text)


def test_the_file_says_what_it_is_made_of(tmp_path, text):
    reading = {"family": "gpt2", "max_tokens": 40}
    job = CellsJob[step.RotationTerms](parameters=PARAMETERS, reading=reading, datasets=["text"])
    measurement = made_of_weights(step, tmp_path, text, job)
    assert measurement["status"] == "not run" and "a table" in measurement["reason"]


def test_quantities_are_those_of_the_file(text):
    result = step.measure(PARAMETERS, llama(), text).as_json()
    numbers = QUANTITIES.read(result)
    assert set(numbers) == set(QUANTITIES.names)
    (own,) = (
        row["all"]
        for row in result["explained"]
        if (row["means"], row["weights"]) == ("own", "attention")
    )
    assert numbers["attention.own.mask_query"].value == own["mask_query"]["value"]
    assert isinstance(numbers["lowest_layer"], Number)
