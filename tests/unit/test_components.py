"""Components of hidden states: planted sources, exact canonical correlations, stores by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, optimize, stats
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import ConvergenceWarning

from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.files import ArtifactError
from posenc.config.labels import display
from posenc.measurements.components import figure as figure_module
from posenc.measurements.components import measure as step
from posenc.measurements.components.declaration import Components
from posenc.metrics import components as maths
from posenc.metrics import independent
from posenc.metrics.moments import correlation_of_moments

from . import synthetic
from .runs import result_of
from .test_figures import check_texts
from .test_spectra import D_MODEL, LAYERS, named, write_store

QUICK = settings(deadline=None, max_examples=30)
PARAMETERS = Components(
    tokens=400, components=4, harmonics=2, bootstrap_samples=100, confidence=0.9, seed=2
)
SECTIONS = synthetic.params_of().figures
LENGTHS = [[30, 28, 33, 25, 30], [31, 24, 35, 36, 38, 30, 22]]
seeds = st.integers(0, 2**32 - 1)


def correlated(seed: int, n: int = 300, p: int = 4, q: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of columns that share a part, mixed and far from the origin."""
    x, y, rng = unmixed(seed, n, p, q)
    return x @ rng.normal(size=(p, p)) + 7, y @ rng.normal(size=(q, q)) - 3


