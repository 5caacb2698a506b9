"""Rotation to first order (F7), against the library's own forward pass and the formula by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from posenc.architectures import attention
from posenc.architectures.discover import of
from posenc.architectures.position import frequencies
from posenc.artifacts.files import ArtifactError
from posenc.capture.calibration import Calibration
from posenc.capture.capture import forward, packed_states
from posenc.capture.closed_form import closed_form, mean_vectors
from posenc.capture.content import with_and_without
from posenc.capture.evaluation import losses_under
from posenc.capture.interventions import applied
from posenc.capture.learning import learn, work
from posenc.capture.pair_scores import turns_of
from posenc.capture.parts import ConditionError
from posenc.capture.patterns import patterns_under
from posenc.capture.verified import verified
from posenc.conditions.learned import LearnedMask, read, write
from posenc.conditions.masks import ClosedFormMask, MeanVectors
from posenc.conditions.section import FIRST_ORDER, Condition
from posenc.metrics import first_order
from posenc.metrics.mask_placebos import hashed_distances
from posenc.metrics.patterns import attention_pattern, softmax
from posenc.metrics.rotary import rotate
from tests.parity.any_models import tiny

CLOSE = {"rtol": 0, "atol": 1e-4}
ROTARY = [
    "llama",
    "qwen3",  # queries and keys are normalised
    "gemma3_text",  # two rotations, windows, one scaling of its own
    "gpt_neox",  # a part of the features
    "cohere",  # neighbours are pairs
    "granite",  # scores are multiplied by a number of its own
    "smollm3",  # every fourth layer is not turned
]
DOCUMENTS = [[1, *range(5, 24)], [1, 9, 8, 7], [1, *range(30, 49)], [1, 4, 4, 4, 50, 4, 4]]


@pytest.fixture(scope="module", params=ROTARY)
def model(request):
    network = tiny("causal", request.param)
    assert verified(network) is not None
    network.set_attn_implementation(attention.NAME)
    return network


@pytest.fixture(scope="module")
def calibration(model):
    rng = np.random.default_rng(1)
    texts = [[1, *rng.integers(3, 96, n).tolist()] for n in (20, 31, 12, 25, 18, 9)]
    return Calibration(model, texts[:4], texts[4:], 64)


@pytest.fixture(scope="module")
def means(calibration) -> LearnedMask:
    return mean_vectors(source(), calibration)[0]


def source(**more) -> MeanVectors:
    return MeanVectors(**{"method": "means", "documents": None, "seed": 0, **more})


def under(terms, mask="m", **more) -> Condition:
    position = {"kind": "first_order", "mask": mask, "terms": list(terms), **more}
    return Condition.model_validate({"position": position})


def states(model, condition, masks, documents=DOCUMENTS):
    """Last hidden states, of packed documents; of padded ones they are the same."""
    lengths = [len(ids) for ids in documents]
    with applied(model, condition, masks):
        packed = packed_states(model, documents)[-1][0].split(lengths)
        padded = forward(model, documents)[0][-1]  # [batch, longest, d_model]
    for state, row in zip(packed, padded, strict=True):
        torch.testing.assert_close(row[: len(state)], state, **CLOSE)
    return torch.cat(packed)


def test_all_terms_are_the_intact_model(model, means):
    hidden = states(model, under([*FIRST_ORDER, "rest"]), {"m": means})
    torch.testing.assert_close(hidden, states(model, Condition(), {}), **CLOSE)
    assert not torch.allclose(
        hidden, states(model, under(FIRST_ORDER), {"m": means}), rtol=0, atol=1e-2
    )


def test_means_at_zero_are_no_rotation(model, means):
    zeros = LearnedMask(**{name: np.zeros_like(x) for name, x in means.arrays().items()})
    hidden = states(model, under(FIRST_ORDER), {"m": zeros})
    torch.testing.assert_close(hidden, states(model, Condition(position="zero"), {}), **CLOSE)


def test_the_mask_alone_is_the_mask_in_closed_form(model, calibration, means):
    closed = ClosedFormMask(
        method="closed_form", position="zero", documents=None, seed=0, first=True, temperature=False
    )
    mask = closed_form(closed, calibration)[0]
    condition = Condition.model_validate(
        {
            "position": "zero",
            "mask": {"semantics": "additive", "profile": {"kind": "learned", "mask": "closed"}},
        }
    )
    expected = states(model, condition, {"closed": mask})
    torch.testing.assert_close(states(model, under(["mask"]), {"m": means}), expected, **CLOSE)
    assert not torch.allclose(expected, states(model, Condition(position="zero"), {}), atol=1e-2)


def turned_by_hand(model, layer):
    """Frequencies and layout of a layer that turns all features or the first ones."""
    turn = turns_of(model).get(layer)
    if turn is None:
        return np.empty(0), "halves"
    assert turn.features[0] == 0
    layout = "interleaved" if turn.interleaved else "halves"
    return frequencies(turn.module, turn.layer_type), layout


@pytest.mark.parametrize("terms", [("key",), ("query",), ("mask", "query"), FIRST_ORDER])
def test_scores_of_the_first_layer_by_the_formula(model, means, terms):
    """The first layer has intact queries and keys, whatever its scores."""
    document = DOCUMENTS[0]
    heads = with_and_without(model, [document])
    query, key = heads.content_queries[0][0].numpy(), heads.content_keys[0][0].numpy()
    rate, layout = turned_by_hand(model, 0)
    mean_q, mean_k, first_k = means.means(0)
    mean_keys = np.repeat(mean_k[:, None], len(document), axis=1)
    mean_keys[:, 0] = first_k
    each = first_order.terms(
        query, key, mean_q, mean_keys, rate, scaling=heads.scaling[0], layout=layout
    )
    np.testing.assert_allclose(
        each.sum(axis=0), heads.scores(0)[0].numpy() - heads.content(0)[0].numpy(), atol=2e-4
    )
    scores = heads.content(0)[0].double().numpy()
    scores = scores + sum(each[first_order.TERMS.index(term)] for term in terms)
    window = of(model).layers[0].sees(len(document))
    if window is not None:
        scores = np.where(window.numpy(), scores, -np.inf)
    _, (pattern, *_) = patterns_under(model, [document], under(terms), {"m": means})
    np.testing.assert_allclose(pattern[0].numpy(), softmax(scores, causal=True), atol=1e-5)


def test_hashed_distances_by_the_formula(model, means):
    """Pair by pair: the query at the hashed distance from a key at 0. The first key stays."""
    document, seed = DOCUMENTS[3], 5
    heads = with_and_without(model, [document])
    query, key = heads.content_queries[0][0].numpy(), heads.content_keys[0][0].numpy()
    rate, layout = turned_by_hand(model, 0)
    mean_q, mean_k, first_k = means.means(0)
    places = hashed_distances(document, len(document), seed)
    places[:, 0] = np.arange(len(document))

    def gain(a, b, distance):
        return rotate(a[None], [distance], rate, layout)[0] @ b - a @ b

    scores = heads.content(0)[0].double().numpy()
    for head, i, j in np.ndindex(scores.shape):
        q, k, m, at = query[head, i], key[head, j], mean_q[head], places[i, j]
        n = first_k[head] if j == 0 else mean_k[head]
        added = gain(m, k, at) + gain(q, n, at) - gain(m, n, at)
        scores[head, i, j] += heads.scaling[0] * added
    condition = under(FIRST_ORDER, hashed=seed)
    _, (pattern, *_) = patterns_under(model, [document], condition, {"m": means})
    np.testing.assert_allclose(pattern[0].numpy(), softmax(scores, causal=True), atol=1e-5)
    states(model, condition, {"m": means})  # packed and padded alike


def test_some_layers(model, means):
    last = of(model).n_layers - 1
    partial = states(model, under(["mask"], layers=[last]), {"m": means})
    whole = states(model, under(["mask"]), {"m": means})
    intact = states(model, Condition(), {})
    if last in turns_of(model):
        assert not torch.allclose(partial, intact, atol=1e-3)
    assert not torch.allclose(partial, whole, atol=1e-3)


def test_means_are_of_the_documents(model, calibration, means):
    runs = [with_and_without(model, [ids]) for ids in calibration.fitting]
    for name, own, of_tokens in (
        ("content_queries", means.queries, slice(1, None)),
        ("content_keys", means.keys, slice(1, None)),
        ("content_keys", means.first_keys, slice(0, 1)),
    ):
        for layer in range(of(model).n_layers):
            each = [getattr(run, name)[layer][0, :, of_tokens].numpy() for run in runs]
            expected = np.concatenate(each, axis=1).mean(axis=1)  # [n_heads, d_head]
            np.testing.assert_allclose(own[layer], expected, atol=1e-5)


@pytest.mark.parametrize("placebo", ["over_heads", "neighbours", "one_per_layer"])
def test_placebos_move_all_means_alike(calibration, means, placebo):
    vectors = mean_vectors(source(placebo=placebo, seed=3), calibration)[0]
    names = ("queries", "keys", "first_keys")
    own = np.stack([getattr(means, name) for name in names], axis=2)  # [layers, heads, 3, d_head]
    other = np.stack([getattr(vectors, name) for name in names], axis=2)
    if placebo == "one_per_layer":
        np.testing.assert_allclose(
            other, np.broadcast_to(own.mean(1, keepdims=True), own.shape), rtol=1e-5, atol=1e-6
        )
        return
    if placebo == "neighbours":
        np.testing.assert_array_equal(other[:, :-1], own[:, 1:])
    flat, given = (x.reshape(-1, *x.shape[2:]) for x in (other, own))
    source_of = [np.flatnonzero((given == vector).all(axis=(1, 2))) for vector in flat]
    assert all(len(sources) == 1 and sources[0] != head for head, sources in enumerate(source_of))


def test_learned_judged_and_kept(calibration, tmp_path):
    progress = []
    mask, facts = learn(source(documents=2, seed=1), calibration, progress.append)
    assert sum(progress) == work(source(documents=2, seed=1), calibration) == facts["tokens"]
    documents = calibration.choosing
    losses = losses_under(calibration.model, documents, {"c": under(FIRST_ORDER)}, {"m": mask}, 64)
    expected = np.concatenate([nll for _, _, nll in losses]).mean()
    assert math.isclose(facts["loss"], expected, rel_tol=1e-5)
    write(tmp_path / "m.safetensors", mask, facts)
    again, _ = read(tmp_path / "m.safetensors")
    assert all((getattr(again, name) == x).all() for name, x in mask.arrays().items())


def test_the_first_key_without_a_mean_of_its_own(calibration, means):
    vectors = mean_vectors(source(first=False), calibration)[0]
    np.testing.assert_array_equal(vectors.first_keys, means.keys)


def test_what_does_not_fit_is_refused(model, means):
    other = LearnedMask(relative=np.zeros((4, 4, 1, 8), np.float32))
    with pytest.raises(ArtifactError, match="needs a mask of method means"):
        states(model, under(["mask"]), {"m": other})
    with pytest.raises(ConditionError, match="'m' is not there"):
        states(model, under(["mask"]), {})
    with pytest.raises(ArtifactError, match="not for a mask's profile"):
        means.bias(0, 4)
    for wrong, said in (
        ({"terms": []}, "at least 1"),
        ({"terms": ["mask", "mask"]}, "name each once"),
        ({"terms": ["rest"], "hashed": 1}, "leave out 'rest'"),
        ({"terms": ["keys"]}, "'key'"),
    ):
        with pytest.raises(ValidationError, match=said):
            under(**wrong)


def test_a_table_has_no_first_order():
    network = tiny("causal", "gpt2")
    of(network)
    data = Calibration(network, [[1, 2, 3]], [[1, 2, 3]], 64)
    with pytest.raises(ConditionError, match="before rotation"):
        mean_vectors(source(), data)
    assert "positions are a table" in str(under(["mask"]).misfit("table"))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("llama", None), ("gpt2", None), ("granite", "not scaled by"), ("opt", "not scaled by"),
        ("gemma2", "not scaled by"), ("mistral", "do not see all keys"), ("gpt_oss", "sinks"),
    ],
)  # fmt: skip
def test_whether_patterns_follow_from_queries_and_keys(kind, reason):
    """By softmax(q·k / √d_head), which the measurement of heads applies to stored ones."""
    network = tiny("causal", kind)
    architecture = of(network)
    network.set_attn_implementation(attention.NAME)
    ids = DOCUMENTS[0]
    _, recording = forward(network, [ids])
    _, patterns = patterns_under(network, [ids], Condition(), {})
    same = [
        np.allclose(
            attention_pattern(recording.queries[layer][0], recording.keys[layer][0], causal=True),
            expected[0],
            atol=1e-5,
        )
        for layer, expected in enumerate(patterns)
    ]
    said = architecture.unlike_queries_and_keys(len(ids))
    assert all(same) == (said is None) == (reason is None)
    assert reason is None or reason in said
