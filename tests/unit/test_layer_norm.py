"""What normalisations do to position along a model: exact parts, planted cases, controls."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm as normal
from transformers import RobertaConfig, RobertaModel

from posenc.architectures.needs import NotKnown
from posenc.artifacts.files import ArtifactError
from posenc.capture.normalisations import normalisations, passed
from posenc.capture.parts import blocks, body, is_decoder, position_embedding
from posenc.measurements.layer_norm import figure as figure
from posenc.measurements.layer_norm import measure as step
from posenc.measurements.layer_norm import quantities as numbers
from posenc.measurements.layer_norm.declaration import LayerNorm
from posenc.metrics.normalisation import (
    SOURCES,
    VECTORS,
    amplitudes,
    carried,
    jackknife,
    of_scale,
    parts,
    scale_spread,
    scaled_spectrum,
)
from posenc.metrics.position_moments import Moments, estimate, of_map

from . import synthetic_positions as made_up
from .test_effective_keys import bert, gpt2, llama
from .test_figures import SECTIONS, STYLE, check_texts

PARAMETERS = LayerNorm(tokens=400, confidence=0.9, seed=2)


def test_the_scale_is_measured_of_the_tokens_that_are_given():
    rng = np.random.default_rng(3)
    lengths = [3, 5, 5, 8]  # after position 0
    document = np.repeat(np.arange(4), lengths)
    position = np.concatenate([1 + np.arange(n) for n in lengths])
    table, gain, scale = rng.normal(size=(9, 5)), rng.normal(size=5), rng.uniform(1, 2, 21)
    earlier = rng.uniform(1, 2, 21)
    result = of_scale(scale, table, gain, position, document, 0.9, earlier)
    assert result.scale.mean.value == pytest.approx(scale.mean())
    product = scale * earlier
    assert result.variation.value == pytest.approx(product.std() / product.mean())
    # Half of the documents have 5 tokens after the first; one has only 3.
    assert (result.window, result.windows) == (5, 3)
    full = np.stack([product[document == n][:5] for n in (1, 2, 3)])  # [documents, window]
    expected = scaled_spectrum(full, table[1:6], gain, 0.9)
    for own, other in zip(result.spectrum[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(own, other)
    assert result.spectrum.scaled.as_json() == expected.scaled.as_json()


def text(documents, length):
    """Positions and documents of the tokens of documents of one length."""
    return np.tile(np.arange(length), documents), np.repeat(np.arange(documents), length)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(2, 40),
    st.sampled_from([1e-12, 1e-5, 0.3]), st.sampled_from([0.01, 1.0, 30.0]), st.booleans(),
)  # fmt: skip
def test_the_parts_make_torch_s_layer_norm_and_its_sources_are_exact(
    seed, tokens, d, eps, scale, is_stream
):
    rng = np.random.default_rng(seed)
    rest, position = rng.normal(2, scale, (tokens, d)), rng.normal(-1, scale, (tokens, d))
    gain, bias = rng.normal(size=(2, d)), rng.normal(size=(2, d))
    x = rest + position
    expected = torch.nn.functional.layer_norm(
        torch.from_numpy(x), (d,), torch.from_numpy(gain[0]), torch.from_numpy(bias[0]), eps
    ).numpy()
    normalised = parts(x, gain[0], bias[0], eps)
    np.testing.assert_allclose(normalised.output, expected, rtol=0, atol=1e-10)
    # S (I - 11'/d) x L + b, as matrices: the tokens are rows.
    centre = np.eye(d) - np.ones((d, d)) / d
    matrices = np.diag(normalised.scale) @ x @ centre @ np.diag(gain[0]) + bias[0]
    np.testing.assert_allclose(normalised.output, matrices, rtol=0, atol=1e-10)
    np.testing.assert_allclose(normalised.scale, 1 / np.sqrt(x.var(axis=1) + eps), rtol=1e-9)
    # A second one, after something was added.
    branch = rng.normal(0, scale, (tokens, d))
    second = (expected if is_stream else x) + branch
    path = carried(
        [x, second], zip(gain, bias, strict=True), ["tokens", "mlp"], position, eps=eps,
        is_stream=is_stream,
    )  # fmt: skip
    (first_scale, first), (second_scale, last) = ((s, v.copy()) for s, v in path)
    np.testing.assert_array_equal(first_scale, normalised.scale)
    np.testing.assert_allclose(first[1], expected, rtol=0, atol=1e-10)
    own = np.diag(normalised.scale) @ position @ centre @ np.diag(gain[0])
    np.testing.assert_allclose(first[2], own, rtol=0, atol=1e-9 * max(1, scale))
    assert not first[4:].any()
    once = own if is_stream else position
    for vectors in (first, last):
        np.testing.assert_allclose(vectors[2:].sum(axis=0), vectors[1], rtol=0, atol=1e-8)
    maps = {"position": once, "mlp": branch}
    for name, value in maps.items():
        expected = np.diag(second_scale) @ value @ centre @ np.diag(gain[1])
        vector = last[VECTORS.index(name)]
        np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-8 * max(1, scale))


def test_the_identity_holds_to_a_trillionth():
    rng = np.random.default_rng(0)
    rest, position = rng.normal(size=(500, 64)), rng.normal(size=(500, 64))
    gain, bias = rng.normal(size=64), rng.normal(size=64)
    x = rest + position
    tensors = [torch.from_numpy(array) for array in (x, gain, bias)]
    expected = torch.nn.functional.layer_norm(tensors[0], (64,), *tensors[1:], 1e-5).numpy()
    direct = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + bias
    options = {"eps": 1e-5, "is_stream": True}
    _, vectors = next(carried([x], [(gain, bias)], ["tokens"], position, **options))
    for reference in (expected, direct):
        assert np.abs(parts(x, gain, bias, 1e-5).output - reference).max() < 1e-12
        assert np.abs(vectors[2:].sum(axis=0) - reference).max() < 1e-12
    # A constant added to all of d_model is removed, and position alone is linear.
    _, again = next(carried([x + 7], [(gain, bias)], ["tokens"], position + 7, **options))
    np.testing.assert_allclose(again[2], vectors[2], rtol=0, atol=1e-12)


def test_what_has_no_layer_norm_is_refused():
    with pytest.raises(ValueError, match="constant"):
        parts(np.ones((2, 4)), np.ones(4), np.ones(4), 0.0)
    with pytest.raises(ValueError, match="negative"):
        parts(np.eye(4), np.ones(4), np.ones(4), -1.0)
    with pytest.raises(ValueError, match="d_model"):
        parts(np.eye(4), np.ones(3), np.ones(4), 1e-5)


def test_the_jackknife_of_a_mean_is_its_standard_error():
    rng = np.random.default_rng(1)
    values = rng.normal(3, 2, 40)
    sums = np.stack([np.ones(40), values], axis=1)
    estimate = jackknife(lambda sums: sums[:, 1:] / sums[:, :1], sums, 0.95)
    half = normal.ppf(0.975) * values.std(ddof=1) / np.sqrt(40)
    np.testing.assert_allclose(estimate.value, values.mean(), rtol=1e-12)
    np.testing.assert_allclose(estimate.high - estimate.value, half, rtol=1e-12)
    with pytest.raises(ValueError, match="two documents"):
        jackknife(lambda sums: sums, sums[:1], 0.95)


def test_the_spread_of_the_scale_is_that_of_its_numbers():
    rng = np.random.default_rng(2)
    position, document = text(30, 40)
    scale = 5 + 0.03 * position + rng.gamma(2, 0.3, len(position))
    spread = scale_spread(scale, position, document, 0.95)
    assert spread.mean.value == pytest.approx(scale.mean(), rel=1e-12)
    assert spread.sd == pytest.approx(scale.std(), rel=1e-12)
    assert spread.variation.value == pytest.approx(scale.std() / scale.mean(), rel=1e-12)
    expected = np.corrcoef(scale, position)[0, 1]
    assert spread.correlation.value == pytest.approx(expected, rel=1e-12)
    assert spread.quantiles["0.5"] == np.median(scale)
    assert spread.correlation.low < expected < spread.correlation.high
    # Leaving a document out by hand.
    left = [np.corrcoef(scale[document != n], position[document != n])[0, 1] for n in range(30)]
    half = normal.ppf(0.975) * np.sqrt(29 * np.var(left))
    assert spread.correlation.high == pytest.approx(expected + half, rel=1e-9)
    left = [scale[document != n].std() / scale[document != n].mean() for n in range(30)]
    half = normal.ppf(0.975) * np.sqrt(29 * np.var(left))
    assert spread.variation.high - spread.variation.value == pytest.approx(half, rel=1e-9)


def test_an_unrelated_scale_has_no_correlation_and_a_constant_one_none():
    rng = np.random.default_rng(3)
    position, document = text(60, 50)
    correlation = scale_spread(rng.uniform(1, 2, 3000), position, document, 0.99).correlation
    assert correlation.low < 0 < correlation.high and correlation.high - correlation.low < 0.12
    constant = scale_spread(np.full(3000, 0.1), position, document, 0.99)
    assert constant.correlation is None
    assert constant.variation.value == pytest.approx(0, abs=1e-12)


def by_hand(states, position, document):
    """Each column's part of position by the definition, over its variance; their mean."""
    shares = []
    for column in states.T:
        inside = column.copy()
        for number in np.unique(document):
            inside[document == number] -= column[document == number].mean()
        groups = [inside[position == p] for p in np.unique(position)]
        between = sum(len(g) * g.mean() ** 2 for g in groups)
        k, n = len(groups) - 1, len(column) - len(np.unique(document))
        rest = (inside**2).sum() - between
        shares.append((between - k / (n - k) * rest) / ((column - column.mean()) ** 2).sum())
    return np.mean(shares)