def unmixed(
    seed: int, n: int = 300, p: int = 4, q: int = 3
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """The columns before they are mixed, and what draws the mixture."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, p)), rng.normal(size=(n, q))  # [n, p], [n, q]
    y[:, :2] += x[:, :2] * rng.uniform(0.5, 2, 2)
    return x, y, rng


@QUICK
@given(seeds, st.integers(1, 5))
def test_principal_components_agree_with_scikit_learn(seed, k):
    x = np.random.default_rng(seed).normal(size=(40, 6)) @ np.diag([9, 5, 3, 2, 1, 0.5]) + 4
    components, expected = maths.principal_components(x, k), PCA(k).fit(x)
    np.testing.assert_allclose(components.variance, expected.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(
        np.abs(components.directions), np.abs(expected.components_), atol=1e-7
    )
    np.testing.assert_allclose(components.scores, (x - x.mean(axis=0)) @ components.directions.T)
    cross = components.scores.T @ components.scores
    np.testing.assert_allclose(cross, np.diag(np.diag(cross)), atol=1e-8 * cross.max())


def test_planted_sources_are_recovered():
    rng = np.random.default_rng(0)
    n = 4000
    sources = np.stack(
        [rng.uniform(-1, 1, n), rng.laplace(size=n), np.sign(rng.normal(size=n)),
         np.sin(np.arange(n) / 7)], axis=1,
    )  # fmt: skip
    mixing = rng.normal(size=(4, 4))
    mixed = sources @ mixing.T + 5
    components = independent.independent_components(mixed, seed=0)
    assert components.converged
    assert independent.amari_index(components.unmixing, mixing) < 0.03
    # Whitening alone leaves a rotation, and does not recover them.
    whitened = linalg.inv(linalg.sqrtm(np.cov(mixed.T)))
    assert independent.amari_index(whitened, mixing) > 0.15
    np.testing.assert_allclose(
        components.sources, (mixed - mixed.mean(axis=0)) @ components.unmixing.T, atol=1e-8
    )
    np.testing.assert_allclose(np.cov(components.sources.T, bias=True), np.eye(4), atol=1e-8)


def test_components_are_the_planted_sources_up_to_sign_and_order():
    rng = np.random.default_rng(2)
    sources = np.stack(
        [rng.uniform(-1, 1, 5000), rng.laplace(size=5000), np.sign(rng.normal(size=5000))], axis=1
    )
    mixed = sources @ rng.normal(size=(3, 3)).T
    components = independent.independent_components(mixed, seed=1)
    assert components.converged
    alike = np.abs(np.corrcoef(sources.T, components.sources.T)[:3, 3:])  # [sources, components]
    # Every source is one component, and no two the same.
    assert sorted(alike.argmax(axis=1)) == [0, 1, 2]
    assert alike.max(axis=1).min() > 0.995


def test_starts_lie_apart_where_components_are_undetermined_and_together_where_not():
    """Where rounding chooses what a start finds, the mean over starts stays in their interval."""
    rng = np.random.default_rng(7)
    planted = np.stack([rng.uniform(-1, 1, 3000), rng.laplace(size=3000)], axis=1)  # [n, 2]

    def largest(signals: np.ndarray) -> list[float]:
        """How near the best component of each start is to the first source."""
        starts = independent.several_starts(signals, seed=0)
        assert len(starts) == independent.STARTS
        return [max(abs(np.corrcoef(start.sources.T, planted[:, 0])[-1, :-1])) for start in starts]

    determined = largest(planted @ rng.normal(size=(2, 2)))
    assert max(determined) - min(determined) < 1e-4 and min(determined) > 0.99
    moved = 0
    for seed in range(6):
        signals = rng.normal(size=(3000, 6)) + 0.2 * planted[:, :1]  # [n, 6]: little to find
        free = largest(signals)
        assert max(free) - min(free) > 0.01
        again = largest(signals + 1e-13 * rng.normal(size=signals.shape))
        moved += abs(again[0] - free[0]) > 1e-4
        assert min(free) <= np.mean(again) <= max(free), seed
    assert moved, "rounding has to decide somewhere"


def test_components_of_a_table_of_lower_rank_are_the_sources_of_its_rank():
    rng = np.random.default_rng(3)
    sources = np.stack([rng.uniform(-1, 1, 4000), rng.laplace(size=4000)], axis=1)
    # Five signals of two sources.
    mixed = sources @ rng.normal(size=(2, 5)) + 100
    components = independent.independent_components(mixed, seed=0)
    assert (components.rank, components.converged) == (2, True)
    assert components.sources.shape == (4000, 2) and components.unmixing.shape == (2, 5)
    np.testing.assert_allclose(
        components.sources, (mixed - mixed.mean(axis=0)) @ components.unmixing.T, atol=1e-8
    )
    np.testing.assert_allclose(np.cov(components.sources.T, bias=True), np.eye(2), atol=1e-8)
    alike = np.abs(np.corrcoef(sources.T, components.sources.T)[:2, 2:])  # [sources, components]
    assert alike.max(axis=1).min() > 0.99
    # Halves are not compared if one has fewer components than signals.
    whole = independent.independent_components(rng.laplace(size=(900, 5)), seed=0)
    assert step.between_halves(whole, whole) == pytest.approx(0, abs=1e-9)
    assert step.between_halves(whole, components) is step.between_halves(components, whole) is None


def test_iterations_that_do_not_end_are_told():
    mixed = np.random.default_rng(0).normal(size=(500, 5))  # Gaussian: nothing to find
    components = independent.independent_components(mixed, seed=0, most=2, tolerance=1e-12)
    assert not components.converged and components.iterations <= 2


def test_components_that_fast_ica_turns_for_ever_are_found():
    mixed = np.random.default_rng(4).normal(size=(300, 10))  # Gaussian: they are alike
    whitened, _ = independent._whitened(mixed)  # [n, k]
    for seed in range(4):
        with pytest.warns(ConvergenceWarning):
            FastICA(whiten=False, random_state=seed, max_iter=500, tol=1e-6).fit(whitened)
        assert independent.independent_components(mixed, seed=seed).converged, seed


def test_components_are_those_of_fast_ica_where_it_ends():
    rng = np.random.default_rng(5)
    sources = np.stack(
        [rng.uniform(-1, 1, 6000), rng.laplace(size=6000), rng.exponential(size=6000)], axis=1
    )
    whitened, _ = independent._whitened(sources @ rng.normal(size=(3, 3)).T)
    expected = FastICA(whiten=False, random_state=0, max_iter=500, tol=1e-10).fit(whitened)
    components = independent.independent_components(whitened, seed=3, tolerance=1e-9)
    turned = components.unmixing @ np.linalg.inv(expected.components_)
    assert independent.amari_index(components.unmixing, np.linalg.inv(expected.components_)) < 1e-3
    assert np.abs(turned).max(axis=1).min() > 0.999


@QUICK
@given(seeds, st.integers(2, 6))
def test_amari_index_knows_neither_order_nor_scale(seed, k):
    rng = np.random.default_rng(seed)
    mixing, other = rng.normal(size=(2, k, k))
    unmixing = linalg.inv(mixing)
    scale = rng.uniform(0.1, 9, k)[:, None] * rng.choice([-1, 1], k)[:, None]
    assert independent.amari_index(rng.permutation(scale * unmixing), mixing) < 1e-6
    index = independent.amari_index(other, mixing)
    assert 0 < index <= 1
    assert independent.amari_index(rng.permutation(scale * other), mixing) != pytest.approx(
        0, abs=1e-9
    )
    product = np.abs(other @ mixing)
    rows = sum(sum(row) / max(row) - 1 for row in product.tolist())
    columns = sum(sum(column) / max(column) - 1 for column in product.T.tolist())
    assert index == pytest.approx((rows + columns) / (2 * k * (k - 1)))
    assert independent.amari_index(np.ones((k, k)), np.ones((k, k))) == pytest.approx(1)


def test_chance_of_the_amari_index_is_that_of_rotations():
    rng = np.random.default_rng(5)
    drawn = [
        independent.amari_index(np.linalg.qr(rng.normal(size=(6, 6)))[0], np.eye(6))
        for _ in range(300)
    ]
    assert independent.amari_chance(6, 300, 0) == pytest.approx(np.mean(drawn), abs=0.01)


def test_variance_between_positions_is_found_and_is_0_by_chance():
    rng = np.random.default_rng(0)
    position = rng.integers(0, 40, 4000)  # [n]
    moved = rng.normal(size=40)[position]  # [n]
    noise = rng.normal(size=4000) * moved.std()  # [n]
    values = np.stack([moved, moved + noise, noise, np.full(4000, 0.1)], axis=1)
    shares = maths.variance_between(values, position)
    np.testing.assert_allclose(shares, [1, 0.5, 0, 0], atol=0.03)
    groups = [values[position == place, 1] for place in range(40)]
    f = stats.f_oneway(*groups).statistic
    # epsilon squared from the F statistic of the analysis of variance
    expected = 39 * (f - 1) / (39 * f + 4000 - 40)
    assert shares[1] == pytest.approx(expected)
    # Few tokens a position: the uncorrected share would be a third.
    few = rng.normal(size=(60, 500))  # [n, columns]
    chance = maths.variance_between(few, np.arange(60) % 20)
    assert chance.mean() == pytest.approx(0, abs=0.02)


@QUICK
@given(seeds)
def test_canonical_correlations_agree_with_the_eigenvalues(seed):
    x, y = correlated(seed)
    canonical = maths.canonical_correlations(x, y)
    # No mixture changes them; that of seed 2933 is so nearly singular that the eigenvalues of its
    # covariance are off by 3e-7.
    own, other, _ = unmixed(seed)
    full = np.cov(own.T, other.T)  # [7, 7]
    xx, yy, xy = full[:4, :4], full[4:, 4:], full[:4, 4:]
    squares = linalg.eigvals(linalg.solve(yy, xy.T) @ linalg.solve(xx, xy)).real
    np.testing.assert_allclose(canonical.correlations, np.sqrt(np.sort(squares)[::-1]), atol=1e-8)
    u = (x - canonical.x_mean) @ canonical.x_directions  # [n, 3]
    v = (y - canonical.y_mean) @ canonical.y_directions  # [n, 3]
    np.testing.assert_allclose(u.T @ u / 300, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(v.T @ v / 300, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(u.T @ v / 300, np.diag(canonical.correlations), atol=1e-9)


def test_canonical_correlations_agree_with_scikit_learn_and_a_search():
    x, y = correlated(1)
    canonical = maths.canonical_correlations(x, y)
    a, b = CCA(3, tol=1e-12, max_iter=5000).fit_transform(x, y)
    expected = [np.corrcoef(a[:, k], b[:, k])[0, 1] for k in range(3)]
    np.testing.assert_allclose(canonical.correlations, expected, atol=1e-5)
    search = optimize.minimize(
        lambda w: -np.corrcoef(x @ w[:4], y @ w[4:])[0, 1], np.ones(7), tol=1e-12
    )
    assert -search.fun == pytest.approx(canonical.correlations[0], abs=1e-6)


def test_held_out_correlations_are_those_of_new_documents():
    x, y = correlated(2, n=3000)
    document = np.arange(3000) // 50
    moments = maths.held_out_moments(x, y, document, folds=5, seed=0)
    assert moments.shape == (60, 6, 3)
    np.testing.assert_array_equal(moments[:, 0], 50)
    correlations = correlation_of_moments(moments.sum(axis=0))
    within = maths.canonical_correlations(x, y).correlations
    np.testing.assert_allclose(correlations[:2], within[:2], atol=0.01)
    # By hand, fold after fold.
    dealt = np.random.default_rng(0).permutation(np.arange(60) % 5)[document]
    u, v = np.empty((3000, 3)), np.empty((3000, 3))
    for fold in range(5):
        out = dealt == fold
        fitted = maths.canonical_correlations(x[~out], y[~out])
        u[out] = (x[out] - fitted.x_mean) @ fitted.x_directions
        v[out] = (y[out] - fitted.y_mean) @ fitted.y_directions
    expected = [np.corrcoef(u[:, k], v[:, k])[0, 1] for k in range(3)]
    np.testing.assert_allclose(correlations, expected, atol=1e-10)


def test_unrelated_columns_are_at_chance_where_they_are_held_out():
    rng = np.random.default_rng(3)
    within, out = [], []
    for _ in range(30):
        x, y = rng.normal(size=(400, 12)), rng.normal(size=(400, 8))
        within.append(maths.canonical_correlations(x, y).correlations[0])
        moments = maths.held_out_moments(x, y, np.arange(400) // 10, folds=5, seed=0)
        out.append(correlation_of_moments(moments.sum(axis=0))[0])
    assert np.mean(within) > 0.25
    assert abs(np.mean(out)) < 0.05


def test_the_basis_has_the_periods_that_are_stated():
    basis = maths.fourier_basis(np.arange(120), 60, 3)
    assert basis.shape == (120, 6)
    np.testing.assert_allclose(basis[0], [1, 1, 1, 0, 0, 0], atol=1e-12)
    for k in range(1, 4):
        period = 2 * 60 // k
        t = np.arange(120 - period)
        for column in (k - 1, 3 + k - 1):
            np.testing.assert_allclose(basis[t + period, column], basis[t, column], atol=1e-9)
        assert np.argmax(np.abs(np.fft.rfft(basis[:, k - 1]))) == k


def test_bad_input_is_refused():
    x = np.random.default_rng(0).normal(size=(30, 4))
    flat = x.copy()
    flat[:, 3] = flat[:, 0] + flat[:, 1]
    for call, match in (
        (lambda: maths.principal_components(x, 5), "no 5 principal"),
        (lambda: maths.principal_components(flat, 4), "fewer than 4 directions"),
        (lambda: maths.principal_components(x * np.nan, 2), "finite"),
        (lambda: independent.independent_components(np.full((9, 2), 0.1), seed=0), "constant"),
        (lambda: independent.independent_components(x * np.nan, seed=0), "finite"),
        (lambda: independent.amari_index(np.eye(2), np.eye(3)), "shapes"),
        (lambda: independent.amari_index(np.zeros((2, 2)), np.eye(2)), "zeros"),
        (lambda: maths.variance_between(x, np.arange(30)), "none has a second"),
        (lambda: maths.variance_between(x, np.arange(3)), "shapes"),
        (lambda: maths.fourier_basis(np.arange(3), 0, 1), "length"),
        (lambda: maths.canonical_correlations(x, x[:9]), "n > p"),
        (lambda: maths.canonical_correlations(flat, x), "dependent"),
        (lambda: maths.held_out_moments(x, x[:, :2], np.zeros(30), folds=2, seed=0), "dealt"),
    ):
        with pytest.raises(ValueError, match=match):
            call()


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> ActivationStore:
    return write_store(tmp_path_factory.mktemp("store") / "intact", LENGTHS, wave=4.0)


def test_a_sample_holds_each_token_at_its_place(store):
    seed = np.random.SeedSequence(0)
    every = step.drawn(store, 10**6, seed)
    flat = [length for of_shard in LENGTHS for length in of_shard]
    expected = [(d, p) for d, length in enumerate(flat) for p in range(1, length - 1)]
    assert list(zip(every.document, every.position, strict=True)) == expected
    sample = step.drawn(store, 100, seed)
    pairs = list(zip(sample.document, sample.position, strict=True))
    assert len(set(pairs)) == 100
    assert set(pairs) < set(expected)
    assert {document for document, _ in pairs} == set(range(12))
    # A token's hidden states are those of its row.
    x = step.gathered(store, 1, sample)  # [n, d_model]
    starts = np.concatenate([np.cumsum(of_shard) - of_shard for of_shard in LENGTHS])
    for row, (document, position) in zip(x, pairs, strict=True):
        states = store.hidden_states(int(document >= 5))[1]
        np.testing.assert_array_equal(row, states[starts[document] + position])


def test_position_0_is_left_out_where_it_is_no_special_token(store, monkeypatch):
    read = ActivationStore.special_mask
    monkeypatch.setattr(ActivationStore, "special_mask", lambda *of: np.zeros_like(read(*of)))
    sample = step.drawn(store, 10**6, np.random.SeedSequence(0))
    assert len(sample.position) == sum(sum(of_shard) - len(of_shard) for of_shard in LENGTHS)
    assert sample.position.min() == 1


def test_the_step_finds_a_planted_wave_and_nothing_in_shuffled_positions(store):
    result = result_of(step, PARAMETERS, store)
    json.dumps(result, allow_nan=False)
    assert result == result_of(step, PARAMETERS, store)
    assert (result["status"], result["catalogue"]) == ("measured", ["C4"])
    assert (result["documents"], result["tokens"]) == (12, 338)
    assert result["periods"] == [76.0, 38.0]
    assert len(result["layers"]) == LAYERS + 1
    # Over starts, of the layer where halves are furthest apart.
    apart = np.max(
        [layer["independent"]["amari_between_halves"] for layer in result["layers"]], axis=0
    )  # [starts]
    assert result["amari_between_halves"] == {
        "mean": apart.mean(),
        "least": apart.min(),
        "most": apart.max(),
    }
    for layer in result["layers"]:
        principal, turned = layer["principal"], layer["independent"]
        # cos of amplitude 4 in all dimensions against noise of variance 1 in each
        signal = D_MODEL * 4**2 / 2
        share = (signal + 1) / (signal + D_MODEL)
        assert principal["variance_share"][0] == pytest.approx(share, abs=0.03)
        np.testing.assert_allclose(
            principal["cumulative_share"], np.cumsum(principal["variance_share"])
        )
        assert principal["position_share"][0] > 0.95
        assert turned["position_share"] == sorted(turned["position_share"])[::-1]
        # Both are the same whitened tokens, turned: what is between positions is the same in all.
        assert sum(turned["position_share"]) == pytest.approx(
            sum(principal["position_share"]), abs=1e-3
        )
        for kind in (principal, turned):
            assert np.abs(kind["position_share_shuffled"]).max() < 0.25
        assert isinstance(turned["converged"], bool)
        assert turned["rank"] == 4
        halves = turned["amari_between_halves"]
        assert len(halves) == independent.STARTS and 0 <= min(halves) <= max(halves) <= 1
        share = turned["largest_share"]
        assert share["mean"] == pytest.approx(turned["position_share"][0])
        assert share["least"] <= share["mean"] <= share["most"]
        canonical = layer["canonical"]
        assert len(canonical["in_sample"]) == len(canonical["held_out"]) == 4
        assert abs(canonical["shuffled"][0]["value"]) < 0.1
        for estimate in canonical["held_out"]:
            assert -1 <= estimate["low"] <= estimate["high"] <= 1


def test_a_slow_wave_is_the_first_canonical_pair(tmp_path, monkeypatch):
    """The planted wave has the period 4; a basis whose first period is 4 holds it."""
    store = write_store(tmp_path / "intact", LENGTHS, wave=4.0)
    monkeypatch.setattr(
        step, "fourier_basis", lambda positions, length, k: maths.fourier_basis(positions, 2, 1)
    )
    result = result_of(step, PARAMETERS, store)
    for layer in result["layers"]:
        estimate = layer["canonical"]["held_out"][0]
        assert 0.9 < estimate["low"] <= estimate["value"] <= estimate["high"] <= 1


def test_what_cannot_be_computed_names_the_way_out(tmp_path, store):
    with pytest.raises(ArtifactError, match=r"layer 0: .*; lower components"):
        result_of(step, PARAMETERS.model_copy(update={"components": 9}), store)
    few = write_store(tmp_path / "few", [[30, 30, 30]])
    with pytest.raises(ArtifactError, match=r"3 documents .* raise evaluation.documents"):
        result_of(step, PARAMETERS, few)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root, runs = tmp_path_factory.mktemp("study"), []
    for model, is_decoder in (("minilm", False), ("decoder", True)):
        for dataset in ("sample_reviews", "sample_questions"):
            for condition, wave in (("intact", 2.0), ("zero", 0.0)):
                folder = root / model / dataset / condition
                options = {"dataset": dataset, "model": model, "is_decoder": is_decoder}
                activations = write_store(folder, LENGTHS, condition, wave=wave, **options)
                runs.append(result_of(step, PARAMETERS, activations))
    return runs


@pytest.mark.parametrize("models", [1, 2, 4])
def test_the_figure_can_be_read(study, models):
    runs = {
        1: named(study, {"decoder": "decoder"}),
        2: study,
        4: study + named(study, {"decoder": "decoder_imdb_1", "minilm": "decoder_imdb_2"}),
    }[models]
    check_texts(figure_module.draw(runs, SECTIONS.components, SECTIONS.style))
    nothing = [{**run, "status": "not run", "reason": "nothing"} for run in study]
    check_texts(figure_module.draw(nothing, SECTIONS.components, SECTIONS.style))


def test_the_figure_shows_the_measured_numbers(study):
    figure = figure_module.draw(study, SECTIONS.components, SECTIONS.style)
    variance, correlation, principal, independent = figure.axes[:4]
    intact, zero = study[:2]
    lines = {line.get_label(): list(line.get_ydata()) for line in correlation.get_lines()}
    for run, label in ((intact, display("intact")), (zero, display("zero"))):
        values = [layer["canonical"]["held_out"][0]["value"] for layer in run["layers"]]
        assert lines[f"correlation, {label}"] == values
    lines = {line.get_label(): list(line.get_ydata()) for line in variance.get_lines()}
    first = [layer["principal"]["cumulative_share"][0] for layer in intact["layers"]]
    assert lines["1 principal component"] == first
    for axes, kind in ((principal, "principal"), (independent, "independent")):
        shown = axes.collections[0].get_array().reshape(4, LAYERS + 1)
        expected = [layer[kind]["position_share"] for layer in intact["layers"]]
        np.testing.assert_array_equal(shown.T, expected)
