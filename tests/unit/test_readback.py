"""Token and position read back from their sum: the fast search finds what brute force finds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.linalg import subspace_angles
from scipy.stats import beta

from posenc.artifacts.files import (
    ArtifactError,
    read_sealed,
    write_checksums,
    write_json,
)
from posenc.measurements.readback import figure as figure
from posenc.measurements.readback import measure as step
from posenc.measurements.readback.declaration import Readback
from posenc.metrics import readback as module
from posenc.metrics.equal_sums import count_mistaken, failure_bound
from posenc.metrics.normalised_sums import NormalisedSums
from posenc.metrics.readback import Sums, nearest_rows, noise_curve
from posenc.metrics.subspaces import compare_angles, principal_directions
from posenc.models.section import Reading

from . import synthetic
from .test_figures import check_texts

SECTIONS = synthetic.params_of().figures
PARAMETERS = Readback(
    tokens=60, bounded=80, noise=[0.0, 0.5, 4.0], variance=0.9, confidence=0.9, seed=1
)


def brute_force(sums, x):
    """The squared distance to every sum, [n, vocabulary, positions]."""
    vocabulary, positions = len(sums.tokens), len(sums.positions)
    token, position = np.divmod(np.arange(vocabulary * positions), positions)
    every = sums.vectors(token, position)  # [vocabulary * positions, d]
    squared = np.array([np.square(vector - every).sum(axis=1) for vector in x])
    return squared.reshape(-1, vocabulary, positions)


def check(sums, x):
    """The nearest pair, the first of equals; and the distances to it and to the second."""
    decoded, every = sums.decode(x), brute_force(sums, x)
    flat = every.reshape(len(x), -1)
    # The first of equals, before the root makes neighbouring numbers equal.
    nearest = np.argmin(flat, axis=1)
    token, position = np.divmod(nearest, len(sums.positions))
    np.testing.assert_array_equal(decoded.token, token)
    np.testing.assert_array_equal(decoded.position, position)
    np.testing.assert_array_equal(decoded.distance, np.sqrt(flat.min(axis=1)))
    np.testing.assert_array_equal(decoded.runner_up, np.sqrt(np.partition(flat, 1, axis=1)[:, 1]))


@st.composite
def tables(draw, integers, largest=(40, 70)):
    """Two tables and queries; of small integers, many sums and distances are equal."""
    vocabulary, positions = (draw(st.integers(2 - k, most)) for k, most in enumerate(largest))
    d, scale = draw(st.integers(2, 5)), draw(st.sampled_from([1e-3, 1.0, 30.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    most = draw(st.integers(0, 3))  # at 0 all are the same
    return [
        rng.integers(-most, most + 1, (rows, d)).astype(float)
        if integers
        else scale * rng.normal(size=(rows, d)) + draw(st.sampled_from([0.0, 5.0]))
        for rows in (vocabulary, positions, 4)
    ]


@pytest.mark.parametrize("integers", [True, False])
def test_the_search_is_brute_force_whatever_the_tables(integers):
    @settings(max_examples=60, deadline=None)
    @given(tables(integers))
    def agree(drawn):
        tokens, positions, x = drawn
        check(Sums(tokens, positions), x)
        check(NormalisedSums(tokens, positions, 1e-5), x)

    agree()


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0, 30.0])
@pytest.mark.parametrize("eps", [None, 0.0, 1e-5, 1.0])
def test_the_search_is_brute_force_on_tables_like_those_of_models(noise, eps):
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(300, 24)).astype(np.float32) + 0.5
    walk = np.cumsum(rng.normal(size=(90, 24)), axis=0) / 5  # neighbours are alike
    sums = Sums(tokens, walk) if eps is None else NormalisedSums(tokens, walk, eps)
    x = sums.vectors(rng.integers(300, size=25), rng.integers(90, size=25))
    check(sums, x + noise * rng.normal(size=x.shape))


def test_rounding_does_not_hide_a_pair():
    # Tokens differ by a millionth of their size: products alone cannot tell them apart.
    rng = np.random.default_rng(1)
    tokens = 1e4 * rng.normal(size=16) + 1e-3 * rng.normal(size=(50, 16))
    positions = 1e4 * rng.normal(size=16) + 1e-3 * rng.normal(size=(40, 16))
    for sums in (Sums(tokens, positions), NormalisedSums(tokens, positions, 1e-5)):
        x = sums.vectors(np.arange(20), np.arange(20))
        check(sums, x)
        check(sums, x + 1e-4 * rng.normal(size=x.shape))


def test_sums_that_nearly_vanish_after_centring_are_found_as_well():
    rng = np.random.default_rng(2)
    tokens = rng.normal(size=(30, 8))
    positions = np.concatenate([-tokens[:5] + 3 + 1e-9 * rng.normal(size=(5, 8)), tokens[5:9]])
    sums = NormalisedSums(tokens, positions, 0.0)
    check(sums, sums.vectors(np.arange(5), np.arange(5)))


def test_blocks_of_any_size_find_the_same(monkeypatch):
    rng = np.random.default_rng(3)
    tokens, positions = rng.normal(size=(120, 6)), rng.normal(size=(50, 6))
    x = rng.normal(size=(30, 6))
    whole = Sums(tokens, positions).decode(x)
    monkeypatch.setattr(module, "_BOUNDS", 700)
    monkeypatch.setattr(module, "VALUES", 300)
    monkeypatch.setattr(module, "_GROUP", 7)
    parts = Sums(tokens, positions).decode(x)
    for name in ("token", "position", "distance", "runner_up"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


@pytest.mark.parametrize("eps", [None, 1e-5])
def test_few_tokens_are_looked_at(eps, monkeypatch):
    rng = np.random.default_rng(4)
    tokens, positions = rng.normal(size=(4000, 64)), 0.3 * rng.normal(size=(100, 64))
    sums = Sums(tokens, positions) if eps is None else NormalisedSums(tokens, positions, eps)
    looked: list[int] = []
    x = sums.vectors(rng.integers(4000, size=20), rng.integers(100, size=20))
    look = module._Search._look
    monkeypatch.setattr(
        module._Search, "_look", lambda s, q, t: (looked.append(len(t)), look(s, q, t))[1]
    )
    sums.decode(x + 0.1 * rng.normal(size=x.shape))
    assert sum(looked) < 0.02 * 20 * 4000


@settings(max_examples=60, deadline=None)
@given(tables(integers=True, largest=(12, 36)))
def test_all_pairs_are_read_back_if_and_only_if_all_sums_are_distinct(drawn):
    tokens, positions, _ = drawn
    sums = Sums(tokens, positions)
    token, position = np.divmod(np.arange(len(tokens) * len(positions)), len(positions))
    every = sums.vectors(token, position)
    decoded = sums.decode(every)
    right = (decoded.token == token) & (decoded.position == position)
    distinct = len(np.unique(every, axis=0)) == len(every)
    assert right.all() == distinct
    assert (decoded.runner_up.min() > 0) == distinct
    # Of equal sums the first pair is read: as many are right as there are different sums.
    assert right.sum() == len(np.unique(every, axis=0))


def test_equal_rows_are_read_as_the_first():
    rng = np.random.default_rng(5)
    tokens, positions = rng.normal(size=(20, 6)), rng.normal(size=(12, 6))
    tokens[13], positions[9] = tokens[4], positions[2]
    for sums in (Sums(tokens, positions), NormalisedSums(tokens, positions, 1e-5)):
        decoded = sums.decode(sums.vectors([13, 4], [9, 2]))
        assert decoded.token.tolist() == [4, 4] and decoded.position.tolist() == [2, 2]
        assert not decoded.runner_up.any()


@pytest.mark.parametrize(
    ("tokens", "positions", "message"),
    [
        (np.ones((3, 4)), np.ones((3, 5)), "shapes"),
        (np.ones(4), np.ones((3, 4)), "shapes"),
        (np.ones((1, 4)), np.ones((1, 4)), "two pairs"),
        (np.full((3, 4), np.nan), np.ones((3, 4)), "finite"),
    ],
)
def test_tables_that_make_no_sums_are_refused(tokens, positions, message):
    with pytest.raises(ValueError, match=message):
        Sums(tokens, positions)


def test_queries_that_do_not_fit_are_refused():
    sums = Sums(np.eye(4), np.eye(4))
    for x in (np.ones(4), np.ones((2, 5)), np.full((1, 4), np.inf)):
        with pytest.raises(ValueError, match="queries"):
            sums.decode(x)


@settings(max_examples=60, deadline=None)
@given(tables(integers=True, largest=(12, 36)))
def test_as_many_pairs_are_mistaken_as_the_search_mistakes(drawn):
    tokens, positions, _ = drawn
    sums = Sums(tokens, positions)
    token, position = np.divmod(np.arange(len(tokens) * len(positions)), len(positions))
    decoded = sums.decode(sums.vectors(token, position))
    right = (decoded.token == token) & (decoded.position == position)
    assert count_mistaken(tokens, positions) == np.count_nonzero(~right)


def test_planted_equal_sums_are_counted_among_many(monkeypatch):
    rng = np.random.default_rng(14)
    # Whole numbers, so that sums of different pairs are equal as float64.
    tokens = rng.integers(-(2**20), 2**20, size=(400, 12)).astype(np.float32)
    positions = rng.integers(-(2**20), 2**20, size=(90, 12)).astype(float)
    assert count_mistaken(tokens, positions) == 0
    tokens[7] = tokens[3] + positions[5] - positions[2]  # 7 at 2 is 3 at 5
    assert count_mistaken(tokens, positions) == 1
    tokens[20] = tokens[11]  # at all 90 positions
    assert count_mistaken(tokens, positions) == 91
    monkeypatch.setattr(module, "VALUES", 120)
    assert count_mistaken(tokens, positions) == 91


@pytest.mark.parametrize(("failures", "tries"), [(0, 1000), (3, 50), (50, 50)])
def test_the_bound_of_failures_is_where_so_few_become_unlikely(failures, tries):
    upper = failure_bound(failures, tries, 0.95)
    if failures == tries:
        assert upper == 1
        return
    # With that share, so few failures or fewer have probability 5 %.
    chances = [
        math.comb(tries, n) * upper**n * (1 - upper) ** (tries - n) for n in range(failures + 1)
    ]
    assert sum(chances) == pytest.approx(0.05, rel=1e-6)


def test_noise_takes_accuracy_from_one_to_chance():
    rng = np.random.default_rng(6)
    tokens, positions = rng.normal(size=(50, 32)), rng.normal(size=(20, 32))
    n = 1500
    token, position = rng.integers(50, size=n), rng.integers(20, size=n)
    draws = rng.normal(size=(n, 32))
    for sums in (Sums(tokens, positions), NormalisedSums(tokens, positions, 1e-5)):
        clean, noisy = noise_curve(sums, token, position, [0.0, 1e5], draws, 0.99)
        assert {share.value for share in clean.joint} == {1.0}
        # The sum nearest to the clean one is as far as brute force says.
        every = np.sort(brute_force(sums, sums.vectors(token[:40], position[:40])).reshape(40, -1))
        assert clean.margin.min() <= np.sqrt(every[:, 1].min())
        for name, chance in (("token", 1 / 50), ("position", 1 / 20), ("both", 1 / 1000)):
            for decoder in ("joint", "alone", "mean")[: 1 if name == "both" else 3]:
                estimate = getattr(getattr(noisy, decoder), name)
                assert estimate.low <= chance <= estimate.high


def test_the_decoders_of_one_table_are_misled_by_the_other():
    # Positions are long and share an offset that points to token 0.
    rng = np.random.default_rng(7)
    tokens = rng.normal(size=(40, 16))
    positions = 50 * tokens[0] + 0.01 * rng.normal(size=(30, 16))
    token, position = rng.integers(1, 40, size=200), rng.integers(30, size=200)
    (entry,) = noise_curve(
        Sums(tokens, positions), token, position, [0.0], np.zeros((200, 16)), 0.9
    )
    assert entry.joint.both.value == 1
    assert entry.alone.token.value < 0.3  # mostly the token that points farthest there
    assert entry.mean.token.value == 1


def test_nearest_rows_are_those_of_all_distances():
    rng = np.random.default_rng(8)
    x, table, offset = rng.normal(size=(30, 5)), rng.normal(size=(99, 5)), rng.normal(size=5)
    distance = np.linalg.norm(x[:, None] - table - offset, axis=2)  # [n, rows]
    np.testing.assert_array_equal(nearest_rows(x, table, offset), distance.argmin(axis=1))


def test_intervals_are_clopper_and_pearson_s():
    hits = np.arange(20) < 14
    proportion = module._proportion(hits, 0.9)
    assert proportion.value == 0.7
    assert proportion.low == pytest.approx(beta.ppf(0.05, 14, 7), rel=1e-9)
    assert proportion.high == pytest.approx(beta.ppf(0.95, 15, 6), rel=1e-9)


def test_principal_directions_are_those_of_the_covariance(monkeypatch):
    rng = np.random.default_rng(9)
    table = rng.normal(size=(500, 10)) @ np.diag(np.arange(1, 11.0)) + 40
    values, vectors = np.linalg.eigh(np.cov(table.T))
    for rows in (10**6, 200):
        monkeypatch.setattr(module, "VALUES", rows)
        directions, rank = principal_directions(table, 0.8)
        k = directions.shape[1]
        share = np.cumsum(values[::-1]) / values.sum()
        assert share[k - 2] < 0.8 <= share[k - 1] and rank == 10
        np.testing.assert_allclose(directions.T @ directions, np.eye(k), atol=1e-12)
        assert subspace_angles(directions, vectors[:, ::-1][:, :k]).max() < 1e-6


def test_rank_is_counted_with_the_mean():
    rng = np.random.default_rng(10)
    plane = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 7))
    assert principal_directions(plane, 0.9)[1] == 2
    assert principal_directions(plane + rng.normal(size=7), 0.9)[1] == 3
    for bad in (np.ones((5, 3)), plane[:1]):
        with pytest.raises(ValueError, match="share"):
            principal_directions(bad, 0.9)


def test_angles_of_planted_subspaces():
    basis = np.linalg.qr(np.random.default_rng(11).normal(size=(40, 40)))[0]
    turned = np.cos(0.3) * basis[:, [1]] + np.sin(0.3) * basis[:, [30]]
    x, y = basis[:, :5], np.concatenate([basis[:, [0]], turned, basis[:, [20]]], axis=1)
    angles = compare_angles(x, y, 50, 0)
    np.testing.assert_allclose(angles.angles, [0, 0.3, np.pi / 2], atol=1e-7)
    # The mean squared cosine of random subspaces is the larger dimension over d.
    assert np.mean(np.cos(angles.random) ** 2) == pytest.approx(5 / 40, abs=0.03)
    for first, again in zip(angles, compare_angles(x, y, 50, 0), strict=True):
        np.testing.assert_array_equal(first, again)
    # Spaces that must meet: angle 0.
    meeting = compare_angles(basis[:, :25], np.random.default_rng(12).normal(size=(40, 20)), 2, 0)
    np.testing.assert_allclose([meeting.angles[:5], meeting.random[:5]], 0, atol=1e-6)


def write_model(folder, family="gpt2", d=12):
    """A model's tables and configuration as they lie on disk."""
    rng = np.random.default_rng(13)
    folder.mkdir(parents=True)
    names = {
        "gpt2": ("transformer.wte.weight", "transformer.wpe.weight"),
        "bert": (
            "bert.embeddings.word_embeddings.weight",
            "bert.embeddings.position_embeddings.weight",
        ),
        "roberta": ("embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"),
    }[family]
    embeddings = {names[0]: rng.normal(size=(80, d)), names[1]: 0.3 * rng.normal(size=(32, d))}
    if family != "gpt2":
        name = names[0].replace("word", "token_type")
        embeddings[name] = 5 * rng.normal(size=(2, d))
    save_file(
        {k: v.astype(np.float32) for k, v in embeddings.items()}, folder / "model.safetensors"
    )
    write_json(folder / "config.json", {"layer_norm_eps": 1e-12, "layer_norm_epsilon": 1e-5})
    write_checksums(folder / "checksums.json", "config.json", "model.safetensors")
    return embeddings