def share_between_positions(states, position, document, confidence):
    return estimate(Moments.of(states[None], position, document, 1).shares(0), confidence)


def test_the_share_between_positions_and_its_jackknife_are_those_by_hand():
    rng = np.random.default_rng(5)
    lengths = rng.integers(3, 25, 18)
    document = np.repeat(np.arange(18), lengths)
    position = np.concatenate([np.arange(length) for length in lengths])
    states = rng.normal(size=(len(position), 5)) + 0.1 * position[:, None] + 100
    order = rng.permutation(len(position))  # tokens may come in any order
    share = share_between_positions(states[order], position[order], document[order] * 7, 0.95)
    assert share.value == pytest.approx(by_hand(states, position, document), rel=1e-9)
    left = [
        by_hand(states[document != n], position[document != n], document[document != n])
        for n in range(18)
    ]
    half = normal.ppf(0.975) * np.sqrt(17 * np.var(left))
    assert share.high - share.value == pytest.approx(half, rel=1e-7)


def test_half_of_the_variance_is_planted_between_positions():
    rng = np.random.default_rng(6)
    position, document = text(40, 100)
    between = rng.normal(size=(100, 64))  # of unit variance over positions
    between = (between - between.mean(axis=0)) / between.std(axis=0)
    states = between[position] + rng.normal(size=(4000, 64))
    share = share_between_positions(states.astype(np.float32), position, document, 0.95)
    assert share.value == pytest.approx(0.5, abs=0.01)
    only = share_between_positions(between[position], position, document, 0.95)
    assert only.value == pytest.approx(1, abs=1e-12)


