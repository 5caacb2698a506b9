"""SVD of attention heads, traces, and lags of pairs: identities, planted cases, the step."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.signal import correlate
from scipy.special import softmax

from posenc.artifacts.files import (
    ArtifactError,
    read_sealed,
    write_checksums,
    write_json,
)
from posenc.measurements.of_models import Job
from posenc.measurements.relative_attention import figure as figure
from posenc.measurements.relative_attention import measure as step
from posenc.measurements.relative_attention.declaration import RelativeAttention
from posenc.metrics import relative_attention as measures
from posenc.metrics.by_offset import profile_by_offset, score_by_offset
from posenc.metrics.geometry import pca_shares
from posenc.metrics.head_offsets import head_offsets
from posenc.metrics.norms import layer_norm
from posenc.models.files import CONFIG
from posenc.models.references import WEIGHTS
from posenc.models.section import Reading

from . import synthetic
from .damage import call
from .test_figures import check_texts

SECTIONS = synthetic.params_of().figures
PARAMETERS = RelativeAttention(offsets=3, rows=16, seed=0)
D, HEADS, LAYERS, VOCABULARY, POSITIONS = 12, 3, 2, 20, 24
SIZES = st.tuples(st.integers(2, 12), st.integers(1, 8), st.integers(0, 10_000))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def head(d: int, d_head: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(seed)
    return rng.normal(size=(d, d_head)), rng.normal(size=(d, d_head))


@settings(max_examples=40, deadline=None)
@given(SIZES)
def test_factors_agree_with_the_direct_decomposition(sizes):
    d, d_head, seed = sizes
    query, key = head(d, d_head, seed)
    factors, r = measures.head_factors(query, key), min(d, d_head)
    u, s, vt = np.linalg.svd(query @ key.T)
    np.testing.assert_allclose(factors.singular, s[:r], atol=1e-10 * s[0])
    product = (factors.query * factors.singular) @ factors.key.T
    np.testing.assert_allclose(product, query @ key.T, atol=1e-10 * s[0])
    for ours in (factors.query, factors.key):
        np.testing.assert_allclose(ours.T @ ours, np.eye(r), atol=1e-12)
    assert (factors.query[np.abs(factors.query).argmax(axis=0), range(r)] > 0).all()
    # Directions agree up to a sign where singular values differ.
    apart = (np.diff(s[:r], prepend=np.inf) < -0.05) & (np.diff(s[:r], append=-1.0) < -0.05)
    for ours, theirs in ((factors.query, u[:, :r]), (factors.key, vt[:r].T)):
        overlap = np.abs(np.sum(ours * theirs, axis=0))[apart]
        np.testing.assert_allclose(overlap, 1, atol=1e-9)


def test_several_heads_at_once_are_single_ones():
    query, key = head(30, 5, 1), head(30, 5, 2)
    both = measures.head_factors(np.stack(query), np.stack(key))
    for index in range(2):
        factors = measures.head_factors(query[index], key[index])
        np.testing.assert_allclose(both.singular[index], factors.singular, rtol=1e-13)
        np.testing.assert_allclose(both.key[index], factors.key, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(SIZES)
def test_biases_scores_and_traces(sizes):
    d, d_head, seed = sizes
    rng = generator(seed)
    query, key = head(d, d_head, seed)
    b_query, b_key = rng.normal(size=(2, d_head))
    x = rng.normal(size=(15, d))  # [tokens, d]
    queries, keys = x @ query + b_query, x @ key + b_key  # [tokens, d_head] each
    factors = measures.head_factors(
        measures.augmented(query, b_query), measures.augmented(key, b_key)
    )
    ones = np.hstack([x, np.ones((15, 1))])  # [tokens, d + 1]
    a, b = ones @ factors.query, ones @ factors.key  # [tokens, r] each
    scores = queries @ keys.T
    size = np.abs(scores).max()
    np.testing.assert_allclose((a * factors.singular) @ b.T, scores, atol=4e-13 * size)
    traces = measures.cross_correlations(a, b, 14) @ factors.singular
    # The diagonal of an offset, key minus query, by hand.
    expected = [sum(scores[i, i + t] for i in range(15) if 0 <= i + t < 15) for t in range(-14, 15)]
    np.testing.assert_allclose(traces, expected, atol=7e-13 * 15 * size)
    np.testing.assert_allclose(
        measures.trace_by_offset(queries, keys, 14), expected, atol=1e-12 * 15 * size
    )


def test_cross_correlation_is_scipys():
    a, b = generator(3).normal(size=(2, 20, 4))  # [tokens, r] each
    correlations = measures.cross_correlations(a, b, 6)
    for pair in range(4):
        # correlate(b, a)[t] = Σ b_(i+t) a_i.
        full = correlate(b[:, pair], a[:, pair], "full")[19 - 6 : 19 + 7]
        np.testing.assert_allclose(correlations[:, pair], full, atol=1e-13)


def test_the_offset_0_alone_is_the_main_diagonal():
    a, b = generator(4).normal(size=(2, 7, 3))
    assert measures.trace_by_offset(a, b, 0) == pytest.approx([np.sum(a * b)])
    np.testing.assert_allclose(measures.cross_correlations(a, b, 0), [np.sum(a * b, axis=0)])
    for offsets in (-1, 7):
        for call_ in (measures.trace_by_offset, measures.cross_correlations):
            with pytest.raises(ValueError, match=f"^offsets is {offsets}; 7 tokens have offsets"):
                call_(a, b, offsets)


@settings(max_examples=25, deadline=None)
@given(SIZES)
def test_what_leaves_the_product_leaves_all_that_is_reported(sizes):
    d, d_head, seed = sizes
    query, key = head(d, d_head, seed)
    x = generator(seed + 1).normal(size=(12, d))  # [tokens, d]
    mixing = generator(seed + 2).normal(size=(d_head, d_head)) + 4 * np.eye(d_head)
    others = [(query @ key.T, np.eye(d)), (query @ mixing, key @ np.linalg.inv(mixing).T)]
    plain, r = measures.head_factors(query, key), min(d, d_head)
    signals = [x @ plain.query, x @ plain.key]
    for changed in others:
        np.testing.assert_allclose(changed[0] @ changed[1].T, query @ key.T, atol=1e-11)
        factors = measures.head_factors(*changed)
        size = plain.singular[0]
        np.testing.assert_allclose(factors.singular[:r], plain.singular, atol=1e-11 * size)
        np.testing.assert_allclose(factors.singular[r:], 0, atol=1e-11 * size)
        # Correlations of identified pairs do not depend on the sign.
        ours = measures.cross_correlations(x @ factors.query, x @ factors.key, 3) @ factors.singular
        theirs = measures.cross_correlations(*signals, 3) @ plain.singular
        np.testing.assert_allclose(ours, theirs, atol=1e-9 * size)


def test_the_null_space_turns_freely_and_the_identified_part_does_not():
    query, key = head(40, 6, 5)
    x = generator(6).normal(size=(30, 40))
    demonstration = measures.null_rotation_demonstration(query, key, x, seed=0)
    assert demonstration.weights < 1e-14 * 10
    null = demonstration.null_spectra
    assert 0.2 < null["least"] < null["mean"] < null["most"]
    # Another processor's basis of the null space gives draws of the same distribution.
    other = measures.null_rotation_demonstration(query, key, x, seed=1).null_spectra
    assert other["mean"] == pytest.approx(null["mean"], abs=null["most"] - null["least"])
    assert demonstration.identified_spectra < 1e-14 and demonstration.singular_values < 1e-13
    assert demonstration == measures.null_rotation_demonstration(query, key, x, seed=0)
    assert demonstration != measures.null_rotation_demonstration(query, key, x, seed=1)
    with pytest.raises(ValueError, match="null space"):
        measures.null_rotation_demonstration(query[:7], key[:7], x[:, :7], seed=0)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.02, 0.45), st.floats(-1, 1), st.floats(0.1, 5), st.floats(0.1, 5),
    st.floats(0, 6), st.floats(-50, 50),
)  # fmt: skip
def test_the_shift_of_a_planted_sinusoid(frequency, part, alpha, beta, start, constant):
    lag = part * 0.45 / frequency  # within half a period
    i = np.arange(256)[:, None]  # [tokens, 1]
    a = alpha * np.cos(2 * np.pi * frequency * i + start) + constant
    b = beta * np.cos(2 * np.pi * frequency * (i - lag) + start) - constant
    spectra = measures.pair_spectra(a, b)
    assert spectra.frequency[0] == pytest.approx(frequency, abs=2e-4)
    assert spectra.lag[0] == pytest.approx(lag, abs=0.02 / frequency)
    assert spectra.phase[0] == pytest.approx(2 * np.pi * frequency * lag, abs=0.03)
    assert spectra.amplitude[0] == pytest.approx(alpha * beta / 2, rel=0.05)
    assert spectra.coherence[0] > 0.99 and spectra.share[0] > 0.9


def test_a_whole_lag_is_where_the_cross_correlation_peaks():
    rng = generator(8)
    wave = np.sin(2 * np.pi * np.arange(150) / 12.5)
    for lag in (-4, -1, 0, 2, 5):
        a, b = wave[10:138, None], wave[10 - lag : 138 - lag, None]  # b_i = a_(i - lag)
        noisy = [signal + 0.05 * rng.normal(size=signal.shape) for signal in (a, b)]
        correlation = measures.cross_correlations(*noisy, 6)[:, 0]
        assert np.argmax(correlation) - 6 == lag
        assert measures.pair_spectra(*noisy).lag[0] == pytest.approx(lag, abs=0.1)


def test_a_common_sign_changes_no_pair_and_unrelated_pairs_have_no_coherence():
    a, b = generator(9).normal(size=(2, 64, 200)).cumsum(axis=1)
    plain, turned = measures.pair_spectra(a, b), measures.pair_spectra(-a, -b)
    for name in ("frequency", "phase", "lag", "share", "coherence", "amplitude"):
        np.testing.assert_allclose(getattr(plain, name), getattr(turned, name), atol=1e-12)
    # Shuffled in time, the lags of unrelated signals are as often before as after.
    noise = measures.pair_spectra(*generator(10).normal(size=(2, 64, 400)))
    assert abs(np.mean(np.sign(noise.lag))) < 0.15
    assert noise.share.mean() < 0.35


def test_a_constant_signal_has_no_lag():
    a = np.full((32, 2), 0.1)
    spectra = measures.pair_spectra(a, np.cos(np.arange(32))[:, None] * [1, 0])
    for name in ("phase", "lag", "share", "coherence", "amplitude"):
        assert getattr(spectra, name).tolist() == [0, 0]


@pytest.mark.parametrize("causal", [True, False])
def test_scores_and_profiles_by_offset_agree_with_loops(causal):
    scores, k = generator(11).normal(size=(14, 14)), 3
    queries = range(k, 14 if causal else 14 - k)
    rows = {i: [scores[i, j] for j in range(i + 1 if causal else 14)] for i in queries}
    score, (mass, uniform) = (
        score_by_offset(scores, k, causal),
        profile_by_offset(scores, k, causal),
    )
    for t in range(-k, k + 1):
        if causal and t > 0:
            assert np.isnan(score[t + k]) and mass[t + k] == uniform[t + k] == 0
            continue
        expected = np.mean([scores[i, i + t] - np.mean(rows[i]) for i in queries])
        assert score[t + k] == pytest.approx(expected, abs=1e-12)
        expected = np.mean([softmax(rows[i])[i + t] for i in queries])
        assert mass[t + k] == pytest.approx(expected, abs=1e-12)
        assert uniform[t + k] == pytest.approx(np.mean([1 / len(rows[i]) for i in queries]))
    # Neither has what softmax does not see.
    shifted = scores + generator(12).normal(size=(14, 1))
    np.testing.assert_allclose(score_by_offset(shifted, k, causal), score, atol=1e-12)
    np.testing.assert_allclose(profile_by_offset(shifted, k, causal)[0], mass, atol=1e-12)


def test_what_a_planted_pair_adds_is_the_mean_score_at_its_lag():
    """Of waves with a period of 16, queries are 3 cos and keys 5 cos, 2 tokens later."""
    angle = 2 * np.pi * np.arange(64) / 16
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)  # [tokens, 2]
    query, key = np.zeros((2, 1, 2, 2))  # [n_heads, d, d_head] each
    query[0, :, 0] = [3, 0]
    key[0, :, 0] = 5 * np.array([np.cos(np.pi / 4), np.sin(np.pi / 4)])
    offsets = head_offsets(x, query, key, 6, causal=False)
    assert offsets.pairs.lag[0, 0] == pytest.approx(2, abs=1e-6)
    assert offsets.contribution[0] == pytest.approx([15 / 2 / np.sqrt(2), 0], abs=1e-6)
    scores = x @ query[0] @ (x @ key[0]).T / np.sqrt(2)
    mean = np.mean([scores[i, (i + 2) % 64] for i in range(64)])
    assert offsets.contribution[0, 0] == pytest.approx(mean, abs=1e-6)
    np.testing.assert_allclose(offsets.scores[0], scores, atol=1e-12)
    assert offsets.singular[0] == pytest.approx([15, 0], abs=1e-12)
    assert offsets.score_peak[0] in (2, -14) and max(offsets.residuals.values()) < 1e-14


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="shapes"):
        measures.head_factors(np.ones((4, 2)), np.ones((4, 3)))
    for bad in (np.nan, np.inf):
        for weights in ((np.full((4, 2), bad), np.ones((4, 2))), (np.eye(4), np.full((4, 4), bad))):
            with pytest.raises(ValueError, match=r"^a weight is not finite$"):
                measures.head_factors(*weights)
    with pytest.raises(ValueError, match="offsets"):
        measures.cross_correlations(np.ones((4, 2)), np.ones((4, 2)), 4)
    with pytest.raises(ValueError, match="too few"):
        score_by_offset(np.ones((6, 6)), 3, causal=False)
    with pytest.raises(ValueError, match="8 or more"):
        measures.pair_spectra(np.ones((7, 1)), np.ones((7, 1)))
    with pytest.raises(ValueError, match="variance"):
        pca_shares(np.ones((7, 3)))[:2].sum()


def test_leading_variance_of_planted_directions():
    x = generator(13).normal(size=(500, 6)) * [10, 5, 1, 0, 0, 0]
    assert pca_shares(x)[:6].sum() == pytest.approx(1)
    assert pca_shares(x)[:1].sum() == pytest.approx(100 / 126, abs=0.03)


def write_model(folder, family: str, prefix: str = "", spelling: str = "weight") -> dict:
    """A random model in the hub's format; returns its tensors."""
    rng, tensors = generator(20), {}
    norm = {"weight": 1 + 0.1 * rng.normal(size=D), "bias": 0.1 * rng.normal(size=D)}
    if family == "gpt2":
        tensors |= {"wte.weight": rng.normal(size=(VOCABULARY, D))}
        tensors |= {"wpe.weight": rng.normal(size=(POSITIONS, D))}
        for layer in range(LAYERS):
            tensors[f"h.{layer}.attn.c_attn.weight"] = rng.normal(size=(D, 3 * D))
            tensors[f"h.{layer}.attn.c_attn.bias"] = rng.normal(size=3 * D)
            tensors |= {f"h.{layer}.ln_1.{kind}": value for kind, value in norm.items()}
        config = {"n_layer": LAYERS, "n_head": HEADS, "layer_norm_epsilon": 1e-5}
    else:
        names = {"weight": "gamma", "bias": "beta"} if spelling == "gamma" else {}
        stem = "embeddings"
        tensors |= {f"{stem}.word_embeddings.weight": rng.normal(size=(VOCABULARY, D))}
        tensors |= {f"{stem}.position_embeddings.weight": rng.normal(size=(POSITIONS, D))}
        tensors |= {f"{stem}.token_type_embeddings.weight": rng.normal(size=(2, D))}
        tensors |= {f"{stem}.LayerNorm.{names.get(k, k)}": value for k, value in norm.items()}
        for layer in range(LAYERS):
            for kind in ("query", "key"):
                name = f"encoder.layer.{layer}.attention.self.{kind}"
                tensors[f"{name}.weight"] = rng.normal(size=(D, D))
                tensors[f"{name}.bias"] = rng.normal(size=D)
        config = {
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "layer_norm_eps": 1e-12,
        }
    tensors = {name: value.astype(np.float32) for name, value in tensors.items()}
    folder.mkdir(parents=True)
    save_file({prefix + name: value for name, value in tensors.items()}, folder / WEIGHTS)
    write_json(folder / CONFIG, config)
    write_checksums(folder / "checksums.json", CONFIG, WEIGHTS)
    return tensors


