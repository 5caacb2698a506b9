"""Scores over d_k and the Jacobian of softmax: identities, references and the step."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import softmax

from posenc.artifacts.files import read_sealed, write_json
from posenc.measurements.scaling import figure as figure_of
from posenc.measurements.scaling import measure as step
from posenc.measurements.scaling.declaration import Scaling
from posenc.metrics import scaling as measures

from . import synthetic
from .test_figures import check_texts, texts

FIGURES = synthetic.params_of().figures
SMALL = Scaling(dimensions=[1, 4, 64, 512], keys=16, queries=400, confidence=0.95, seed=0)
SCORES = arrays(np.float64, st.integers(2, 12), elements=st.floats(-30, 30))


@pytest.fixture(scope="module")
def measured():
    return step.measure(SMALL).as_json()


def jacobian_of(pattern: np.ndarray) -> np.ndarray:
    """Of the softmax with this pattern [keys]."""
    return np.diag(pattern) - np.outer(pattern, pattern)


def test_the_jacobian_is_that_of_automatic_differentiation():
    import torch

    for seed, scale in enumerate((0.1, 1.0, 8.0)):
        scores = scale * np.random.default_rng(seed).normal(size=9)
        given_ = torch.tensor(scores, dtype=torch.float64)
        expected = torch.autograd.functional.jacobian(lambda z: torch.softmax(z, 0), given_)
        jacobian = jacobian_of(softmax(scores))
        np.testing.assert_allclose(jacobian, expected.numpy(), rtol=0, atol=1e-15)


@settings(deadline=None)
@given(SCORES)
def test_norms_are_those_of_the_jacobian(scores):
    pattern = softmax(scores)
    jacobian = jacobian_of(pattern)  # [keys, keys]
    np.testing.assert_allclose(jacobian, jacobian.T, rtol=0, atol=1e-16)
    np.testing.assert_allclose(jacobian.sum(axis=0), 0, atol=1e-15)
    values = np.linalg.eigvalsh(jacobian)  # [keys], rising
    assert values[0] > -1e-15
    frobenius, spectral = measures.frobenius_norm(pattern), measures.spectral_norm(pattern)
    assert frobenius == pytest.approx(np.linalg.norm(jacobian), rel=1e-7, abs=1e-15)
    assert spectral == pytest.approx(values[-1], rel=1e-7, abs=1e-15)
    assert spectral <= min(frobenius + 1e-15, 0.5 + 1e-12)


@settings(deadline=None)
@given(st.integers(2, 300))
def test_a_uniform_pattern_has_the_analytic_norms(keys):
    pattern = np.full(keys, 1 / keys)
    assert measures.frobenius_norm(pattern) == pytest.approx(np.sqrt(keys - 1) / keys, rel=1e-12)
    assert measures.spectral_norm(pattern) == pytest.approx(1 / keys, rel=1e-12)
    summary = measures.summary(pattern[None])
    assert summary.entropy[0] == pytest.approx(np.log(keys))
    assert summary.largest[0] == 1 / keys


def test_several_patterns_at_once_are_single_ones():
    patterns = np.random.default_rng(5).dirichlet(np.full(6, 0.3), (2, 4))
    patterns[0, 0], patterns[1, 2] = np.eye(6)[3], 1 / 6
    for name, values in measures.summary(patterns)._asdict().items():
        for place in np.ndindex(2, 4):
            alone = getattr(measures.summary(patterns[place]), name)
            assert values[place] == pytest.approx(alone, rel=1e-12, abs=1e-15), name
    products = patterns[..., :, None] * patterns[..., None, :]  # [2, 4, keys, keys]
    jacobian = patterns[..., None] * np.eye(6) - products  # diag(p) - p pᵀ
    expected = np.linalg.eigvalsh(jacobian)[..., -1]
    np.testing.assert_allclose(measures.spectral_norm(patterns), expected, atol=1e-12)


@pytest.mark.parametrize("keys", [2, 3, 64])
def test_a_pattern_on_one_key_passes_no_gradient(keys):
    pattern = np.eye(keys)[keys // 2]
    assert measures.frobenius_norm(pattern) == 0
    assert measures.spectral_norm(pattern) < 1e-15
    assert measures.summary(pattern[None]).entropy[0] == 0


@pytest.mark.parametrize("rest", [1e-3, 1e-9, 1e-20])
def test_a_nearly_saturated_pattern_keeps_its_digits(rest):
    # With two keys, J = p (1 - p) [[1, -1], [-1, 1]]: both norms are 2 p (1 - p).
    pattern = np.array([rest, 1 - rest])
    expected = 2 * rest * (1 - rest)
    np.testing.assert_allclose(measures.frobenius_norm(pattern), expected, rtol=1e-12)
    np.testing.assert_allclose(measures.spectral_norm(pattern), expected, rtol=1e-6, atol=1e-15)


def test_scores_are_dot_products_and_blocks_change_nothing(monkeypatch):
    blocks = list(measures.normal_vectors(5, 7, 3, np.random.default_rng(0)))
    assert [len(queries) for queries, _ in blocks] == [7]
    queries, keys = blocks[0]  # [7, 5], [7, 3, 5]
    scores = measures.dot_products(queries, keys)
    expected = [[float(np.dot(q, k)) for k in of] for q, of in zip(queries, keys, strict=True)]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-14)
    monkeypatch.setattr(measures, "_BLOCK_ENTRIES", 2 * 3 * 5)
    sizes = [len(q) for q, _ in measures.normal_vectors(5, 7, 3, np.random.default_rng(0))]
    assert sizes == [2, 2, 2, 1]


@pytest.mark.parametrize("d_k", [1, 4, 64, 256])
def test_scores_given_their_query_are_normal_with_its_norm(d_k):
    """Σ (q·k)² / ‖q‖² over n keys is chi-square with n degrees."""
    (block,) = measures.normal_vectors(d_k, 100, 32, np.random.default_rng(d_k))
    scaled = measures.dot_products(*block) / np.linalg.norm(block[0], axis=1)[:, None]
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], scaled.size)
    assert low < np.square(scaled).sum() < high
    assert stats.kstest(scaled.ravel(), "norm").pvalue > 1e-4


def test_the_variance_is_the_dimension_and_one_when_scaled(measured):
    for entry in measured["dimensions"]:
        d_k, variance = entry["d_k"], entry["raw"]["variance"]["value"]
        # Of the mean square over keys of one query: E ‖q‖⁴ (1 + 2 / keys) - d_k².
        spread = d_k * (d_k + 2) * (1 + 2 / SMALL.keys) - d_k**2
        assert abs(variance - d_k) < 4 * np.sqrt(spread / SMALL.queries)
        assert entry["scaled"]["variance"]["value"] == pytest.approx(variance / d_k, rel=1e-12)


def test_raw_scores_saturate_and_scaled_ones_do_not(measured):
    first, *others = measured["dimensions"]
    # With d_k = 1 there is nothing to scale.
    assert first["raw"] == first["scaled"]
    assert first["d_k"] == 1
    largest = [entry["raw"]["largest"]["value"] for entry in others]
    norms = [entry["raw"]["frobenius"]["value"] for entry in others[1:]]
    assert largest == sorted(largest) and largest[-1] > 0.9
    assert norms == sorted(norms, reverse=True)
    last = others[-1]
    assert last["raw"]["frobenius"]["high"] < last["scaled"]["frobenius"]["low"]
    assert last["raw"]["median"]["frobenius"]["high"] < last["raw"]["frobenius"]["low"]
    # Scaled, d_k matters only in how much ‖q‖² / d_k varies.
    for name in ("largest", "entropy", "frobenius", "spectral"):
        a, b = (entry["scaled"][name] for entry in others[1:])
        assert a["low"] < b["high"] and b["low"] < a["high"]


def test_numbers_known_from_elsewhere():
    """The catalogue's norms over d_k = 4, 64, 512: medians of few draws of 32 keys."""
    sizes = {"dimensions": [4, 64, 512], "keys": 32, "queries": 500, "confidence": 0.99}
    entries = step.measure(SMALL.model_copy(update=sizes)).as_json()["dimensions"]
    for entry, raw in zip(entries, (0.298, 0.151, 0.0013), strict=True):
        median = entry["raw"]["median"]["frobenius"]
        assert median["low"] < raw < median["high"]
        assert entry["scaled"]["median"]["frobenius"]["value"] == pytest.approx(0.23, abs=0.015)