def test_the_share_of_unrelated_positions_is_at_chance():
    # Two tokens a position: without the correction the share would be about one half.
    rng = np.random.default_rng(7)
    position, document = text(3, 400)
    shares = share_between_positions(rng.normal(size=(1200, 100)), position, document, 0.99)
    assert abs(shares.value) < 0.02
    assert shares.low < 0.01 and shares.high > -0.01


def test_states_without_a_share_are_refused():
    position, document = text(1, 30)
    with pytest.raises(ValueError, match="two tokens"):
        share_between_positions(np.eye(30), position, document, 0.95)
    position, document = text(5, 6)
    with pytest.raises(ValueError, match="no variance"):
        share_between_positions(np.ones((30, 4)), position, document, 0.95)


def test_a_pure_sine_is_one_line_of_the_spectrum():
    t = np.arange(48)
    signal = np.stack([3 * np.sin(2 * np.pi * 5 * t / 48), 3 * np.cos(2 * np.pi * 5 * t / 48)], 1)
    spectrum = amplitudes(signal)
    assert spectrum[5] == pytest.approx(1.5) and np.delete(spectrum, 5).max() < 1e-12


def test_a_constant_scale_leaves_the_spectrum_and_another_convolves_it():
    rng = np.random.default_rng(8)
    position, gain = rng.normal(size=(32, 6)), rng.normal(size=6)
    same = scaled_spectrum(np.full((5, 32), 0.7), position, gain, 0.95)
    np.testing.assert_allclose(same.scaled.value, same.position, rtol=1e-12)
    assert list(same.frequency) == list(np.arange(17) / 32)
    carried = (position - position.mean(1, keepdims=True)) * gain
    np.testing.assert_allclose(same.position, 0.7 * amplitudes(carried), rtol=1e-12)
    scale = rng.uniform(0.5, 2, size=(5, 32))
    spectrum = scaled_spectrum(scale, position, gain, 0.95)
    # The transform of a product is the circular convolution of the transforms.
    expected = np.zeros(17)
    for row in scale:
        s, p = np.fft.fft(row), np.fft.fft(carried, axis=0)
        for k in range(17):
            total = sum(s[(k - j) % 32] * p[j] for j in range(32)) / 32
            expected[k] += np.abs(total).mean() / 32 / 5
    np.testing.assert_allclose(spectrum.scaled.value, expected, rtol=1e-9)


