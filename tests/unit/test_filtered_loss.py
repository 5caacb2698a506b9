"""Queries and keys filtered along the sequence: by brute force, exact identities, planted waves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import fft
from transformers import AttentionInterface, GPT2Config, GPT2LMHeadModel

from posenc.artifacts.files import ArtifactError
from posenc.capture import masked_attention
from posenc.capture.capture import document_losses, packed_last, packed_states
from posenc.capture.filtered import Filtered, Projections, Scaled, states_scored
from posenc.capture.parts import is_decoder
from posenc.measurements.filtered_loss import figure as figure
from posenc.measurements.filtered_loss import measure as step
from posenc.measurements.filtered_loss import quantities as numbers
from posenc.measurements.filtered_loss.declaration import FilteredLoss
from posenc.measurements.filtered_loss.measure import MEAN, Filter
from posenc.metrics.band_projections import (
    prefix_projections,
    projection,
    random_directions,
    wave_bands,
    waves,
)
from posenc.metrics.spectra import band_masks

from . import synthetic_positions as made_up
from .planted import distinct, expected
from .test_effective_keys import MODELS, bert, gpt2, last_of
from .test_figures import SECTIONS, STYLE, check_texts, texts

LIMITS = [0.1, 0.3]
PARAMETERS = FilteredLoss(
    documents=3, tokens=12, bands=LIMITS, bootstrap_samples=100, confidence=0.9, seed=0
)
DOCUMENTS = [[5, 9, 2, 30, 7, 7, 1, 12, 3], [4, 4, 31, 8, 8, 20, 1, 2, 11], [6, 1, 9, 22, 30]]
FILTERS = [Filter(band, way) for band in (MEAN, 0, 1, 2) for way in step.WAYS]


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


# --- Projections ----------------------------------------------------------------------------------


@given(st.integers(1, 40))
def test_waves_are_orthonormal_cosines(tokens):
    basis = waves(tokens)
    np.testing.assert_allclose(basis @ basis.T, np.eye(tokens), atol=1e-12)
    place = np.arange(tokens) + 0.5
    for k, row in enumerate(basis):
        cosine = np.cos(np.pi * k * place / tokens)  # k / 2n cycles per token
        np.testing.assert_allclose(row, cosine / np.linalg.norm(cosine), atol=1e-12)


@given(st.integers(1, 200))
def test_each_wave_is_in_the_band_that_its_frequency_has_in_spectra(tokens):
    masks = wave_bands(tokens, LIMITS)
    assert (masks.sum(axis=0) == 1).all()
    if tokens >= 20:  # a window of 2n tokens also has these frequencies
        np.testing.assert_array_equal(masks, band_masks(2 * tokens, LIMITS)[:, :tokens])


@given(st.integers(1, 20), st.integers(0, 3))
def test_random_directions_are_orthonormal_and_others_for_each_seed(tokens, seed):
    directions = random_directions(seed)(tokens)
    np.testing.assert_allclose(directions @ directions.T, np.eye(tokens), atol=1e-12)
    np.testing.assert_array_equal(directions, random_directions(seed)(tokens))
    if tokens > 1:
        assert np.abs(directions - random_directions(seed + 1)(tokens)).max() > 1e-3


def test_random_directions_are_uniform():
    """The mean projection on one of n directions is 1/n of everything."""
    mean = np.mean(
        [projection(random_directions(seed)(4), np.arange(4) == 0) for seed in range(4000)], axis=0
    )
    np.testing.assert_allclose(mean, np.eye(4) / 4, atol=0.02)


def test_bands_sum_to_what_a_query_sees_and_are_projections():
    cubes = [
        prefix_projections(30, waves, lambda n, band=band: wave_bands(n, LIMITS)[band])
        for band in range(3)
    ]
    np.testing.assert_allclose(sum(cubes), prefix_projections(30, waves, ones), atol=1e-6)
    for place, whole in enumerate(prefix_projections(30, waves, ones)):
        seen = np.arange(30) <= place
        np.testing.assert_allclose(whole, np.diag(seen), atol=1e-6)
        for cube in cubes:
            np.testing.assert_allclose(cube[place] @ cube[place], cube[place], atol=1e-6)
            assert not cube[place][~seen].any() and not cube[place][:, ~seen].any()


def ones(tokens: int) -> np.ndarray:
    return np.ones(tokens, bool)


def test_shorter_documents_have_a_part_of_the_projections():
    projections = Projections(waves, lambda n: wave_bands(n, LIMITS)[1], True, 20)
    alone = Projections(waves, lambda n: wave_bands(n, LIMITS)[1], True, 7)
    assert torch.equal(projections(7), alone(7))
    whole = Projections(waves, lambda n: wave_bands(n, LIMITS)[1], False, 20)
    np.testing.assert_allclose(whole(7)[0], projections(7)[6], atol=1e-7)


# --- Attention ------------------------------------------------------------------------------------


def brute(band_filter: Filter, causal: bool):
    """The library's attention over queries and keys that SciPy filtered, query by query."""

    def filtered(x: np.ndarray) -> np.ndarray:  # [tokens, d_head]
        kept = band_filter.kept(len(x), LIMITS)
        return fft.idct(fft.dct(x, axis=0, norm="ortho") * kept[:, None], axis=0, norm="ortho")

    def attention(module, query, key, value, attention_mask, scaling=None, **_):
        groups = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        out = torch.zeros_like(query)
        for row, head, place in np.ndindex(query.shape[:3]):
            seen = place + 1 if causal else query.shape[2]
            q, k, v = (x[row, head, :seen].numpy().astype(float) for x in (query, key, value))
            scores = filtered(k) @ filtered(q)[place] * scaling
            weights = np.exp(scores - scores.max())
            out[row, head, place] = torch.from_numpy(weights @ v / weights.sum())
        return out.transpose(1, 2), None

    return attention