def job(family: str) -> Job[RelativeAttention]:
    return Job[RelativeAttention](
        parameters=PARAMETERS, reading=Reading(family=family, max_tokens=20)
    )


@pytest.mark.parametrize(
    ("family", "prefix", "spelling"),
    [
        ("gpt2", "", "weight"), ("gpt2", "transformer.", "weight"), ("bert", "bert.", "gamma"),
        ("bert", "", "weight"), ("roberta", "roberta.", "weight"),
    ],
)  # fmt: skip
def test_scores_of_the_step_are_those_of_the_models_formula(tmp_path, family, prefix, spelling):
    t = write_model(tmp_path / "m", family, prefix, spelling)
    measurement = step.measure(job(family), tmp_path / "m").as_json()
    assert measurement["rows"] == 16 and len(measurement["heads"]) == LAYERS * HEADS
    assert measurement["residuals"]["scores"] < 1e-12 and measurement["residuals"]["trace"] < 1e-12
    layer, index, k = 1, 2, PARAMETERS.offsets
    part = slice(index * D // HEADS, (index + 1) * D // HEADS)
    if family == "gpt2":
        x = t["wpe.weight"][:16] + t["wte.weight"].mean(axis=0)
        x = layer_norm(x, 1e-5) * t["h.1.ln_1.weight"] + t["h.1.ln_1.bias"]
        joint = x @ t["h.1.attn.c_attn.weight"] + t["h.1.attn.c_attn.bias"]
        q, key = joint[:, :D][:, part], joint[:, D : 2 * D][:, part]
    else:
        begin = 2 if family == "roberta" else 0
        x = t["embeddings.position_embeddings.weight"][begin : begin + 16]
        x = x + t["embeddings.word_embeddings.weight"].mean(axis=0)
        x = layer_norm(x + t["embeddings.token_type_embeddings.weight"][0], 1e-12)
        norm = [v for n, v in t.items() if "LayerNorm" in n]
        x = x * norm[0] + norm[1]
        self = "encoder.layer.1.attention.self"
        q, key = (
            (x @ t[f"{self}.{n}.weight"].T + t[f"{self}.{n}.bias"])[:, part]
            for n in ("query", "key")
        )
    expected = score_by_offset(q @ key.T / np.sqrt(D // HEADS), k, family == "gpt2")
    head = measurement["heads"][layer * HEADS + index]
    assert (head["layer"], head["head"]) == (layer, index)
    ours = np.array(head["score"], float)
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    assert head["predicted_lag"] == np.nanargmax(expected) - k
    assert len(head["pairs"]) == min(step.PAIRS, D // HEADS)
    contributions = [pair["contribution"] for pair in head["pairs"]]
    assert contributions == sorted(contributions, reverse=True)
    assert len(head["singular_values"]) == D // HEADS
    assert measurement == step.measure(job(family), tmp_path / "m").as_json()
    json.dumps(measurement, allow_nan=False)


def test_a_planted_previous_token_head_is_predicted(tmp_path):
    """Positions are sinusoids; W^K turns each by one token."""
    t = write_model(tmp_path / "m", "gpt2")
    angle = np.arange(POSITIONS)[:, None] * 2 * np.pi / np.array([3, 5, 7, 11, 13, 17])
    positions = np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(POSITIONS, D)
    t["wpe.weight"], t["wte.weight"] = positions, np.zeros((VOCABULARY, D))
    turn = np.zeros((D, D))
    for n, period in enumerate((3, 5, 7, 11, 13, 17)):
        c, s = np.cos(2 * np.pi / period), np.sin(2 * np.pi / period)
        # Row vectors: a key at p becomes that of p + 1, so the query p + 1 finds it at -1.
        turn[2 * n : 2 * n + 2, 2 * n : 2 * n + 2] = [[c, s], [-s, c]]
    for layer in range(LAYERS):
        t[f"h.{layer}.attn.c_attn.weight"] = np.hstack([np.eye(D), turn, np.eye(D)])
        t[f"h.{layer}.attn.c_attn.bias"] = np.zeros(3 * D)
    save_file({n: v.astype(np.float32) for n, v in t.items()}, tmp_path / "m" / WEIGHTS)
    measurement = step.measure(job("gpt2"), tmp_path / "m").as_json()
    assert [head["predicted_lag"] for head in measurement["heads"]] == [-1] * LAYERS * HEADS
    for head in measurement["heads"]:
        assert head["profile"]["peak"] == -1
        assert head["profile"]["preference"][PARAMETERS.offsets - 1] > 0


def test_the_command_writes_a_sealed_measurement_and_the_figure_shows_it(tmp_path):
    written = []
    for family in ("bert", "gpt2"):
        write_model(tmp_path / family, family)
        config, output = tmp_path / f"{family}.json", tmp_path / "out" / f"{family}.json"
        write_json(config, job(family).model_dump())
        options = {"config": config, "weights": tmp_path / family, "output": output}
        if family == "bert":
            done = call("posenc.measurements.relative_attention.measure", model=family, **options)
            assert done.returncode == 0, done.stderr
        else:
            step.main(model=family, **options)
        written.append(read_sealed(output))
    measurement = written[0]
    assert (measurement["measurement"], measurement["catalogue"], measurement["run"]) == (
        "relative_attention",
        ["C3"],
        {"model": "bert"},
    )
    assert (
        measurement["status"] == "measured"
        and measurement["reason"] is None
        and measurement["schema"] == 2
    )
    assert {"weights", "config"} == measurement["provenance"]["inputs"].keys()
    check_texts(figure.draw([*written, *written], SECTIONS.relative_attention, SECTIONS.style))
    drawing = figure.draw(written, SECTIONS.relative_attention, SECTIONS.style)
    check_texts(drawing)
    images = [axes.images[0] for axes in drawing.axes if axes.images]
    for image, measurement in zip(images, written, strict=True):
        values = [head["profile"]["preference"] for head in measurement["heads"]]
        np.testing.assert_array_equal(
            np.ma.filled(image.get_array(), np.nan), np.array(values, float)
        )
    shown = {tuple(p) for axes in drawing.axes for c in axes.collections for p in c.get_offsets()}
    pairs = [
        pair for measurement in written for head in measurement["heads"] for pair in head["pairs"]
    ]
    assert shown >= {(pair["frequency"], pair["lag"]) for pair in pairs}


def test_a_figure_without_a_model_says_so():
    drawing = figure.draw([], SECTIONS.relative_attention, SECTIONS.style)
    assert "not run" in drawing.axes[0].texts[0].get_text()


@pytest.mark.parametrize("causal", [True, False])
def test_heads_of_a_layer_agree_with_loops_over_queries_and_keys(causal):
    tokens, d, d_head, heads, k = 11, 6, 3, 2, 4
    rng = generator(5)
    x = rng.normal(size=(tokens, d))
    query, key = rng.normal(size=(2, heads, d, d_head))
    offsets = head_offsets(x, query, key, k, causal=causal)
    kept = range(-k, 1 if causal else k + 1)
    queries = [i for i in range(tokens) if all(0 <= i + t < tokens for t in kept)]
    for head in range(heads):
        score, mass, uniform = ({t: 0.0 for t in kept} for _ in range(3))
        for i in queries:
            seen = range(i + 1) if causal else range(tokens)
            scores = {j: x[i] @ query[head] @ key[head].T @ x[j] / np.sqrt(d_head) for j in seen}
            total = sum(np.exp(value) for value in scores.values())
            for t in kept:
                score[t] += (scores[i + t] - np.mean(list(scores.values()))) / len(queries)
                mass[t] += np.exp(scores[i + t]) / total / len(queries)
                uniform[t] += 1 / len(seen) / len(queries)
        part = slice(0, len(kept))
        np.testing.assert_allclose(offsets.score[head, part], list(score.values()), atol=1e-12)
        np.testing.assert_allclose(offsets.mass[head, part], list(mass.values()), atol=1e-12)
        np.testing.assert_allclose(offsets.uniform[part], list(uniform.values()), atol=1e-12)
        assert offsets.score_peak[head] == max(kept, key=score.__getitem__)
        assert offsets.mass_peak[head] == max(kept, key=lambda t: mass[t] - uniform[t])
        direct = np.linalg.svd(query[head] @ key[head].T, compute_uv=False)[:d_head]
        np.testing.assert_allclose(offsets.singular[head], direct, atol=1e-12)
    assert max(offsets.residuals.values()) < 1e-12


def test_weights_that_lack_a_tensor_or_positions_are_named(tmp_path):
    tensors = write_model(tmp_path / "m", "bert")
    few = job("bert").model_copy(
        update={"parameters": PARAMETERS.model_copy(update={"offsets": 9})}
    )
    with pytest.raises(ArtifactError, match=r"offsets in params\.yaml"):
        step.measure(few, tmp_path / "m")
    del tensors["encoder.layer.1.attention.self.key.bias"]
    save_file(tensors, tmp_path / "m" / WEIGHTS)
    with pytest.raises(ArtifactError, match=r"self\.key\.bias"):
        step.measure(job("bert"), tmp_path / "m")
    write_json(tmp_path / "m" / CONFIG, {"num_hidden_layers": 2})
    with pytest.raises(ArtifactError, match="num_attention_heads"):
        step.measure(job("bert"), tmp_path / "m")