# --- Moments of position --------------------------------------------------------------------------


def ragged(seed, sizes=(7, 4, 9, 9, 6)):
    """Positions and documents for documents of several lengths, tokens in random order."""
    rng = np.random.default_rng(seed)
    position = np.concatenate([np.arange(size) for size in sizes])
    document = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(position))
    return position[order], document[order], rng


def of_position_by_loops(x, position, document):
    """Products of position, and of all, about the mean: x [v, n, d]."""
    total = x - x.mean(axis=1, keepdims=True)
    inside = x.copy()
    for number in np.unique(document):
        inside[:, document == number] -= x[:, document == number].mean(axis=1, keepdims=True)
    between = 0
    for place in np.unique(position):
        mean = inside[:, position == place].mean(axis=1)  # [v, d]
        between = between + np.count_nonzero(position == place) * mean @ mean.T
    k = len(np.unique(position)) - 1
    free = x.shape[1] - len(np.unique(document)) - k
    rest = np.einsum("and,bnd->ab", inside, inside) - between
    return between - k / free * rest, np.einsum("and,bnd->ab", total, total)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_moments_are_those_of_loops_with_each_document_left_out(seed):
    position, document, rng = ragged(seed)
    x = rng.normal(size=(3, len(position), 4)) + 0.3 * position[:, None] + 20
    x += 2 * rng.normal(size=(5, 4))[document]
    moments = Moments.of(x, position, document, 2)
    for index, kept in enumerate([document >= 0, *(document != number for number in range(5))]):
        expected, total = of_position_by_loops(x[:, kept], position[kept], document[kept])
        np.testing.assert_allclose(moments.total[index], total, rtol=1e-9)
        np.testing.assert_allclose(moments.position[index], expected, rtol=1e-7, atol=1e-7)
        for vector in range(2):
            assert moments.shares(vector)[index] == pytest.approx(
                by_hand(x[vector, kept], position[kept], document[kept]), rel=1e-7, abs=1e-9
            )
    np.testing.assert_allclose(moments.position + moments.content, moments.total, rtol=1e-12)


def test_products_of_chance_alone_have_no_part_of_position():
    # Two vectors that are alike, and differ between documents, not positions: five tokens each.
    position, document = text(5, 40)
    parts_of = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1, 200, 6)) + 2 * rng.normal(size=(5, 6))[document]
        moments = Moments.of(np.concatenate([x, 2 * x]), position, document, 2)
        parts_of.append(moments.position[0, 0, 1] / moments.total[0, 0, 1])
    assert abs(np.mean(parts_of)) < 3 * np.std(parts_of) / np.sqrt(60)
    assert np.std(parts_of) < 0.02


def test_two_tokens_of_a_document_at_a_position_are_refused():
    with pytest.raises(ValueError, match="two tokens at one"):
        Moments.of(np.ones((1, 4, 2)), [0, 1, 1, 0], [0, 0, 0, 1], 1)


def planted(matrix, documents=40, positions=30):
    """Position in four dimensions, content in four others, and both after a map."""
    rng = np.random.default_rng(0)
    position, document = text(documents, positions)
    x = np.zeros((len(position), 8))
    x[:, :4] = rng.normal(size=(positions, 4))[position]
    x[:, 4:] = rng.normal(size=(len(position), 4))
    shuffled = np.concatenate([rng.permutation(positions) for _ in range(documents)])
    mapped = x @ matrix
    of_position = np.where(np.arange(8) < 4, x, 0) @ matrix
    vectors = np.stack([x, mapped, of_position, mapped - of_position])
    return of_map(vectors, position, shuffled, document, ("first", "second"), 0.95)