def test_intervals_of_means_and_medians():
    values = np.random.default_rng(5).exponential(size=60)
    mean = measures.mean_interval(values, 0.9)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (mean.low, mean.high) == pytest.approx((expected.low, expected.high))
    median = measures.median_interval(values, 0.9)
    expected = stats.quantile_test(values, p=0.5).confidence_interval(0.9)
    assert (median.low, median.high) == (expected.low, expected.high)
    assert median.value == np.median(values)


def test_results_of_scores_are_means_over_queries():
    scores = np.random.default_rng(4).normal(size=(200, 8)) * 3
    result = measures.of_scores(scores, 0.9)
    assert result.variance.value == pytest.approx(np.mean(np.sum(scores**2, axis=1) / 8))
    pattern = softmax(scores, axis=1)
    assert result.largest.value == pytest.approx(pattern.max(axis=1).mean())
    assert result.median.largest.value == pytest.approx(np.median(pattern.max(axis=1)))
    norms = [np.linalg.norm(jacobian_of(row)) for row in pattern]
    assert result.frobenius.value == pytest.approx(np.mean(norms))
    assert result.median.frobenius.value == pytest.approx(np.median(norms))
    low, high = result.entropy.low, result.entropy.high
    assert low < -(pattern * np.log(pattern)).sum(axis=1).mean() < high


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measures.frobenius_norm([1.0]), "two keys"),
        (lambda: measures.frobenius_norm([0.5, 0.4]), "sum to 1"),
        (lambda: measures.spectral_norm([1.5, -0.5]), "negative"),
        (lambda: measures.summary([[np.nan, 1.0]]), "finite"),
        (lambda: measures.mean_interval([1.0], 0.9), "two finite"),
        (lambda: measures.median_interval([1.0, np.inf], 0.9), "two finite"),
        (lambda: measures.median_interval([1.0, 2.0], 0.99), "too few"),
        (lambda: Scaling(**{**SMALL.model_dump(), "dimensions": [4, 1]}), "must rise"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_form_and_the_same_numbers_each_time(measured, tmp_path):
    write_json(tmp_path / "config.json", {"parameters": SMALL.model_dump()})
    step.main(tmp_path / "config.json", tmp_path / "out.json")
    written = read_sealed(tmp_path / "out.json")
    assert written["measurement"] == "scaling" and written["catalogue"] == ["D4"]
    assert written["run"] == {} and written["status"] == "measured"
    assert {key: written[key] for key in measured} == json.loads(json.dumps(measured))
    json.dumps(written, allow_nan=False)
    for entry in written["dimensions"]:
        for kind in ("raw", "scaled"):
            for estimate in (*entry[kind].values(), *entry[kind]["median"].values()):
                assert "median" not in entry[kind]["median"]
                if "value" in estimate:
                    assert estimate["low"] <= estimate["value"] <= estimate["high"]


def test_the_figure_shows_what_was_measured(measured):
    measurement = {"measurement": "scaling", "run": {}, "status": "measured", **measured}
    figure = figure_of.draw([measurement], FIGURES.scaling, FIGURES.style)
    check_texts(figure)
    for axes, name in zip(figure.axes, figure_of.PANELS, strict=True):
        for kind, (label, _) in figure_of.KINDS.items():
            (line,) = (line for line in axes.get_lines() if line.get_label() == label)
            shown = [entry[kind][name]["value"] for entry in measured["dimensions"]]
            assert list(line.get_ydata()) == shown
            assert list(line.get_xdata()) == SMALL.dimensions
    many = {
        **measurement,
        "dimensions": [{**measured["dimensions"][0], "d_k": 2**power} for power in range(12)],
    }
    check_texts(figure_of.draw([many], FIGURES.scaling, FIGURES.style))
    absent = {**measurement, "status": "not run", "reason": "too large"}
    figure = figure_of.draw([absent], FIGURES.scaling, FIGURES.style)
    assert "too large" in texts(figure)[0].get_text()
