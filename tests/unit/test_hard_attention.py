"""Soft and hard read-outs: exact enumeration, automatic differentiation, the step, its figure."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import save_file
from scipy.special import softmax

from posenc.artifacts.activations import INDEX, SCHEMA, ActivationStore, shard_name
from posenc.artifacts.files import ArtifactError, sha256_file, write_json
from posenc.artifacts.tables import write_table
from posenc.drawing.command import read_measurements
from posenc.measurements.frame import result
from posenc.measurements.hard_attention import figure as figure
from posenc.measurements.hard_attention import measure as step
from posenc.measurements.hard_attention import queries as queries_of
from posenc.measurements.hard_attention.declaration import HardAttention
from posenc.metrics import hard_attention as measures
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.hard_attention_means import (
    Means,
    Settings,
    exactly,
    joined,
    largest_z,
    of_query,
)
from posenc.models.files import model_digests
from posenc.models.values import ValueWeights

from . import synthetic
from .damage import call
from .small_models import random_model, saved
from .test_figures import check_texts, texts

SECTIONS = synthetic.params_of().figures
PARAMETERS = HardAttention(
    queries=30, heads=3, samples=[1, 4, 16], repeats=100, bootstrap_samples=100, confidence=0.9,
    seed=0,
)  # fmt: skip
LENGTHS = [[9, 14, 6, 1], [11, 3]]  # documents of two shards
N_LAYERS, N_HEADS, D_HEAD = 2, 2, 8  # of the small models
D_MODEL = N_HEADS * D_HEAD
INTACT = {"position": "intact", "embeddings": "intact", "mask": None, "segments": None}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@st.composite
def patterns(draw, most=7):
    """A pattern and an objective of the same keys."""
    n = draw(st.integers(2, most))
    scores = draw(arrays(np.float64, n, elements=st.floats(-6, 6)))
    objective = draw(arrays(np.float64, n, elements=st.floats(-3, 3)))
    return softmax(scores), objective


def drawn(seed: int, keys: int = 6, d_model: int = 5, scale: float = 1.0):
    """Pattern, values and target at random."""
    rng = generator(seed)
    pattern = softmax(scale * rng.normal(size=keys))
    return pattern, rng.normal(size=(keys, d_model)), rng.normal(size=d_model)


# Mathematics


@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_automatic_differentiation(seed):
    import torch

    rng = generator(seed)
    scores, values, target = rng.normal(size=7), rng.normal(size=(7, 4)), rng.normal(size=4)
    z = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    v, t = torch.tensor(values), torch.tensor(target)

    def objective(readout):
        return -((readout - t) ** 2).sum(-1) / (2 * 4)

    hard = (torch.softmax(z, 0) * objective(v)).sum()
    soft = objective(torch.softmax(z, 0) @ v)
    pattern = softmax(scores)
    (expected,) = torch.autograd.grad(hard, z)
    gradient = measures.enumerated_gradient(pattern, measures.log_likelihood(values, target))
    np.testing.assert_allclose(gradient, expected.numpy(), rtol=0, atol=1e-15)
    (expected,) = torch.autograd.grad(soft, z)
    gradient = measures.soft_gradient(pattern, values, target)
    np.testing.assert_allclose(gradient, expected.numpy(), rtol=0, atol=1e-15)
    read = measures.readouts(pattern, values, target)
    assert (read.soft, read.hard) == pytest.approx((soft.item(), hard.item()), abs=1e-15)


@settings(deadline=None)
@given(patterns(), st.floats(-5, 5))
def test_the_estimate_is_unbiased_with_any_baseline(both, b):
    pattern, objective = both
    each = (objective - b)[:, None] * (np.eye(len(pattern)) - pattern)  # [drawn key, keys]
    gradient = measures.enumerated_gradient(pattern, objective)
    np.testing.assert_allclose(pattern @ each, gradient, rtol=0, atol=1e-12)
    assert abs(gradient.sum()) < 1e-12
    # The expectation of the score function is 0.
    assert np.abs(pattern @ (np.eye(len(pattern)) - pattern)).max() < 1e-12


@settings(deadline=None)
@given(patterns(), st.floats(-5, 5))
def test_the_variance_is_that_of_all_outcomes(both, b):
    pattern, objective = both
    each = (objective - b)[:, None] * (np.eye(len(pattern)) - pattern)  # [drawn key, keys]
    off = each - pattern @ each
    expected = pattern @ np.square(off).sum(axis=1)
    variance = measures.total_variance(pattern, objective, b)
    assert variance == pytest.approx(expected, abs=1e-12)
    direction = np.arange(len(pattern))
    expected = pattern @ np.square(off @ direction)
    variance = measures.variance_along(pattern, objective, b, direction)
    assert variance == pytest.approx(expected, abs=1e-10)


@settings(deadline=None, max_examples=30)
@given(patterns(4), st.integers(1, 4), st.floats(-3, 3))
def test_the_variance_of_several_samples_is_exact(both, samples, b):
    """Every sequence of T keys, by its probability."""
    pattern, objective = both
    each = (objective - b)[:, None] * (np.eye(len(pattern)) - pattern)  # [drawn key, keys]
    sequences = np.stack(np.meshgrid(*[np.arange(len(pattern))] * samples), -1).reshape(-1, samples)
    weight = pattern[sequences].prod(axis=1)  # [sequences]
    estimates = each[sequences].mean(axis=1)  # [sequences, keys]
    mean = weight @ estimates
    expected = weight @ np.square(estimates - mean).sum(axis=1)
    variance = measures.total_variance(pattern, objective, b, samples)
    assert variance == pytest.approx(expected, abs=1e-11)
    assert variance == measures.total_variance(pattern, objective, b) / samples


@settings(deadline=None)
@given(patterns(), st.floats(-4, 4))
def test_no_other_baseline_has_less_variance(both, change):
    pattern, objective = both
    best = measures.optimal_baseline(pattern, objective)
    least = measures.total_variance(pattern, objective, best)
    assert measures.total_variance(pattern, objective, best + change) >= least - 1e-12
    # A parabola: V(b) = V(b*) + (b - b*)² E‖e - p‖².
    weight = pattern @ measures.score_squares(pattern)
    assert weight == pytest.approx(1 - pattern @ pattern, abs=1e-12)
    variance = measures.total_variance(pattern, objective, best + change)
    assert variance == pytest.approx(least + change**2 * weight, abs=1e-9)
    names = measures.baselines(pattern, objective)
    assert names.tolist() == [0.0, pytest.approx(pattern @ objective), best]


def test_the_mean_as_a_baseline_can_be_worse_than_none():
    # The key that is nearly always drawn tells little: ‖e_1 - p‖² is small where f is not 0.
    pattern, objective = np.array([0.9, 0.05, 0.05]), np.array([1.0, 0.0, 0.0])
    none, mean, best = measures.total_variance(
        pattern, objective, measures.baselines(pattern, objective)
    )
    assert mean > 2 * none and best < none
    # The squares are 0.015 and 1.715, by hand: .9 (.015) and .1 (1.715).
    squares = measures.score_squares(pattern)
    assert squares == pytest.approx([0.015, 1.715, 1.715])
    assert measures.optimal_baseline(pattern, objective) == pytest.approx(0.0135 / 0.185)
    # An objective that is the same for all keys needs no variance at all.
    flat = measures.total_variance(pattern, np.ones(3), measures.baselines(pattern, np.ones(3)))
    assert flat[0] > 0.1 and flat[1:] == pytest.approx([0, 0], abs=1e-15)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(2, 8), st.floats(0, 8))
def test_the_gap_between_soft_and_hard_is_the_readouts_variance(seed, keys, d_model, scale):
    pattern, values, target = drawn(seed, keys, d_model, scale)
    read = measures.readouts(pattern, values, target)
    assert read.soft - read.hard == pytest.approx(read.spread / (2 * d_model), abs=1e-12)
    assert read.soft >= read.hard - 1e-12
    assert 0 <= read.entropy <= np.log(keys) + 1e-12
    # The two gradients differ by that of the read-outs' variance.
    hard = measures.enumerated_gradient(pattern, measures.log_likelihood(values, target))
    squares = np.square(values - pattern @ values).sum(axis=1)  # [keys]
    difference = measures.enumerated_gradient(pattern, squares) / (2 * d_model)
    soft = measures.soft_gradient(pattern, values, target)
    np.testing.assert_allclose(soft - hard, difference, rtol=0, atol=1e-12)
    if keys == 2:
        return
    standard = measures.standardised(values * 7 + 3)
    np.testing.assert_allclose(standard, measures.standardised(values), atol=1e-6)
    np.testing.assert_allclose(np.square(standard).sum(axis=1), d_model, rtol=1e-9)


def test_one_key_with_all_weight_has_no_gradient_and_no_variance():
    pattern, objective = np.array([0.0, 1.0, 0.0]), np.array([3.0, 2.0, -1.0])
    assert not measures.enumerated_gradient(pattern, objective).any()
    assert measures.optimal_baseline(pattern, objective) == 2
    b = measures.baselines(pattern, objective)
    assert not measures.total_variance(pattern, objective, b).any()
    simulation = measures.simulate(pattern, objective, b, 3, 10, generator())
    assert not simulation.variance.any() and not simulation.error.any()
    assert simulation.frequencies.tolist() == [0, 1, 0]


def test_simulation_is_a_loop_over_draws():
    pattern, values, target = drawn(1)
    objective, b = measures.log_likelihood(values, target), np.array([0.0, -0.4])
    simulation = measures.simulate(pattern, objective, b, 3, 5, generator(2))
    shares = measures.drawn_shares(pattern, 3, 5, generator(2))
    uniform, edges = generator(2).random((5, 3)), np.cumsum(pattern)
    for place, baseline in enumerate(b):
        estimates = np.zeros((5, 6))
        for repeat in range(5):
            for draw in uniform[repeat]:
                key = int(np.flatnonzero(draw < edges)[0])
                score = np.eye(6)[key] - pattern
                estimates[repeat] += (objective[key] - baseline) * score / 3
        mean = estimates.mean(axis=0)
        assert simulation.variance[place] == pytest.approx(np.var(estimates, axis=0, ddof=1).sum())
        bias = mean - measures.enumerated_gradient(pattern, objective)
        assert simulation.error[place] == pytest.approx(bias @ bias)
    np.testing.assert_allclose(simulation.frequencies, shares.mean(axis=0))
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_a_draw_on_an_edge_is_never_a_key_without_weight():
    class Edges:
        @staticmethod
        def random(shape):
            return np.array([0.0, 0.5, np.nextafter(1, 0)]).reshape(shape)

    shares = measures.drawn_shares([0.0, 0.5, 0.0, 0.5, 0.0], 3, 1, Edges())
    assert shares.tolist() == [[0, 1 / 3, 0, 2 / 3, 0]]


def test_simulated_variances_and_means_agree_with_the_exact_ones():
    settings_ = Settings([1, 4, 16], 400, 200, 0.99, 0)
    rng, rows = generator(3), []
    for seed in range(60):
        rows.append(of_query(*drawn(seed, 8, 6, 1.5), settings_, rng))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    means = Means(columns, np.arange(60), settings_)
    distance = means.ratio(("distance",), ("expected_distance",))
    assert distance.low < 1 < distance.high
    entries = [step.baseline(means, place) for place in range(3)]
    for entry in entries:
        for estimate in entry.samples:
            assert estimate.agreement.low < 1 < estimate.agreement.high
            assert estimate.bias.square.low < 1 < estimate.bias.square.high
            assert abs(estimate.bias.z) < 4
            assert estimate.simulated.value == pytest.approx(estimate.variance.value, rel=0.1)
    by_name = {entry.name: entry for entry in entries}
    assert by_name["none"].ratio.value == 1
    assert by_name["optimal"].ratio.high < 1
    assert by_name["optimal"].worse.value == 0
    assert by_name["optimal"].over_optimal.value == 1
    assert by_name["mean"].over_optimal.low > 1
    bias = largest_z([each.bias.z for entry in entries for each in entry.samples], 0.99)
    assert bias.tests == 9 and bias.largest < bias.bound
    assert 0 < by_name["mean"].worse.value < 1
    json.dumps([entry.as_json() for entry in entries], allow_nan=False)


def test_a_biased_estimate_is_found(monkeypatch):
    """If the score function lacked its mean, the bias would show."""
    settings_ = Settings([4], 200, 100, 0.95, 0)

    def biased(pattern, objective, baseline, samples, repeats, rng):
        shares = measures.drawn_shares(pattern, samples, repeats, rng)
        estimates = [shares * (objective - b) for b in baseline]
        gradient = measures.enumerated_gradient(pattern, objective)
        off = [estimate.mean(axis=0) - gradient for estimate in estimates]
        return measures.Simulation(
            np.array([np.var(estimate, axis=0, ddof=1).sum() for estimate in estimates]),
            np.array([deviation @ deviation for deviation in off]),
            np.array([gradient @ deviation for deviation in off]),
            shares.mean(axis=0),
        )

    monkeypatch.setattr("posenc.metrics.hard_attention_means.simulate", biased)
    rows = [of_query(*drawn(seed), settings_, generator(seed)) for seed in range(40)]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    means = Means(columns, np.arange(40), settings_)
    entries = [step.baseline(means, place) for place in range(3)]
    assert entries[0].samples[0].bias.square.low > 2
    bias = largest_z([each.bias.z for entry in entries for each in entry.samples], 0.95)
    assert bias.largest > bias.bound


def test_means_are_over_queries_and_intervals_over_documents():
    settings_, rng = Settings([1, 2], 20, 100, 0.9, 0), generator(4)
    heads = []
    for _ in range(2):
        rows = [of_query(*drawn(int(rng.integers(99))), settings_, rng) for _ in range(6)]
        heads.append({name: np.array([row[name] for row in rows]) for name in rows[0]})
    both = joined(heads)
    means = Means(both, np.array([0, 0, 0, 4, 4, 4]), settings_)
    assert means.mean("entropy").value == pytest.approx(both["entropy"].mean())
    variance = both["variance"].sum(axis=0)
    assert step.baseline(means, 1).ratio.value == pytest.approx(variance[1] / variance[0])
    estimate = step.estimates(means, 1, 2)
    assert estimate.simulated.value == pytest.approx(both["simulated"][:, 1, 2].mean())
    assert estimate.variance.value == pytest.approx(both["variance"][:, 2].mean() / 2)
    less = step.estimates(means, 0, 2)
    for bound in ("value", "low", "high"):
        expected = getattr(less.variance, bound) / 2
        assert getattr(estimate.variance, bound) == pytest.approx(expected)
    # Heads share their documents; each is drawn with all its queries.
    sums = both["entropy"].reshape(2, 2, 3).sum(axis=(0, 2))  # [documents]
    expected = ratio_bootstrap(sums, [6, 6], 100, 0.9, 0).as_json()
    assert means.mean("entropy").as_json() == pytest.approx(expected)
    # Along the gradient, the error is that of as many independent means.
    error = np.sqrt(both["along_variance"][:, 2].sum() / (2 * 20))
    along = both["along"][:, 1, 2].sum()
    assert estimate.bias.z == pytest.approx(along / error)
    assert estimate.bias.standard_error == pytest.approx(error / both["signal"].sum())
    assert estimate.bias.relative == pytest.approx(along / both["signal"].sum())
    assert means.cosine().value == pytest.approx(
        both["soft_dot"].sum() / np.sqrt(both["soft_signal"].sum() * both["signal"].sum())
    )
    # With one document there is nothing to resample.
    alone = Means(both, np.zeros(6, int), settings_).mean("entropy")
    assert alone.low == pytest.approx(alone.high)


def test_queries_without_a_gradient_have_no_ratios():
    """Keys with the same values: whatever is read out is the same."""
    settings_ = Settings([1, 2], 5, 20, 0.9, 0)
    same = np.tile(drawn(0)[1][0], (6, 1))
    rows = [of_query(drawn(seed)[0], same, same[0] * 0, settings_, generator()) for seed in (1, 2)]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    for name in ("signal", "along", "along_variance", "soft_error"):
        np.testing.assert_allclose(columns[name], 0, atol=1e-15)
        columns[name] = np.zeros_like(columns[name])
    means = Means(columns, np.arange(2), settings_)
    entry = step.baseline(means, 0)
    assert entry.samples_to_signal is entry.samples_to_soft is means.cosine() is None
    assert means.along(0, 1, 0) == (0, 0, 0)
    # With a gradient in one document alone, a resample may have none.
    columns["signal"] = np.array([0.0, 1.0])
    assert Means(columns, np.arange(2), settings_).ratio(("hard",), ("signal",)) is None


@pytest.mark.parametrize(
    ("call_", "message"),
    [
        (lambda: measures.enumerated_gradient([1.0], [1.0]), "two keys"),
        (lambda: measures.enumerated_gradient([0.5, 0.5], [1.0]), "shape"),
        (lambda: measures.optimal_baseline([0.5, 0.5], [1.0, np.nan]), "finite"),
        (lambda: measures.score_squares([0.5, 0.6]), "sum to 1"),
        (lambda: measures.standardised(np.ones((2, 3))), "constant"),
        (lambda: measures.standardised([[np.inf, 1.0]]), "finite"),
        (lambda: measures.scaled_to([[1.0, 1.0]], [0.0, 0.0]), "0 or not finite"),
        (lambda: measures.scaled_to([[np.inf, 1.0]], [1.0, 0.0]), "0 or not finite"),
        (lambda: HardAttention(**{**PARAMETERS.model_dump(), "samples": [4, 1]}), "must rise"),
    ],
)
def test_what_cannot_be_is_refused(call_, message):
    with pytest.raises(ValueError, match=message), np.errstate(invalid="ignore"):
        call_()


# The step


def result_of(folder, store):
    """What is measured of a store, with the weights of a small model."""
    family = "gpt2" if store.metadata["is_decoder"] else "bert"
    weights = ValueWeights(saved(family, folder / "model"), family)
    measured = step.measure(PARAMETERS, store, weights)
    return result(step.MEASUREMENT, store.metadata["run"], measured)


def write_store(
    folder, condition="intact", spec=None, causal=False, model="toy", scale=1.0, inputs=None
):
    """A store of random hidden states, queries and keys."""
    folder.mkdir(parents=True)
    files = []
    for number, lengths in enumerate(LENGTHS):
        rng, tokens = generator(number), sum(lengths)
        arrays_ = {
            "hidden_states": rng.normal(size=(N_LAYERS + 1, tokens, D_MODEL)),
            "queries": 1.5 * rng.normal(size=(N_LAYERS, N_HEADS, tokens, D_HEAD)),
            "keys": scale * rng.normal(size=(N_LAYERS, N_HEADS, tokens, D_HEAD)),
        }
        name = shard_name(number)
        with np.errstate(over="ignore"):
            stored = {
                key: np.ascontiguousarray(array, np.float16) for key, array in arrays_.items()
            }
        save_file({**stored, "special_mask": np.zeros(tokens, bool)}, folder / name)
        files.append({"file": name, "sha256": sha256_file(folder / name)})
    flat = [length for lengths in LENGTHS for length in lengths]
    index = pa_table(flat)
    metadata = {
        "schema": SCHEMA, "run": {"model": model, "dataset": "sample", "condition": condition},
        "is_decoder": causal, "n_layers": N_LAYERS, "n_heads": N_HEADS, "d_model": D_MODEL,
        "n_shards": 2, "files": files, "condition": spec or INTACT, "precision": {"mode": "exact"},
        "inputs": inputs,
    }  # fmt: skip
    write_table(index, folder / INDEX, metadata)
    return ActivationStore(folder)


def pa_table(flat):
    import pyarrow as pa

    return pa.table(
        {
            "document_id": [f"d{number}" for number in range(len(flat))],
            "shard": np.repeat([0, 1], [len(lengths) for lengths in LENGTHS]),
            "start": np.concatenate([np.cumsum(lengths) - lengths for lengths in LENGTHS]),
            "length": pa.array(flat, pa.int32()),
        }
    )


@pytest.mark.parametrize("causal", [True, False])
def test_patterns_and_states_are_those_of_the_store(tmp_path, causal):
    from posenc.metrics.patterns import attention_pattern

    store = write_store(tmp_path / "s", causal=causal)
    queries = queries_of.drawn_queries(store, 1000, generator())
    # Without the lone token, and in a decoder without all first ones.
    assert len(queries.document) == 44 - (6 if causal else 1)
    shards = {n: (store.hidden_states(n), store.queries(n), store.keys(n)) for n in (0, 1)}
    for number, (document, place_) in enumerate(
        zip(queries.document, queries_of.places(queries), strict=True)
    ):
        pattern = queries_of.pattern(shards, 1, 1, *place_)
        values, target = queries_of.states(shards, 1, *place_)
        shard, start, length = (
            store.documents[name][int(document)].as_py() for name in ("shard", "start", "length")
        )
        assert shard == queries.shard[number]
        place = slice(start, start + length)
        own = [vectors[1, 1, place].astype(float) for vectors in shards[shard][1:]]
        position = queries.row[number] - start
        expected = attention_pattern(*own, causal=causal)[position]
        seen = position + 1 if causal else length
        np.testing.assert_allclose(pattern, expected[:seen], atol=1e-12)
        states = store.hidden_states(shard).astype(float)
        np.testing.assert_allclose(
            values, measures.standardised(states[1, place][:seen]), atol=1e-12
        )
        np.testing.assert_allclose(
            target, measures.standardised(states[2, start + position]), atol=1e-12
        )


@pytest.mark.parametrize("causal", [True, False])
def test_the_step_measures_a_store(tmp_path, causal):
    store = write_store(tmp_path / "s", causal=causal)
    measurement = result_of(tmp_path, store)
    assert (measurement["tokens"], measurement["is_causal"]) == (30, causal)
    assert measurement["documents"] <= 6 and len(measurement["heads"]) == 3
    assert [layer["layer"] for layer in measurement["layers"]] == [0, 1]
    assert sum(layer["heads"] for layer in measurement["layers"]) == 3
    assert measurement["soft"]["value"] > measurement["hard"]["value"]
    assert max(measurement["checks"].values()) < 1e-12
    none, mean, best = measurement["baselines"]
    assert best["ratio"]["value"] <= min(1, mean["ratio"]["value"])
    for entry in measurement["baselines"]:
        for estimate in entry["samples"]:
            assert abs(estimate["bias"]["z"]) < 4.5
            assert estimate["agreement"]["value"] == pytest.approx(1, abs=0.15)
    # The mean over heads of as many queries each.
    of_heads = np.mean([head["variance"]["none"]["value"] for head in measurement["heads"]])
    assert none["samples"][0]["variance"]["value"] == pytest.approx(of_heads)
    # Of values too: the same sums as of hidden states, without draws.
    values = measurement["values"]
    assert values["soft"]["value"] > values["hard"]["value"]
    assert max(values["checks"].values()) < 1e-12
    of_heads = np.mean(
        [head["values"]["variance"]["mean"]["value"] for head in measurement["heads"]]
    )
    assert values["variance"]["mean"]["value"] == pytest.approx(of_heads)
    assert values["samples_to_signal"]["none"]["value"] == pytest.approx(
        values["variance"]["none"]["value"] / values["signal"]["value"]
    )
    json.dumps(measurement, allow_nan=False)
    assert measurement == result_of(tmp_path, store)


LLAMA = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 48,
}  # fmt: skip


def small(kind):
    """A model of the library with random weights, its family, and where its sub-layers end."""
    import torch
    import transformers

    if kind in ("bert", "roberta", "gpt2"):
        model = random_model(kind)
    else:
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            **LLAMA, num_key_value_heads=2, attention_bias=kind == "biases"
        )
        model = transformers.LlamaForCausalLM(config).eval()
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            # Normalisations with gains and shifts, and biases that count.
            torch.nn.init.normal_(weight, mean=float("norm" in name.lower()), std=0.3)
    if kind in ("bert", "roberta"):
        ends = [layer.attention.output.dense for layer in model.encoder.layer]
        return model, kind, model.encoder.layer, ends
    layers = model.transformer.h if kind == "gpt2" else model.model.layers
    ends = [layer.attn.c_proj if kind == "gpt2" else layer.self_attn.o_proj for layer in layers]
    return model, "gpt2" if kind == "gpt2" else "llama", layers, ends


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "llama", "biases"])
def test_what_heads_add_is_what_the_library_adds(tmp_path, kind):
    """Soft read-outs of values, all heads and the bias: the library's own forward pass."""
    import torch

    model, family, layers, ends = small(kind)
    model.save_pretrained(tmp_path)
    model.set_attn_implementation("eager")
    given, gives = [], []
    for layer in layers:
        layer.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0][0].numpy()))
    for end in ends:
        end.register_forward_hook(lambda _, __, output: gives.append(output[0].numpy()))
    with torch.inference_mode():
        outputs = model(torch.arange(3, 26)[None], output_attentions=True)
    weights = ValueWeights(tmp_path, family)
    for layer in range(2):
        maps = weights.maps(layer)
        pattern = outputs.attentions[layer][0].double().numpy()  # [n_heads, tokens, tokens]
        values = maps.values(given[layer])  # [n_heads, tokens, d_head]
        of_heads = pattern @ (values @ maps.output)  # [n_heads, tokens, d_model]
        scale = np.abs(gives[layer]).max()
        np.testing.assert_allclose(
            of_heads.sum(axis=0) + maps.bias, gives[layer], rtol=0, atol=1e-5 * scale
        )
        # As the step reads them: for one query, the keys that it sees, of a shard.
        seen = 10 if family in ("gpt2", "llama") else 23
        shards = {0: (np.stack([*given, given[-1]]), None, None)}
        read, output = queries_of.read_values(
            shards, maps, pattern[:, 9, :seen], layer, 0, 9, 0, seen
        )
        np.testing.assert_allclose(read, values[:, :seen], rtol=0, atol=1e-9)
        np.testing.assert_allclose(output, gives[layer][9], rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_the_distance_of_a_drawn_key(seed):
    """By a loop over keys; units do not matter, and a target is no part of it."""
    pattern, values, target = drawn(seed, scale=2.0)
    row = exactly(pattern, *measures.scaled_to(values, target))
    unit = np.mean(target**2)
    mean = sum(p * v for p, v in zip(pattern, values, strict=True))
    distance = [np.sum((v - mean) ** 2) for v in values]  # [keys]
    assert row["square"] * unit == pytest.approx(np.sum(mean**2))
    assert row["spread"] * unit == pytest.approx(sum(pattern * distance))
    assert row["anywhere"] * unit == pytest.approx(np.mean(distance))
    # In units of the target, a read-out of nothing has the objective -1/2, of the target 0.
    scaled, unit_target = measures.scaled_to([0 * target, target], target)
    assert measures.log_likelihood(scaled, unit_target) == pytest.approx([-0.5, 0])
    columns = {name: np.array([row[name]]) for name in row}
    means = Means(columns, np.zeros(1, int), Settings([1], 10, 10, 0.9, 0))
    told = step.of_values(means, columns)
    assert told.noise.value == pytest.approx(sum(pattern * distance) / np.sum(mean**2))
    assert told.noise_anywhere.value == pytest.approx(np.mean(distance) / np.sum(mean**2))


def test_weights_that_the_store_is_not_of_are_refused(tmp_path):
    weights = saved("bert", tmp_path / "model")
    inputs = {**model_digests(weights), "weights": "0"}
    write_store(tmp_path / "a/sample/intact", inputs=inputs)
    job = {"parameters": PARAMETERS.model_dump(), "datasets": ["sample"],
           "conditions": ["intact"], "reading": {"family": "bert", "max_tokens": 48}}  # fmt: skip
    write_json(tmp_path / "config.json", job)
    with pytest.raises(ArtifactError, match="of other weights"):
        step.main("toy", tmp_path / "config.json", weights, tmp_path / "a", tmp_path / "out")


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        ({"mask": {"semantics": "log_mask"}}, False),
        ({"segments": 4}, False),
        ({"mask": {"semantics": "emb_mul"}}, True),
        ({"position": "zero"}, True),
    ],
)
def test_a_condition_that_changes_attention_itself_is_not_run(tmp_path, changed, runs):
    store = write_store(tmp_path / "s", "changed", {**INTACT, **changed})
    measurement = result_of(tmp_path, store)
    assert (measurement["status"] == "measured") == runs
    assert (measurement["reason"] is None) == runs
    if not runs:
        assert measurement["reason"].startswith("condition changed: ")