def test_a_map_that_halves_position_has_half_the_gain_for_it():
    result = planted(np.diag([0.5] * 4 + [1.0] * 4))
    value = {
        kind: {name: estimate.value for name, estimate in estimates.items()}
        for kind, estimates in result._asdict().items()
    }
    assert value["gain"]["position"] == pytest.approx(0.5, abs=0.01)
    assert value["gain"]["content"] == pytest.approx(1, abs=0.01)
    assert value["gain"]["relative"] == pytest.approx(0.5, abs=0.01)
    assert value["cosine"]["position"] == pytest.approx(1, abs=0.01)
    # Means of tokens at shuffled positions have of both what all tokens have: half and half.
    assert value["gain"]["shuffled"] == pytest.approx(0.75, abs=0.05)
    assert value["sources"] == pytest.approx({"first": 1, "second": 0}, abs=0.03)
    assert value["content_sources"] == pytest.approx({"first": 0, "second": 1}, abs=0.03)
    # By dimension, half of the dimensions are of position alone whatever their length.
    assert value["between"]["input"] == pytest.approx(0.5, abs=0.01)
    assert value["between"]["output"] == pytest.approx(0.5, abs=0.01)
    assert value["between"]["shuffled"] == pytest.approx(0, abs=0.02)
    assert value["shares"]["first"] == pytest.approx(0.2, abs=0.03)
    assert sum(value["shares"].values()) == pytest.approx(1, rel=1e-12)


def test_a_map_that_turns_position_away_shows_it_in_the_cosine():
    swap = np.zeros((8, 8))
    swap[[0, 1, 2, 3], [1, 0, 3, 2]] = 1  # pairs of position's dimensions change places
    swap[range(4, 8), range(4, 8)] = 1
    result = planted(swap)
    assert abs(result.cosine["position"].value) < 0.5
    assert result.cosine["content"].value == pytest.approx(1, abs=0.02)
    # The output's part of position is as large as it was, but lies elsewhere.
    assert result.between["output"].value == pytest.approx(0.5, abs=0.01)


def test_a_map_that_takes_position_away_leaves_nothing_to_share():
    result = planted(np.diag([0.0] * 4 + [1.0] * 4))
    assert result.gain["position"].value == pytest.approx(0, abs=0.02)
    assert result.between["output"].value == pytest.approx(0, abs=0.02)
    assert planted(np.zeros((8, 8)) + np.diag([0.0] * 7 + [1])).shares["first"].value == 0


def test_a_part_that_is_not_there_has_no_ratio():
    position, document = text(6, 5)
    x = np.random.default_rng(0).normal(size=(1, 30, 3))
    # Each position has tokens of mean zero: no part between them, less than chance gives.
    x -= np.stack([x[:, position == place].mean(axis=1) for place in range(5)], axis=1)[:, position]
    result = of_map(np.repeat(x, 3, axis=0), position, position, document, ("all",), 0.9)
    assert result.gain["position"] is None and result.gain["relative"] is None
    assert result.sources["all"] is None
    assert result.content_sources["all"].value == pytest.approx(1)


# --- A model's normalisations ---------------------------------------------------------------------


def roberta():
    torch.manual_seed(3)
    config = RobertaConfig(vocab_size=40, hidden_size=16, intermediate_size=24, pad_token_id=1,
                           num_hidden_layers=2, num_attention_heads=4, initializer_range=0.6,
                           max_position_embeddings=34, type_vocab_size=1)  # fmt: skip
    return RobertaModel(config, add_pooling_layer=False).eval()


def with_gains(model):
    """Normalisations with gains and biases of their own, a bias wherever there is one."""
    torch.manual_seed(4)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if isinstance(model.get_submodule(name.rpartition(".")[0]), torch.nn.LayerNorm):
                value += 0.3 * torch.randn_like(value)
            elif name.endswith("bias"):
                value += torch.randn_like(value)
    return model


MODELS = {"bert": bert, "gpt2": gpt2, "roberta": roberta}
LENGTHS = (9, 14, 12, 20, 7, 2, 16)


@pytest.fixture(params=MODELS)
def model(request):
    return with_gains(MODELS[request.param]())


def documents_of(lengths=LENGTHS):
    """Documents of random tokens."""
    generator = np.random.default_rng(0)
    ids = [generator.integers(2, 40, size=length).tolist() for length in lengths]
    return SimpleNamespace(ids=ids, lengths=np.array(lengths), path="tokens.parquet")


