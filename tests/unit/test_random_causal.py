"""The law of the variance of causal attention: exactly, by sampling, and in random models."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.artifacts.files import ArtifactError, read_sealed, write_json
from posenc.measurements.random_causal import figure as figure_of
from posenc.measurements.random_causal import measure as random_causal
from posenc.measurements.random_causal.declaration import RandomCausal
from posenc.metrics.causal_variance import (
    decay_exponent,
    position_variance,
    scaled_variance,
)

from . import synthetic
from .test_figures import check_texts, texts

SMALL = RandomCausal(
    n_layers=2, d_model=128, n_heads=4, tokens=32, sequences=8, models=3, deviation=0.02, seed=0
)
FIGURES = synthetic.params_of().figures


@pytest.fixture(scope="module")
def measured():
    return random_causal.measure(SMALL).as_json()


def layers(measured, name):
    (entry,) = (variant for variant in measured["variants"] if variant["name"] == name)
    return entry["layers"]


def test_independent_values_follow_the_law():
    values = 3.0 * np.random.default_rng(0).normal(size=(64, 50, 256))
    average = np.cumsum(values, axis=1) / np.arange(1, 51)[:, None]  # of uniform attention
    variance = position_variance(average)  # [tokens]
    # The variance of 64 x 256 values is off by √(2 / 16384) = 1.1 % of itself.
    np.testing.assert_allclose(variance, 9 / np.arange(1, 51), rtol=0.06)
    np.testing.assert_allclose(scaled_variance(variance), 1, rtol=0.06)
    assert decay_exponent(variance) == pytest.approx(-1, abs=0.02)


@settings(deadline=None)
@given(exponent=st.floats(-3, 3), scale=st.floats(1e-6, 1e6), tokens=st.integers(2, 200))
def test_a_power_law_has_its_exponent_and_any_scale(exponent, scale, tokens):
    place = np.arange(1, tokens + 1.0)
    variance = scale * place**exponent
    assert decay_exponent(variance) == pytest.approx(exponent, abs=1e-9)
    np.testing.assert_allclose(scaled_variance(variance), place ** (exponent + 1), rtol=1e-9)


def test_variance_is_over_entries_and_its_mean_over_sequences():
    outputs = np.random.default_rng(1).normal(size=(3, 4, 5)) + np.arange(4)[:, None]
    by_hand = [
        np.mean([np.mean((output[m] - output[m].mean()) ** 2) for output in outputs])
        for m in range(4)
    ]
    np.testing.assert_allclose(position_variance(outputs), by_hand, rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: position_variance(np.ones((2, 3))), "shape"),
        (lambda: position_variance(np.full((1, 2, 3), np.nan)), "finite"),
        (lambda: scaled_variance([1.0, 0.0]), "positive"),
        (lambda: scaled_variance([[1.0]]), "shape"),
        (lambda: decay_exponent([1.0]), "one position"),
    ],
)
def test_what_has_no_law_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_attention_output_is_what_the_weights_give():
    """The hooked output against the formula, head by head, for the first layer."""
    import torch

    network = random_causal.random_model(SMALL, 0)
    ids = torch.arange(12)[None]  # [1, tokens]
    with torch.inference_mode():
        network.wpe.weight.zero_()
        output = random_causal.outputs(network, ids, None)[0][0]  # [tokens, d_model]
        x = network.h[0].ln_1(network.wte(ids[0])).double().numpy()  # [tokens, d_model]
    attention = network.h[0].attn
    weight, bias = (p.detach().double().numpy() for p in attention.c_attn.parameters())
    q, k, v = np.split(x @ weight + bias, 3, axis=1)  # [tokens, d_model] each
    heads, width = SMALL.n_heads, SMALL.d_model // SMALL.n_heads
    mixed = np.empty_like(v)
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        scores = q[:, own] @ k[:, own].T / np.sqrt(width)  # [tokens, tokens]
        scores[np.triu_indices(12, 1)] = -np.inf
        pattern = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        mixed[:, own] = pattern @ v[:, own]
    weight, bias = (p.detach().double().numpy() for p in attention.c_proj.parameters())
    np.testing.assert_allclose(output, mixed @ weight + bias, atol=1e-5 * np.abs(output).max())


def test_the_first_layer_of_random_models_follows_the_law(measured):
    for name in ("none", "random"):
        first = layers(measured, name)[0]
        assert first["exponent"]["mean"] == pytest.approx(-1, abs=0.1)
        assert first["scaled"]["mean"][0] == 1 and first["scaled"]["sd"][0] == 0
        assert np.mean(first["scaled"]["mean"]) == pytest.approx(1, abs=0.2)
    # Later layers read a residual stream shared by tokens: the variance shrinks less.
    assert layers(measured, "none")[1]["exponent"]["mean"] > -0.9


def test_without_the_causal_mask_no_position_is_told(measured):
    for layer in layers(measured, "bidirectional"):
        assert layer["exponent"]["mean"] == pytest.approx(0, abs=0.01)


def test_form_and_the_same_numbers_each_time(measured, tmp_path):
    write_json(tmp_path / "config.json", {"parameters": SMALL.model_dump()})
    random_causal.main(tmp_path / "config.json", tmp_path / "out.json")
    written = read_sealed(tmp_path / "out.json")
    assert written["measurement"] == "random_causal" and written["catalogue"] == ["B4"]
    assert written["run"] == {} and written["status"] == "measured"
    assert {key: written[key] for key in measured} == json.loads(json.dumps(measured))
    json.dumps(written, allow_nan=False)
    for variant in measured["variants"]:
        assert [layer["layer"] for layer in variant["layers"]] == [0, 1]
        assert all(len(layer["scaled"]["mean"]) == SMALL.tokens for layer in variant["layers"])


def test_heads_that_do_not_fit_are_named():
    with pytest.raises(ArtifactError, match=r"d_model 128 .* n_heads 3"):
        random_causal.measure(SMALL.model_copy(update={"n_heads": 3}))


def test_the_figure_shows_the_scaled_variances(measured):
    measurement = {"measurement": "random_causal", "run": {}, "status": "measured", **measured}
    figure = figure_of.draw([measurement], FIGURES.random_causal, FIGURES.style)
    check_texts(figure)
    for axes, name in zip(figure.axes, ("none", "random"), strict=True):
        for layer in layers(measured, name):
            label = f"layer {layer['layer']}"
            (line,) = (line for line in axes.get_lines() if line.get_label() == label)
            assert list(line.get_ydata()) == layer["scaled"]["mean"]
    absent = {**measurement, "status": "not run", "reason": "too large"}
    figure = figure_of.draw([absent], FIGURES.random_causal, FIGURES.style)
    assert "too large" in texts(figure)[0].get_text()