def call(tmp_path, family="gpt2", name="toy"):
    """Run the step, and read what it wrote."""
    reading = Reading(family=family, max_tokens=16).model_dump()
    config = tmp_path / f"{name}.job.json"
    config.write_text(json.dumps({"parameters": PARAMETERS.model_dump(), "reading": reading}))
    step.main(model=name, config=config, weights=tmp_path / name, output=tmp_path / f"{name}.json")
    return read_sealed(tmp_path / f"{name}.json")


@pytest.mark.parametrize(("family", "positions"), [("gpt2", 32), ("bert", 32), ("roberta", 30)])
def test_the_step_measures_a_model(tmp_path, family, positions):
    write_model(tmp_path / "toy", family)
    measurement = call(tmp_path, family)
    assert measurement["run"] == {"model": "toy"} and measurement["catalogue"] == ["B2"]
    assert (measurement["status"], measurement["measurement"]) == ("measured", "readback")
    assert measurement["positions"] == positions and measurement["pairs_searched"] == 80 * positions
    for stage in ("before", "after"):
        assert [entry["noise"] for entry in measurement[stage]] == PARAMETERS.noise
        first, *_, last = measurement[stage]
        assert first["joint"]["both"]["value"] == 1 and first["margin"]["least"] > 0
        assert last["joint"]["both"]["value"] < 0.5
        for entry in measurement[stage]:
            both = entry["joint"]["both"]["value"]
            assert both <= min(entry["joint"][name]["value"] for name in ("token", "position"))
    assert measurement["mistaken"] == 0
    bounds = measurement["bounds"]
    assert (bounds["noise"], bounds["pairs"]) == (0.5, 80)
    for stage in ("before", "after"):
        (middle,) = [entry for entry in measurement[stage] if entry["noise"] == 0.5]
        share = bounds[stage]["failures"] / 80
        assert share < bounds[stage]["upper"] == failure_bound(bounds[stage]["failures"], 80, 0.9)
        # Other pairs of the same tables: at most five standard deviations apart.
        assert share == pytest.approx(1 - middle["joint"]["both"]["value"], abs=5 * 0.09)
    assert measurement["subspaces"]["full_span_angle"] == 0
    again = call(tmp_path, family)
    assert again == measurement