def added_by(model, ids):
    """What attention and MLP of each block add, and the first states, by hooks on the library."""
    added, hooks = {}, []

    def keep(key):
        def hook(module, inputs, output):
            added[key] = (output[0] if isinstance(output, tuple) else output)[0].double().numpy()

        return hook

    for layer, block in enumerate(blocks(model)):
        if is_decoder(model):
            pair = block.attn.c_proj, block.mlp.c_proj
        else:
            pair = block.attention.output.dense, block.output.dense
        for name, module in zip(("attention", "mlp"), pair, strict=True):
            hooks.append(module.register_forward_hook(keep((layer, name))))
    with torch.inference_mode():
        states = body(model)(torch.tensor([ids]), output_hidden_states=True).hidden_states
    for hook in hooks:
        hook.remove()
    return added, [state[0].double().numpy() for state in states]


def test_normalisations_are_passed_in_their_order(model):
    order = []
    hooks = [
        norm.module.register_forward_hook(lambda *_, name=norm.name: order.append(name))
        for norm in normalisations(model)
    ]
    added_by(model, list(range(2, 12)))
    for hook in hooks:
        hook.remove()
    assert order == [norm.name for norm in normalisations(model)]
    assert len(order) == 5 and [norm.added for norm in normalisations(model)][:3] == (
        ["tokens", "attention", "mlp"]
    )
    layers = [norm.layer for norm in normalisations(model)]
    assert layers == ([0, 0, 1, 1, None] if is_decoder(model) else [None, 0, 0, 1, 1])


def test_a_model_that_normalises_elsewhere_is_refused(model, monkeypatch):
    """A decoder taken for an encoder, and the other way round."""
    path, own = "posenc.capture.normalisations", is_decoder(model)
    named = normalisations(model)
    monkeypatch.setattr(f"{path}.is_decoder", lambda _: not own)
    monkeypatch.setattr(f"{path}.normalisations", lambda _: named)
    with pytest.raises(NotKnown, match="layer 0 normalises its parts in a place"):
        passed(model, [list(range(2, 12))])


def test_a_model_without_two_layer_normalisations_a_block_is_refused():
    with pytest.raises(NotKnown, match="has 0 layer normalisations"):
        normalisations(llama())


def naive(model, ids):
    """What each normalisation makes of each source, by loops over tokens, as it is written down."""
    added, states = added_by(model, ids)
    table = position_embedding(model).weight.detach().double().numpy()
    table = table[2:] if type(model).__name__ == "RobertaModel" else table
    # What is looked up for a token, and everything else of the first sum.
    stream = {name: np.zeros_like(states[0]) for name in SOURCES}
    stream["position"] = table[: len(ids)].copy()
    if is_decoder(model):
        words = model.transformer.wte.weight[ids]
    else:
        embeddings = model.embeddings
        words = embeddings.word_embeddings.weight[ids] + embeddings.token_type_embeddings.weight[0]
    stream["tokens"] = words.detach().double().numpy()
    results = []
    for norm in normalisations(model):
        layer = norm.layer
        if norm.added != "tokens":
            if is_decoder(model) and norm.added == "mlp":
                layer = len(blocks(model)) - 1 if layer is None else layer - 1
            stream[norm.added] = stream[norm.added] + added[layer, norm.added]
        gain, bias = (parameter.detach().double().numpy() for parameter in norm.module.parameters())
        sources = {name: np.zeros_like(states[0]) for name in SOURCES}
        for token in range(len(ids)):
            whole = sum(stream[name][token] for name in SOURCES)
            deviation = np.sqrt(whole.var() + norm.module.eps)
            for name in SOURCES:
                vector = stream[name][token]
                sources[name][token] = (vector - vector.mean()) / deviation * gain
            sources["tokens"][token] += bias
        results.append(sources)
        stream = stream if is_decoder(model) else dict(sources)
    return results, states


