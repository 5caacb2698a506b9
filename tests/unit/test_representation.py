"""Similarity of hidden states beyond the raw cosine, against invariances and slow references."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import distance
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import StandardScaler

from posenc.metrics import representation, similarity


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def related(rng, tokens: int, d: int, noise: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states with a common part, a large mean and one dimension of large variance."""
    x = rng.normal(size=(tokens, d))  # [tokens, d]
    y = x + noise * rng.normal(size=(tokens, d))  # [tokens, d]
    scale, shift = np.ones(d), rng.normal(0, 5, d)  # [d] each
    scale[0] = 30
    return x * scale + shift, y * scale - 2 * shift


def rotation(rng, d: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(d, d)))[0]  # [d, d]


@pytest.fixture(params=[7, 4096], ids=["small blocks", "blocks"])
def blocks(request, monkeypatch):
    monkeypatch.setattr(representation, "_BLOCK_TOKENS", request.param)


@pytest.mark.usefixtures("blocks")
def test_cosines_agree_with_scikit_learn():
    x, y = related(generator(0), 60, 9)
    for ours, with_std in (
        (representation.centred_cosines, False),
        (representation.standardised_cosines, True),
    ):
        a = StandardScaler(with_std=with_std).fit_transform(x)  # [tokens, d]
        b = StandardScaler(with_std=with_std).fit_transform(y)  # [tokens, d]
        np.testing.assert_allclose(ours(x, y), np.diag(cosine_similarity(a, b)), atol=1e-12)


def test_centred_cosines_know_neither_shift_nor_scale():
    x, y = related(generator(1), 50, 8)
    plain = representation.centred_cosines(x, y)
    moved = representation.centred_cosines(3.5 * x + np.arange(8), 0.2 * y - 40)
    np.testing.assert_allclose(moved, plain, atol=1e-11)
    turn = rotation(generator(2), 8)
    np.testing.assert_allclose(
        representation.centred_cosines(x @ turn, y @ turn), plain, atol=1e-11
    )
    # The raw cosine does see the shift, and a negative scale flips the direction.
    assert np.abs(similarity.token_cosines(x, y) - plain).max() > 0.1
    np.testing.assert_allclose(representation.centred_cosines(-2 * x, y), -plain, atol=1e-11)


def test_standardised_cosines_know_no_affine_map_of_a_dimension():
    rng = generator(3)
    x, y = related(rng, 50, 8)
    plain = representation.standardised_cosines(x, y)
    scale, shift = rng.uniform(0.1, 50, 8), rng.normal(0, 100, 8)  # [d] each
    moved = representation.standardised_cosines(scale * x + shift, y / scale - shift)
    np.testing.assert_allclose(moved, plain, atol=1e-10)
    assert np.abs(representation.centred_cosines(scale * x, y) - plain).max() > 0.05


def test_one_large_dimension_no_longer_decides():
    rng = generator(4)
    x, y = rng.normal(size=(2, 4000, 50))  # [tokens, d] each, unrelated
    both = rng.normal(size=4000) * 100  # [tokens]
    x[:, 0], y[:, 0] = both, both
    assert representation.centred_cosines(x, y).mean() > 0.9
    # One of fifty dimensions is shared, and weighs one fiftieth of the inner product.
    assert 0 < representation.standardised_cosines(x, y).mean() < 0.06


@pytest.mark.parametrize("constant", [0.0, 0.1, 12345.678])
def test_a_constant_dimension_is_left_out(constant):
    x, y = related(generator(5), 41, 6)
    ours, without = x.copy(), x.copy()
    ours[:, 2] = constant
    z = stats.zscore(without, axis=0)  # [tokens, d]
    z[:, 2] = 0
    expected = 1 - np.array(
        [distance.cosine(a, b) for a, b in zip(z, stats.zscore(y, axis=0), strict=True)]
    )
    np.testing.assert_allclose(representation.standardised_cosines(ours, y), expected, atol=1e-12)
    both = y.copy()
    both[:, 2] = constant
    np.testing.assert_allclose(
        representation.standardised_cosines(ours, both),
        representation.standardised_cosines(np.delete(x, 2, 1), np.delete(y, 2, 1)),
        atol=1e-12,
    )