@pytest.mark.parametrize("one", FILTERS, ids=str)
def test_states_are_those_of_queries_and_keys_filtered_one_by_one(model, one):
    causal, ids = is_decoder(model), DOCUMENTS[0]
    AttentionInterface.register("brute", brute(one, causal))
    former = model.config._attn_implementation
    model.set_attn_implementation("brute")
    expected = last_of(model, ids)
    model.set_attn_implementation(former)
    projections = Projections(waves, lambda n: one.kept(n, LIMITS), causal, 20)
    states = packed_states(model, [ids])
    last = states_scored(model, [ids], Filtered(projections), range(2), states[0][0])
    torch.testing.assert_close(last, expected, atol=3e-5, rtol=1e-4)
    assert not masked_attention._pairs


@pytest.mark.parametrize("layers", [[0], [1], [0, 1]])
def test_all_frequencies_give_the_intact_model_from_any_layer(model, layers):
    causal = is_decoder(model)
    states = packed_states(model, DOCUMENTS)
    for basis in (waves, random_directions(3)):
        scores = Filtered(Projections(basis, ones, causal, 20))
        last = states_scored(model, DOCUMENTS, scores, layers, states[layers[0]][0])
        torch.testing.assert_close(last, states[-1][0], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(packed_last(model, DOCUMENTS)[0], states[-1][0])


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("one", [Filter(0, "left_out"), Filter(2, "kept")], ids=str)
def test_no_loss_knows_of_a_later_token(kind, one):
    """To the last bit; a filter of the whole document, like an encoder's, does leak."""
    model = MODELS[kind]()
    other = [*DOCUMENTS[0][:-1], 17]
    for causal in (True, False):
        projections = Projections(waves, lambda n: one.kept(n, LIMITS), causal, 9)
        whole = Projections(waves, lambda n: np.arange(n) > 0, causal, 9)
        for scores in (Filtered(projections), Scaled(projections, projections, whole)):
            losses = []
            for ids in (DOCUMENTS[0], other):
                begin = packed_states(model, [ids])[0][0]
                last = states_scored(model, [ids], scores, range(2), begin)
                losses.append(document_losses(model, last, [ids])[0][:-1])
            assert np.array_equal(*losses) == causal


def test_only_the_constant_is_uniform_attention():
    """Keys that are all the same: what is left of a head is the mean of its values."""
    query, key = torch.randn(2, 1, 4, 9, 8, generator=torch.Generator().manual_seed(0))
    projections = Projections(waves, lambda n: np.arange(n) == 0, True, 9)
    scores = Filtered(projections)(query, key, [])
    for place in range(9):
        row = scores[..., place, : place + 1].softmax(dim=-1)
        torch.testing.assert_close(row, torch.full_like(row, 1 / (place + 1)))


def test_scaled_queries_and_keys_are_as_long_as_the_filtered_ones():
    query, key = torch.randn(2, 1, 2, 9, 8, generator=torch.Generator().manual_seed(0)) + 0.7
    kept = Filter(1, "left_out")
    projections = Projections(waves, lambda n: kept.kept(n, LIMITS), True, 9)
    varying = Projections(waves, lambda n: kept.kept(n, LIMITS) & (np.arange(n) > 0), True, 9)
    whole = Projections(waves, lambda n: np.arange(n) > 0, True, 9)
    scores = Scaled(projections, varying, whole)(query, key, [])
    for head, place in np.ndindex(2, 9):
        q, k = (x[0, head, : place + 1].numpy().astype(float) for x in (query, key))
        wave, mask = waves(place + 1), kept.kept(place + 1, LIMITS)
        q_kept, k_kept = (wave.T @ (mask[:, None] * (wave @ x)) for x in (q, k))
        shorter = np.linalg.norm(q_kept[-1]) / np.linalg.norm(q[-1])
        lengths = [np.linalg.norm(x - x.mean(axis=0)) for x in (k_kept, k)]
        factor = shorter * (lengths[0] / lengths[1] if place else 1)
        expected = factor * (k @ q[-1])
        np.testing.assert_allclose(scores[0, head, place, : place + 1], expected, rtol=1e-4)


# --- The measurement ------------------------------------------------------------------------------


def text(lengths: tuple[int, ...] = (12, 9, 14, 1)) -> SimpleNamespace:
    """Documents of random tokens."""
    generator = np.random.default_rng(0)
    ids = [generator.integers(1, 40, size=length).tolist() for length in lengths]
    return SimpleNamespace(ids=ids, lengths=np.array(lengths), path="tokens.parquet")


def test_a_measurement_is_a_loop_over_documents():
    model = gpt2()
    result = step.measure(PARAMETERS, model, text()).as_json()
    documents = [ids[:12] for ids in text().ids if len(ids) > 1]
    assert (result["documents"], result["tokens"]) == (3, 33)
    assert [
        (filter_result["band"], filter_result["way"]) for filter_result in result["filters"]
    ] == [(band, way) for band in ("mean", 0, 1, 2) for way in ("kept", "left_out")]
    for filter_result in result["filters"]:
        chosen = Filter(filter_result["band"], filter_result["way"])
        for layers, entry in (([0, 1], filter_result), ([1], filter_result["layers"][1])):
            projections = Projections(waves, lambda n, c=chosen: c.kept(n, LIMITS), True, 12)
            losses, intact, distances = [], [], []
            for ids in documents:
                states = packed_states(model, [ids])
                last = states_scored(
                    model, [ids], Filtered(projections), layers, states[layers[0]][0]
                )
                losses += document_losses(model, last, [ids])[0].tolist()
                intact += document_losses(model, states[-1][0], [ids])[0].tolist()
                cosine = torch.cosine_similarity(last, states[-1][0], dim=-1)
                distances += (1 - cosine).tolist()
            cost = entry["cost"]
            difference = np.mean(losses) - np.mean(intact)
            assert cost["delta_nll"]["value"] == pytest.approx(difference, abs=1e-5)
            assert cost["distance"]["value"] == pytest.approx(np.mean(distances), abs=1e-5)
            for control in step.CONTROLS:
                beyond = cost["delta_nll"]["value"] - entry[control]["delta_nll"]["value"]
                assert entry[f"beyond_{control}"]["delta_nll"]["value"] == pytest.approx(beyond)
        assert [row["layer"] for row in filter_result["layers"]] == [0, 1]
    shares = {
        (filter_result["band"], filter_result["way"]): filter_result["share"]
        for filter_result in result["filters"]
    }
    seen = [n for ids in documents for n in range(1, len(ids) + 1)]
    assert shares["mean", "kept"] == pytest.approx(np.mean([1 / n for n in seen]))
    assert sum(shares[band, "kept"] for band in range(3)) == pytest.approx(1)
    for band in ("mean", 0, 1, 2):
        assert shares[band, "kept"] + shares[band, "left_out"] == pytest.approx(1)


def test_an_encoder_has_no_loss():
    result = step.measure(PARAMETERS, bert(), text()).as_json()
    assert result["nll"] is None and not result["is_causal"]
    for filter_result in result["filters"]:
        for entry in (filter_result, *filter_result["layers"]):
            assert {entry[part]["delta_nll"] for part in ("cost", *step.CONTROLS)} == {None}
            assert entry["cost"]["distance"]["value"] >= 0


D_MODEL, PERIOD = 20, 4


def periodic() -> GPT2LMHeadModel:
    """A model that copies the token one period back, found by a wave of position alone.

    Features 0 to 15 are the token; 16 and 17 are a wave of position; the last two balance them.
    """
    config = GPT2Config(vocab_size=16, n_positions=48, n_embd=D_MODEL, n_layer=1, n_head=1,
                        tie_word_embeddings=False)  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        block, inner = model.transformer.h[0], model.transformer
        for norm in (block.ln_1, block.ln_2, inner.ln_f):
            norm.weight.fill_(1)
        inner.wte.weight[:, :16] = torch.eye(16)
        angle = 2 * np.pi * torch.arange(48) / PERIOD
        wave = torch.stack([angle.cos(), angle.sin()], dim=1)  # [positions, 2]
        inner.wpe.weight[:, 16:18], inner.wpe.weight[:, 18:] = wave, -wave
        # The next token's wave is a quarter further: keys a period before it are one ahead.
        turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
        block.attn.c_attn.weight[16:18, :2] = 6 * turn
        block.attn.c_attn.weight[16:18, D_MODEL : D_MODEL + 2] = 6 * torch.eye(2)
        block.attn.c_attn.weight[:16, 2 * D_MODEL : 2 * D_MODEL + 16] = torch.eye(16)
        block.attn.c_proj.weight[:16, :16] = 8 * torch.eye(16)
        model.lm_head.weight[:, :16] = 2 * torch.eye(16)
    return model


def test_a_planted_wave_is_what_its_band_costs():
    generator = np.random.default_rng(1)
    ids = [np.tile(generator.permutation(16)[:PERIOD], 12).tolist() for _ in range(6)]
    given_text = SimpleNamespace(ids=ids, lengths=np.full(6, 48), path="tokens.parquet")
    parameters = PARAMETERS.model_copy(update={"documents": 6, "tokens": 48, "bands": [0.1, 0.4]})
    result = step.measure(parameters, periodic(), given_text).as_json()
    cost = {
        (filter_result["band"], filter_result["way"]): filter_result["cost"]["delta_nll"]["value"]
        for filter_result in result["filters"]
    }
    assert result["nll"]["value"] < 1
    # 1 / PERIOD lies in the band from 0.1 to 0.4. Without it, any of four tokens is read.
    assert min(cost[1, "left_out"], cost[0, "kept"], cost[2, "kept"]) > 0.8
    for increase in (cost[1, "kept"], cost[0, "left_out"], cost[2, "left_out"]):
        assert abs(increase) < 0.2


def test_too_few_documents_name_the_field():
    with pytest.raises(ArtifactError, match=r"measurements\.filtered_loss\.documents is 3: lower"):
        step.measure(PARAMETERS, gpt2(), text((12, 1, 14)))


def test_bands_that_do_not_rise_are_refused():
    with pytest.raises(ValueError, match="must rise"):
        FilteredLoss(**{**PARAMETERS.model_dump(), "bands": [0.3, 0.1]})


# --- Numbers and the figure -----------------------------------------------------------------------


def test_numbers_are_those_of_their_filter():
    measurement = distinct(
        made_up.filtered_loss("decoder", "reviews", True), kept={"band", "layer"}
    )
    quantities = numbers.QUANTITIES.read(measurement)
    assert set(quantities) == set(numbers.QUANTITIES.names)
    entries = {(entry["way"], entry["band"]): entry for entry in measurement["filters"]}
    for name, way in (("without", "left_out"), ("only", "kept")):
        for band, place in (("mean", "mean"), ("low", 0), ("middle", 1), ("high", 2)):
            entry, key = entries[way, place], f"{name}.{band}"
            for part in ("delta_nll", "distance"):
                assert quantities[f"{key}.{part}"] == expected(entry["cost"][part])
                for of in ("random", "scaled", "beyond_random", "beyond_scaled"):
                    assert quantities[f"{key}.{of}.{part}"] == expected(entry[of][part])
                # Numbers rise along the file: the last layer has the largest.
                last = entry["layers"][-1]
                assert quantities[f"{key}.most.{part}"] == expected(last["cost"][part])
            assert quantities[f"{key}.most.layer"].value == 3


def test_numbers_of_an_encoder_are_distances():
    quantities = numbers.QUANTITIES.read(made_up.filtered_loss("minilm", "reviews", False))
    assert quantities["without.low.delta_nll"].reason == "an encoder has no loss"
    assert quantities["without.low.distance"].value == pytest.approx(0.05)
    assert quantities["without.low.most.layer"].value == 0


@pytest.mark.parametrize("is_decoder", [True, False])
def test_the_figure_shows_what_was_measured(is_decoder):
    measurement = made_up.filtered_loss("minilm", "sample_reviews", is_decoder)
    other = made_up.filtered_loss("decoder", "sample_reviews", True)
    drawn = figure.draw([measurement, other], SECTIONS.filtered_loss, STYLE)
    above, below = drawn.axes[:2]
    part = "delta_nll" if is_decoder else "distance"
    entries = [e for way in ("left_out", "kept") for e in measurement["filters"] if e["way"] == way]
    lines = {line.get_label(): line for line in above.lines}
    for name, label in figure.PARTS.items():
        assert list(lines[label].get_xdata()) == [entry[name][part]["value"] for entry in entries]
    names = [label.get_text() for label in above.get_yticklabels()]
    assert names[0] == "all but the mean" and names[5] == "only below 0.023 / token"
    lines = {line.get_label(): line for line in below.lines}
    for name, entry in zip(names[:4], entries, strict=False):
        values = [row["cost"][part]["value"] for row in entry["layers"]]
        assert list(lines[name].get_ydata()) == values
    assert ("nats" in above.get_xlabel()) == is_decoder
    check_texts(drawn)


def test_the_figure_without_measurements_says_so():
    drawn = figure.draw([], SECTIONS.filtered_loss, STYLE)
    assert "no queries and keys were filtered" in "\n".join(
        label.get_text() for label in texts(drawn)
    )