def test_sources_are_those_of_a_loop_over_the_library_s_own_forward_pass(model):
    ids = documents_of().ids[3]
    expected, states = naive(model, ids)
    norms = normalisations(model)
    seen = [(given.numpy(), returned.numpy()) for given, returned in passed(model, [ids])]
    first = 2 if type(model).__name__ == "RobertaModel" else 0
    places = position_embedding(model).weight.detach().numpy()[first : first + len(ids)]
    weights = [
        tuple(parameter.detach().numpy() for parameter in norm.module.parameters())
        for norm in norms
    ]
    path = carried(
        [given for given, _ in seen], weights, [norm.added for norm in norms], places,
        eps=norms[0].module.eps, is_stream=not is_decoder(model),
    )  # fmt: skip
    for sources, (_, returned), (_, vectors) in zip(expected, seen, path, strict=True):
        np.testing.assert_allclose(vectors[1], returned, rtol=0, atol=2e-5)
        np.testing.assert_allclose(sum(sources.values()), returned, rtol=0, atol=2e-5)
        for source, vector in zip(SOURCES, vectors[2:], strict=True):
            np.testing.assert_allclose(vector, sources[source], rtol=0, atol=2e-5)
    # The last normalisation's output is the last hidden state.
    np.testing.assert_allclose(vectors[1], states[-1], rtol=0, atol=2e-5)


def test_the_measurement_is_that_of_its_parts(model):
    with torch.no_grad():
        position_embedding(model).weight *= 4  # so much that there is no doubt
    text = documents_of()
    measurement = step.measure(PARAMETERS, model, text).as_json()
    norms = normalisations(model)
    assert [norm["name"] for norm in measurement["norms"]] == [norm.name for norm in norms]
    assert (measurement["documents"], measurement["tokens"]) == (7, sum(LENGTHS) - 7)
    assert measurement["placement"] == ("before" if is_decoder(model) else "after")
    assert measurement["n_layers"] == 2 and measurement["library_error"] < 1e-5
    by_document = [naive(model, ids)[0] for ids in text.ids]
    ordered = sorted(range(7), key=lambda index: LENGTHS[index])
    by_document, sizes = (
        [by_document[index] for index in ordered],
        [LENGTHS[index] - 1 for index in ordered],
    )
    position = np.concatenate([1 + np.arange(size) for size in sizes])
    document = np.repeat(np.arange(7), sizes)
    for index, norm in enumerate(measurement["norms"]):
        by_source = {
            name: np.concatenate([document[index][name][1:] for document in by_document])
            for name in SOURCES
        }
        output = sum(by_source.values())
        expected = by_hand(output, position, document)
        assert norm["between"]["output"]["value"] == pytest.approx(expected, abs=1e-4)
        vectors = np.stack([output, *by_source.values()])
        own, _ = of_position_by_loops(vectors, position, document)
        if norm["sources"]["position"] is None:  # where leaving a document out leaves no position
            assert index > 1
            continue
        for number, name in enumerate(SOURCES):
            expected = own[1 + number, 0] / own[0, 0]
            assert norm["sources"][name]["value"] == pytest.approx(expected, abs=1e-3)
        for kind in ("sources", "content_sources", "shares"):
            assert sum(share["value"] for share in norm[kind].values()) == pytest.approx(
                1, abs=1e-6
            )
        of_p = by_source["position"].var(axis=0).sum() / output.var(axis=0).sum()
        assert norm["shares"]["position"]["value"] == pytest.approx(of_p, abs=1e-4)
    assert step.measure(PARAMETERS, model, text).as_json() == measurement


def test_the_product_of_scales_is_what_position_has_passed():
    model = with_gains(bert())
    text = documents_of()
    norms = step.measure(PARAMETERS, model, text).as_json()["norms"]
    # P at the last normalisation over what it would be without scales, token by token.
    table = position_embedding(model).weight.detach().double().numpy()
    for norm in normalisations(model):
        gain = norm.module.weight.detach().double().numpy()
        table = (table - table.mean(axis=1, keepdims=True)) * gain
    products = [naive(model, ids)[0][-1]["position"][1:] / table[1 : len(ids)] for ids in text.ids]
    whole = np.concatenate(products)  # [tokens, d_model], the same in each row
    np.testing.assert_allclose(whole, whole[:, :1].repeat(16, axis=1), rtol=1e-6)
    expected = whole[:, 0].std() / whole[:, 0].mean()
    assert norms[-1]["variation"]["value"] == pytest.approx(expected, rel=1e-4)
    assert norms[-1]["scale"]["variation"]["value"] != pytest.approx(expected, rel=1e-2)