@pytest.mark.parametrize(
    "measure",
    [representation.centred_cosines, representation.standardised_cosines],
)
def test_cosines_without_a_direction_are_refused(measure):
    x, y = related(generator(6), 20, 5)
    # 20 times 0.1 does not sum to 2 in floats: rounding must not pass for a direction.
    with pytest.raises(ValueError, match="undefined"):
        measure(np.full((20, 5), 0.1), y)
    with pytest.raises(ValueError, match="shapes"):
        measure(x, y[:-1])
    y[3, 2] = np.nan
    with pytest.raises(ValueError, match="finite"):
        measure(x, y)


def test_half_precision_is_computed_in_double():
    x, y = (states.astype(np.float16) for states in related(generator(7), 500, 16))
    for measure in (
        representation.centred_cosines,
        representation.standardised_cosines,
        representation.linear_cka,
        representation.retrieval_at_1,
    ):
        np.testing.assert_array_equal(
            measure(x, y), measure(x.astype(np.float64), y.astype(np.float64))
        )


def hsic_cka(x: np.ndarray, y: np.ndarray) -> float:
    """CKA from the Gram matrices of the tokens: HSIC(K, L) / √(HSIC(K, K) HSIC(L, L))."""
    tokens = len(x)
    centre = np.eye(tokens) - 1 / tokens  # [tokens, tokens]

    def hsic(k, m):
        return np.trace(k @ centre @ m @ centre) / (tokens - 1) ** 2

    k, m = x @ x.T, y @ y.T  # [tokens, tokens] each
    return hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m))


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(("tokens", "d_x", "d_y"), [(60, 9, 9), (40, 5, 12), (15, 30, 20)])
def test_cka_agrees_with_the_gram_matrices(tokens, d_x, d_y):
    rng = generator(tokens)
    x = rng.normal(size=(tokens, d_x)) * rng.uniform(0.1, 9, d_x) + 5  # [tokens, d_x]
    y = x @ rng.normal(size=(d_x, d_y)) + 4 * rng.normal(size=(tokens, d_y)) - 3  # [tokens, d_y]
    cka = representation.linear_cka(x, y)
    assert 0 < cka < 1
    assert cka == pytest.approx(hsic_cka(x, y), rel=1e-10)
    assert cka == pytest.approx(representation.linear_cka(y, x), rel=1e-12)


def test_cka_knows_no_rotation_scale_or_shift():
    rng = generator(8)
    x, y = related(rng, 80, 10)
    cka = representation.linear_cka(x, y)
    assert representation.linear_cka(x, x) == pytest.approx(1, abs=1e-12)
    assert representation.linear_cka(x, -7 * x @ rotation(rng, 10) + 3) == pytest.approx(
        1, abs=1e-12
    )
    moved = representation.linear_cka(0.01 * x @ rotation(rng, 10) - 9, y @ rotation(rng, 10))
    assert moved == pytest.approx(cka, rel=1e-10)
    # It does see a scale of its own per dimension, and which token is which.
    assert abs(representation.linear_cka(x * np.arange(1, 11) ** 2, y) - cka) > 1e-3
    assert representation.linear_cka(x, rng.permutation(y)) < 0.5 * cka


def test_cka_of_few_tokens_is_near_one():
    few = representation.linear_cka(*generator(9).normal(size=(2, 20, 500)))
    many = representation.linear_cka(*generator(9).normal(size=(2, 5000, 10)))
    assert few > 0.9 and many < 0.01


def test_cka_of_nothing_is_refused():
    x = generator(10).normal(size=(20, 4))
    with pytest.raises(ValueError, match="no geometry"):
        representation.linear_cka(x, np.full((20, 4), 0.1))
    with pytest.raises(ValueError, match="shapes"):
        representation.linear_cka(x, x[1:])
    with pytest.raises(ValueError, match="finite"):
        representation.linear_cka(x, np.where(x > 1, np.inf, x))