def test_scores_that_overflow_are_named(tmp_path):
    store = write_store(tmp_path / "s", scale=1e8)
    with pytest.raises(ArtifactError, match=r"layer 0: .*activations\.dtype"):
        result_of(tmp_path, store)


def test_the_command_and_the_figure(tmp_path):
    weights = saved("bert", tmp_path / "model")
    digests = model_digests(weights)
    of_model = {"inputs": {"tokens": "0", **digests}}
    write_store(tmp_path / "a/sample/intact", **of_model)
    write_store(tmp_path / "a/sample/zero", "zero", {**INTACT, "position": "zero"}, **of_model)
    config = tmp_path / "config.json"
    job = {"datasets": ["sample"], "conditions": ["intact", "zero"],
           "reading": {"family": "bert", "max_tokens": 48}}  # fmt: skip
    write_json(config, {"parameters": PARAMETERS.model_dump(), **job})
    asked = {
        "model": "toy", "config": config, "weights": weights, "activations": tmp_path / "a",
        "output": tmp_path / "out",
    }  # fmt: skip
    done = call("posenc.measurements.hard_attention.measure", **asked)
    assert done.returncode == 0, done.stderr
    again = call("posenc.measurements.hard_attention.measure", **asked)
    assert again.stderr.count("is current and is kept") == 2
    runs = read_measurements(sorted((tmp_path / "out").rglob("*.json")))
    assert [run["run"]["condition"] for run in runs] == ["intact", "zero"]
    assert runs[0]["catalogue"] == ["E1", "E2"] and runs[0]["schema"] == 1
    assert digests.items() <= runs[0]["provenance"]["inputs"].items()
    for models in (["toy"], ["toy", "second_model", "third_of_models"]):
        for datasets in (["sample"], ["sample_reviews", "sample_questions", "imdb"]):
            named = [
                {**run, "run": {**run["run"], "model": model, "dataset": dataset}}
                for model in models
                for dataset in datasets
                for run in runs
            ]
            canvas = figure.draw(named, SECTIONS.hard_attention, SECTIONS.style)
            check_texts(canvas)
            assert len(canvas.axes) == len(models) + 1
    canvas = figure.draw(runs, SECTIONS.hard_attention, SECTIONS.style)
    for entry in runs[0]["baselines"]:
        shown = [list(line.get_ydata()) for line in canvas.axes[0].get_lines()]
        assert [estimate["variance"]["value"] for estimate in entry["samples"]] in shown
        assert [estimate["simulated"]["value"] for estimate in entry["samples"]] in shown
    levels = [
        list(line.get_ydata()) for line in canvas.axes[0].get_lines() if len(line.get_ydata()) == 2
    ]
    for level in (runs[0]["signal"]["value"], runs[0]["soft_gradient"]["square"]["value"]):
        assert [level, level] in levels
    ratios = [line.get_xdata()[0] for line in canvas.axes[1].get_lines()]
    for run in runs:
        assert all(entry["ratio"]["value"] in ratios for entry in run["baselines"][1:])
    absent = {**runs[1], "status": "not run", "reason": "because"}
    check_texts(figure.draw([runs[0], absent], SECTIONS.hard_attention, SECTIONS.style))
    canvas = figure.draw([absent], SECTIONS.hard_attention, SECTIONS.style)
    assert "because" in texts(canvas)[0].get_text()