def test_a_constant_token_type_is_part_of_what_is_normalised(tmp_path):
    embeddings = write_model(tmp_path / "toy", "bert")
    result = call(tmp_path, "bert")
    words, places, types = (
        embeddings[name].astype(np.float32).astype(float) for name in embeddings
    )
    rng = np.random.default_rng(PARAMETERS.seed)
    token, position = rng.integers(80, size=60), rng.integers(32, size=60)
    clean = words[token] + places[position] + types[0]
    clean = (clean - clean.mean(1, keepdims=True)) / clean.std(1, keepdims=True)
    every = (words[:, None] + places + types[0]).reshape(-1, words.shape[1])
    every = (every - every.mean(1, keepdims=True)) / every.std(1, keepdims=True)
    distance = np.sort(np.linalg.norm(clean[:, None] - every, axis=2), axis=1)
    least = result["after"][0]["margin"]["least"]
    assert least == pytest.approx((distance[:, 1] - distance[:, 0]).min(), rel=1e-6)


def test_weights_without_tables_are_refused(tmp_path):
    (tmp_path / "toy").mkdir()
    save_file({"other": np.ones(3, np.float32)}, tmp_path / "toy/model.safetensors")
    write_json(tmp_path / "toy/config.json", {})
    write_checksums(tmp_path / "toy/checksums.json", "config.json", "model.safetensors")
    with pytest.raises(ArtifactError, match="tables of embeddings"):
        call(tmp_path)


def test_the_figure_shows_the_shares_and_the_angles(tmp_path):
    measured = []
    for name, family in (("one", "gpt2"), ("two", "bert"), ("three", "roberta"), ("four", "gpt2")):
        write_model(tmp_path / name, family)
        measured.append(call(tmp_path, family, name))
    absent = {**measured[0], "status": "not run", "reason": "the weights are absent"}
    for shown in (measured[:1], measured[:2], measured, [absent], [measured[0], absent]):
        drawn = figure.draw(shown, SECTIONS.readback, SECTIONS.style)
        check_texts(drawn)
        if shown == [absent]:
            continue
        for axes, stage in zip(drawn.axes, ("before", "after"), strict=False):
            curves = [list(line.get_ydata()) for line in axes.get_lines()]
            for name in ("token", "position", "both"):
                assert [entry["joint"][name]["value"] for entry in shown[0][stage]] in curves
            assert len(curves) == {"before": 5, "after": 3}[stage]
        angles = [list(line.get_ydata()) for line in drawn.axes[-1].get_lines()]
        expected = np.rad2deg(shown[0]["subspaces"]["angles"])
        assert any(len(a) == len(expected) and np.allclose(a, expected) for a in angles)