@pytest.mark.parametrize("block_cosines", [1, 1000, 2**22])
def test_retrieval_agrees_with_a_loop(monkeypatch, block_cosines):
    monkeypatch.setattr(representation, "_BLOCK_COSINES", block_cosines)
    x, noise = generator(11).normal(size=(2, 150, 4))  # [tokens, d] each
    y = x + 0.3 * noise  # [tokens, d]
    expected = []
    for token, state in enumerate(y):
        distances = [distance.cosine(state, other) for other in x]
        expected.append(float(np.argmin(distances) == token))
    score = representation.retrieval_at_1(x, y)
    assert score.dtype == np.float64
    assert score.tolist() == expected
    assert 0.05 < score.mean() < 0.95
    # The two sides are not exchangeable.
    assert representation.retrieval_at_1(y, x).tolist() != expected


def test_retrieval_of_itself_and_of_its_permutation():
    x = generator(12).normal(size=(300, 20))  # [tokens, d]
    assert representation.retrieval_at_1(x, 5 * x).tolist() == [1.0] * 300
    assert representation.retrieval_at_1(x, np.roll(x, 1, axis=0)).tolist() == [0.0] * 300


def test_ties_share_one_point():
    x = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [-1.0, -1.0]])  # [tokens, d]
    # Tokens 0, 1 and 3 have one direction. 4 is nearest to them too, but is not among them.
    y = np.array([[1.0, 0.1], [1.0, 0.0], [0.0, 2.0], [7.0, -0.1], [1.0, 0.0]])  # [tokens, d]
    expected = [1 / 3, 1 / 3, 1.0, 1 / 3, 0.0]
    np.testing.assert_allclose(representation.retrieval_at_1(x, y), expected, rtol=1e-15)


def test_equal_tokens_tie_whatever_the_rounding():
    # Hidden states without positions: each of 40 words occurs many times, in any order.
    rng = generator(13)
    words = rng.integers(0, 40, 1501)  # [tokens]
    x = rng.normal(size=(40, 768)).astype(np.float32)[words]  # [tokens, d]
    expected = 1 / np.bincount(words)[words]  # [tokens]
    np.testing.assert_allclose(representation.retrieval_at_1(x, x), expected, rtol=1e-12)
    assert representation.retrieval_at_1(x, x).mean() == pytest.approx(40 / 1501, rel=1e-12)


def test_unrelated_tokens_are_retrieved_by_chance():
    x, y = generator(14).normal(size=(2, 3000, 16))  # [tokens, d] each
    # Chance is one token of 3000; ten would be 9 standard deviations off.
    assert representation.retrieval_at_1(x, y).sum() < 10


def test_retrieval_without_a_direction_is_refused():
    x = generator(15).normal(size=(20, 4))
    with pytest.raises(ValueError, match="token 3 "):
        representation.retrieval_at_1(x, np.where(np.arange(20)[:, None] == 3, 0, x))
    with pytest.raises(ValueError, match="token 2 "):
        representation.retrieval_at_1(np.where(np.arange(20)[:, None] == 2, np.nan, x), x)
    with pytest.raises(ValueError, match="shapes"):
        representation.retrieval_at_1(x, x[:, 1:])


@pytest.mark.parametrize("d", [2, 3, 10, 768])
def test_gaussian_cosines_follow_the_beta_law(d):
    x, y = generator(d).normal(size=(2, 4000, d))  # [tokens, d] each
    cosines = similarity.token_cosines(x, y)
    assert stats.kstest(cosines, beta_law(d).cdf).pvalue > 0.01
    for wrong in (d + 1, 2 * d):
        if wrong > 1.2 * d:  # one dimension more of 768 is nothing to see
            assert stats.kstest(cosines, beta_law(wrong).cdf).pvalue < 1e-6


@pytest.mark.parametrize("d", [3, 4, 64, 768])
def test_the_null_s_density_is_that_of_the_beta_law(d):
    t = np.array([-0.9, -0.05, 0.0, 0.02, 0.4])
    np.testing.assert_allclose(
        similarity.gaussian_null_density(t, d), beta_law(d).pdf(t), rtol=1e-9
    )


def beta_law(d: int):
    """Of the cosine of two independent isotropic Gaussian vectors: Muirhead (1982), 1.5."""
    return stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