def test_a_model_whose_blocks_add_nothing_has_position_from_its_table_alone(model):
    with torch.no_grad():
        for block in blocks(model):
            if is_decoder(model):
                pair = block.attn.c_proj, block.mlp.c_proj
            else:
                pair = block.attention.output.dense, block.output.dense
            for module in pair:
                module.weight.zero_()
                module.bias.zero_()
    measurement = step.measure(PARAMETERS, model, documents_of()).as_json()
    for norm in measurement["norms"]:
        for source in ("attention", "mlp"):
            assert norm["sources"][source]["value"] == pytest.approx(0, abs=1e-5)
        both = norm["sources"]["position"]["value"] + norm["sources"]["tokens"]["value"]
        assert both == pytest.approx(1, abs=1e-5)


def test_a_rotary_model_has_no_position_to_follow():
    measurement = step.measure(PARAMETERS, None, documents_of()).as_json()
    assert measurement["status"] == "not run" and "no table" in measurement["reason"]


def test_documents_are_drawn_whole_and_by_the_seed():
    text = documents_of()
    draws = [step.draw(text, 20, seed) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    for draw in draws:
        assert 3 <= len(draw) < 7 and sum(map(len, draw)) >= 20
        assert all(ids in text.ids for ids in draw)


def test_too_few_documents_are_refused():
    with pytest.raises(ArtifactError, match="three documents of two tokens"):
        step.draw(documents_of((9, 1, 20)), 400, 0)
    assert len(step.draw(documents_of((9, 2, 20)), 400, 0)) == 3


# --- What is told of it ---------------------------------------------------------------------------


def test_quantities_are_of_the_first_the_middle_and_the_last_normalisation():
    for causal in (False, True):
        measurement = made_up.layer_norm("model", "reviews", causal)
        norms = measurement["norms"]
        norms[0]["between"], norms[-1]["between"] = (
            {"input": {"value": n + 0.1, "low": 0, "high": 1},
             "output": {"value": n + 0.2, "low": 0, "high": 1},
             "shuffled": {"value": n + 0.3, "low": 0, "high": 1}} for n in (0, 1)
        )  # fmt: skip
        norms[3]["gain"]["relative"] = {"value": 0.2, "low": 0, "high": 1}
        norms[-1]["sources"]["mlp"] = None
        quantities = numbers.QUANTITIES.read(measurement)
        assert tuple(sorted(quantities)) == tuple(sorted(numbers.QUANTITIES.names))
        assert quantities["between.embedding"].value == (0.1 if causal else 0.2)
        assert (quantities["between.last"].value, quantities["shuffled"].value) == (1.2, 1.3)
        assert quantities["relative.lowest"].value == 0.2
        middle = norms[len(norms) // 2]
        assert quantities["middle.gain.content"].value == middle["gain"]["content"]["value"]
        assert quantities["middle.from.position"].value == middle["sources"]["position"]["value"]
        assert "no position" in quantities["last.from.mlp"].reason


def test_the_figure_shows_the_whole_path():
    measured = [
        made_up.layer_norm(name, dataset, causal)
        for name, causal in (("one", False), ("two", True), ("three", True), ("four", False))
        for dataset in ("sample_reviews", "sample_questions")
    ]
    measured[0]["norms"][-1]["sources"] = dict.fromkeys(SOURCES)
    absent = {**measured[0], "status": "not run", "reason": "the weights are absent"}
    for shown in (measured[:1], measured[:2], measured[3:5], measured, [absent], [*measured[:3],
                  {**absent, "run": measured[3]["run"]}]):  # fmt: skip
        drawn = figure.draw(shown, SECTIONS.layer_norm, STYLE)
        check_texts(drawn)
        if shown[0] is absent:
            continue
        lines = [list(line.get_ydata()) for axes in drawn.axes for line in axes.get_lines()]
        measurement = shown[0]
        assert len(drawn.axes) % 6 == 0
        end = "output" if measurement["placement"] == "after" else "input"
        stream = [norm["between"][end]["value"] for norm in measurement["norms"][:-1]]
        assert [*stream, measurement["norms"][-1]["between"]["output"]["value"]] in lines
        assert measurement["norms"][0]["spectrum"]["position"][1:] in lines
        assert [norm["scale"]["quantiles"]["0.5"] for norm in measurement["norms"]] in lines
        assert [norm["gain"]["relative"]["value"] for norm in measurement["norms"]] in lines
        attention = [norm["sources"]["attention"] for norm in measurement["norms"]]
        assert [value["value"] for value in attention if value] in lines
