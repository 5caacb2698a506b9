"""How many keys attention reads: by hand, by loops, and by the library's own attention."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from posenc.architectures.attention import recording
from posenc.artifacts.files import ArtifactError
from posenc.capture import masked_attention, reading
from posenc.capture.capture import packed_last
from posenc.capture.parts import is_decoder
from posenc.capture.reading import CHOICES, Reading, read, states_reading
from posenc.measurements.effective_keys import figure as figure
from posenc.measurements.effective_keys import measure as step
from posenc.measurements.effective_keys import quantities as numbers
from posenc.measurements.effective_keys import result as types
from posenc.measurements.effective_keys.declaration import EffectiveKeys
from posenc.metrics.effective_keys import PARTS, parts
from posenc.metrics.patterns import attention_pattern

from . import synthetic_experiments as made_up
from .test_figures import SECTIONS, STYLE, texts

PARAMETERS = EffectiveKeys(
    documents=3, tokens=12, keys=[1, 4], bootstrap_samples=100, confidence=0.9, seed=0
)
IDS = [5, 9, 2, 30, 7, 7, 4, 12, 3]


def gpt2(positions: int = 32) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=40, n_positions=positions, n_embd=16, n_layer=2, n_head=4, initializer_range=0.6
    )
    return GPT2LMHeadModel(config).eval()


def llama() -> LlamaForCausalLM:
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, initializer_range=0.6,
                         max_position_embeddings=32)  # fmt: skip
    return LlamaForCausalLM(config).eval()


def bert(positions: int = 32) -> BertModel:
    torch.manual_seed(2)
    config = BertConfig(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                        num_attention_heads=4, max_position_embeddings=positions,
                        initializer_range=0.6)  # fmt: skip
    return BertModel(config, add_pooling_layer=False).eval()


MODELS = {"gpt2": gpt2, "llama": llama, "bert": bert}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def patterns_of(model, ids: list[int]) -> list[np.ndarray]:
    """The library's own attention patterns, [n_heads, tokens, tokens] of each layer."""
    former = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        patterns = model(torch.tensor([ids]), output_attentions=True).attentions
    model.set_attn_implementation(former)
    return [pattern[0].numpy() for pattern in patterns]


def last_of(model, ids: list[int]) -> torch.Tensor:
    """The library's own last hidden states, [tokens, d_model]."""
    with torch.inference_mode():
        return model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0]


@given(st.integers(1, 20))
def test_equal_keys_are_counted(count):
    pattern = np.zeros(25)
    pattern[3 : 3 + count] = 1 / count
    assert math.exp(parts(pattern)[0]) == pytest.approx(count, rel=1e-12)


@given(st.integers(0, 100))
def test_entropy_is_scipys(seed):
    pattern = np.random.default_rng(seed).dirichlet(np.ones(7), size=3)  # [3, keys]
    np.testing.assert_allclose(parts(pattern)[..., 0], stats.entropy(pattern, axis=-1), rtol=1e-12)


def test_parts_by_hand():
    # The first key has half; of the rest, two keys share alike.
    result = dict(zip(PARTS, parts([0.5, 0.25, 0.25, 0.0]), strict=True))
    assert result["entropy"] == pytest.approx(1.5 * math.log(2))
    assert result["others"] == pytest.approx(math.log(2))
    assert (result["first"], result["largest"]) == (0.5, 0.5)
    assert parts([1.0, 0.0])[1] == 0  # nothing is left to the others


def test_the_patterns_are_the_librarys(model):
    with torch.inference_mode(), recording() as recorded:
        last = packed_last(model, [IDS])[0]
    causal = is_decoder(model)
    for layer, theirs in enumerate(patterns_of(model, IDS)):
        both = (vectors[layer][0].numpy() for vectors in (recorded.queries, recorded.keys))
        np.testing.assert_allclose(attention_pattern(*both, causal=causal), theirs, atol=3e-6)
    torch.testing.assert_close(last, last_of(model, IDS), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("choice", CHOICES)
def test_reading_every_key_changes_nothing(model, choice):
    former = model.config._attn_implementation
    last = states_reading(model, IDS, Reading(choice, len(IDS)))
    torch.testing.assert_close(last, last_of(model, IDS), atol=2e-5, rtol=1e-5)
    assert model.config._attn_implementation == former
    assert not masked_attention._pairs
    fewer = states_reading(model, IDS, Reading(choice, 2))
    assert (fewer[-1] - last[-1]).abs().max() > 1e-3


def test_the_strongest_keys_of_the_first_layer_keep_their_ratios(model, monkeypatch):
    products, call = [], reading._FewKeys.__call__

    def kept(self, query, key, documents):
        products.append(call(self, query, key, documents) * query.shape[-1] ** -0.5)
        return products[-1] / query.shape[-1] ** -0.5

    monkeypatch.setattr(reading._FewKeys, "__call__", kept)
    states_reading(model, IDS, Reading("strongest", 2))
    patterns = products[0][0].softmax(dim=-1).numpy()  # [n_heads, tokens, tokens]
    intact = patterns_of(model, IDS)[0]  # [n_heads, tokens, tokens]
    for head, query in np.ndindex(intact.shape[:2]):
        row = intact[head, query]
        best = np.argsort(-row)[:2]
        expected = np.zeros(len(row))
        expected[best] = row[best] / row[best].sum()
        np.testing.assert_allclose(patterns[head, query], expected, atol=1e-6)
    assert len(products) == 2  # each layer's


def scores(tokens: int, *, causal: bool) -> torch.Tensor:
    """Random scores [1, 2, tokens, tokens]."""
    random_scores = torch.randn(1, 2, tokens, tokens, generator=torch.Generator().manual_seed(0))
    future = torch.full((tokens, tokens), -torch.inf).triu_(1)
    return random_scores + future if causal else random_scores


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("choice", CHOICES)
def test_a_query_reads_as_many_keys_as_it_may_and_sees(choice, causal):
    given_scores = scores(9, causal=causal)
    chosen = read(given_scores, Reading(choice, 3))  # [1, 2, tokens, tokens]
    seen = (given_scores > -torch.inf).sum(dim=-1)
    assert torch.equal(chosen.sum(dim=-1), seen.clamp(max=3))
    assert not (chosen & (given_scores == -torch.inf)).any()


def test_the_nearest_keys_by_hand():
    chosen = read(scores(5, causal=False), Reading("nearest", 2))[0, 0]
    assert [row.nonzero()[:, 0].tolist() for row in chosen] == [
        [0, 1], [0, 1], [1, 2], [2, 3], [3, 4],
    ]  # fmt: skip


def test_the_first_key_and_the_nearest_by_hand():
    chosen = read(scores(5, causal=True), Reading("first_nearest", 2))[0, 0]
    assert [row.nonzero()[:, 0].tolist() for row in chosen] == [[0], [0, 1], [0, 2], [0, 3], [0, 4]]
    alone = read(scores(5, causal=False), Reading("first_nearest", 1))[0, 0]
    assert [row.nonzero()[:, 0].tolist() for row in alone] == [[0]] * 5


def test_random_keys_differ_by_layer_and_seed():
    draw = [
        read(scores(9, causal=True), Reading("random", 2, seed), layer)
        for seed, layer in ((0, 0), (0, 0), (0, 1), (5, 0))
    ]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])
    assert not torch.equal(draw[0], draw[3])


def text(lengths: tuple[int, ...] = (12, 9, 14, 2)) -> SimpleNamespace:
    """Documents of random tokens."""
    generator = np.random.default_rng(0)
    ids = [generator.integers(1, 40, size=length).tolist() for length in lengths]
    return SimpleNamespace(ids=ids, lengths=np.array(lengths), path="tokens.parquet")


def test_a_measurement_is_a_loop_over_queries(model):
    result = step.measure(PARAMETERS, model, text()).as_json()
    causal = result["is_causal"]
    expected = {"keys": [], "others": [], "first": [], "largest": []}
    for ids in [ids[:12] for ids in text().ids if len(ids) > 2]:
        for layer in patterns_of(model, ids):
            for head, query in np.ndindex(layer.shape[:2]):
                row = layer[head, query, : query + 1 if causal else None].astype(float)
                if len(row) >= 3:
                    expected["keys"].append(stats.entropy(row))
                    expected["others"].append(stats.entropy(row[1:] / row[1:].sum()))
                    expected["first"].append(row[0])
                    expected["largest"].append(row.max())
    for name in ("keys", "others"):
        assert result[name]["value"] == pytest.approx(math.exp(np.mean(expected[name])), rel=1e-5)
    for name in ("first", "largest"):
        assert result[name]["value"] == pytest.approx(np.mean(expected[name]), rel=1e-5)
    assert result["tokens"] == len(expected["keys"]) // (2 * 4)
    assert len(result["layers"]) == 2 and len(result["layers"][0]["heads"]) == 4
    layers = [row["first"]["value"] for row in result["layers"]]
    assert np.mean(layers) == pytest.approx(result["first"]["value"])
    heads = [head["first"]["value"] for head in result["layers"][1]["heads"]]
    assert np.mean(heads) == pytest.approx(layers[1])


def test_queries_are_grouped_by_the_octave_of_the_keys_that_they_see():
    result = step.measure(PARAMETERS, gpt2(), text((12, 9, 14))).as_json()
    assert [row["from"] for row in result["lengths"]] == [3, 4, 8]
    # 4, 5, 6 and 7 keys, once a document.
    assert result["lengths"][1]["seen"] == pytest.approx((4 * 5 * 6 * 7) ** 0.25)
    assert step.octaves(np.array([1, 2, 3, 4, 7, 8])).tolist() == [0, 1, 1, 2, 2, 3]


def test_an_encoder_is_measured_on_texts_that_are_cut():
    model, ids = bert(), text((12, 9, 14)).ids
    result = step.measure(PARAMETERS, model, text((12, 9, 14))).as_json()
    rows = {row["from"]: row for row in result["lengths"]}
    assert list(rows) == [4, 8] and rows[8]["seen"] == pytest.approx(8)
    # [documents][n_layers, n_heads, 8, 8]
    own = [patterns_of(model, document[:8]) for document in ids]
    entropies = [
        stats.entropy(np.asarray(layer, float), axis=-1) for patterns in own for layer in patterns
    ]
    assert rows[8]["keys"]["value"] == pytest.approx(math.exp(np.mean(entropies)), rel=1e-5)
    assert rows[8]["documents"] == 3


@pytest.mark.parametrize("exponent", [0.0, 0.4, 1.0])
def test_growth_is_the_exponent_of_patterns_that_were_made_so(exponent):
    rng = np.random.default_rng(0)
    queries = rng.integers(3, 9, size=(6, step.OCTAVES)) * 1.0  # [documents, OCTAVES]
    queries[:, 9:] = queries[:, 0] = 0
    queries[:3, 8] = 0  # half of the documents reach it
    queries[:4, 7] = 0  # fewer: it is left out
    logs = queries * np.log(2.0) * (np.arange(step.OCTAVES) + 0.5)  # [documents, OCTAVES]
    of_heads = np.zeros((6, step.OCTAVES, 2, 2, len(PARTS)))
    of_heads[..., 0] = exponent * logs[..., None, None]
    lengths, growth = step.length_results(PARAMETERS, queries, logs, of_heads)
    assert [row.least for row in lengths] == [3, 4, 8, 16, 32, 64, 256]
    assert [row.documents for row in lengths] == [6] * 6 + [3]
    assert growth.numbers == pytest.approx([exponent] * 3, abs=1e-9)
    only = np.where(np.arange(step.OCTAVES) == 4, queries, 0)
    assert step.length_results(PARAMETERS, only, logs, of_heads)[1] is None


def test_losses_and_cosines_are_those_of_the_states_read():
    model = gpt2()
    result = step.measure(PARAMETERS, model, text((12, 9, 14))).as_json()
    entries = {(entry["choice"], entry["keys"]): entry for entry in result["reading"]}
    assert set(entries) == {("every", None), *((way, keys) for way in CHOICES for keys in (1, 4))}
    with torch.inference_mode():
        losses = [
            torch.nn.functional.cross_entropy(
                model(torch.tensor([ids])).logits[0, :-1], torch.tensor(ids[1:]), reduction="none"
            )
            for ids in [ids[:12] for ids in text((12, 9, 14)).ids]
        ]
    intact = entries["every", None]
    assert intact["nll"]["value"] == pytest.approx(torch.cat(losses).mean().item(), rel=1e-5)
    assert (intact["delta_nll"]["value"], intact["cosine"]["value"]) == (0, pytest.approx(1))
    for (way, keys), entry in entries.items():
        difference = entry["nll"]["value"] - intact["nll"]["value"]
        assert entry["delta_nll"]["value"] == pytest.approx(difference)
        if keys == 4:
            assert entries[way, 1]["cosine"]["value"] < entry["cosine"]["value"] < 1


def test_an_encoder_has_no_loss():
    result = step.measure(PARAMETERS, bert(), text()).as_json()
    assert {entry["nll"] for entry in result["reading"]} == {None}
    assert {entry["delta_nll"] for entry in result["reading"]} == {None}


def test_too_few_documents_name_the_field():
    with pytest.raises(ArtifactError, match=r"measurements\.effective_keys\.documents is 3: lower"):
        step.measure(PARAMETERS, gpt2(), text((12, 2, 14)))


def test_numbers_of_the_ways_to_read():
    measurement = made_up.effective_keys("decoder", "reviews", True)
    measurement["layers"][2]["keys"] = made_up.estimate(2.0)
    measurement["layers"][1]["keys"] = made_up.estimate(31.0)
    quantities = numbers.QUANTITIES.read(measurement)
    ends = {f"{way}.{part}" for way in numbers.READ for part in numbers.COST}
    ways = {f"{choice}.{keys}" for choice in CHOICES for keys in (1, 4, 16)}
    read = {f"{way}.{part}" for way in ways for part in numbers.COST}
    assert set(quantities) == set(numbers.QUANTITIES.names) - ends | read
    assert quantities["seen"].value == 40
    assert (quantities["fewest"].value, quantities["fewest.layer"].value) == (2.0, 2)
    assert (quantities["most"].value, quantities["most.layer"].value) == (31.0, 1)
    assert quantities["strongest.4.delta_nll"].value == pytest.approx(0.25)
    assert (
        quantities["seen_16.others"].value == pytest.approx(9) and quantities["growth"].value == 0.5
    )
    assert quantities["seen_128.keys"].reason == "documents are too short"
    assert quantities["random.16.cosine"].value == pytest.approx(1 - 3 / 16 / 4)
    encoder = numbers.QUANTITIES.read(made_up.effective_keys("minilm", "reviews", False))
    assert encoder["nearest.1.delta_nll"].reason == "an encoder has no loss"
    measurement["reading"] = measurement["reading"][:1]
    assert not any(key.startswith("nearest") for key in numbers.QUANTITIES.read(measurement))


@pytest.mark.parametrize("is_decoder", [True, False])
def test_the_figure_shows_what_was_measured(is_decoder):
    measurement = made_up.effective_keys("minilm", "sample_reviews", is_decoder)
    drawn = figure.draw([measurement], SECTIONS.effective_keys, STYLE)
    above, middle, below = drawn.axes
    lines = {line.get_label(): line.get_ydata() for line in above.lines}
    for name, label in figure.SERIES.items():
        assert list(lines[label]) == [row[name]["value"] for row in measurement["layers"]]
    lines = {line.get_label(): line.get_xydata() for line in middle.lines}
    for name, label in figure.SERIES.items():
        expected = [(row["seen"], row[name]["value"]) for row in measurement["lengths"]]
        assert lines[label].tolist() == [list(pair) for pair in expected]
    lines = {line.get_label(): line.get_ydata() for line in below.lines}
    for choice, label in figure.CHOICES.items():
        entries = [entry for entry in measurement["reading"] if entry["choice"] == choice]
        expected = [
            entry["delta_nll"]["value"] if is_decoder else 1 - entry["cosine"]["value"]
            for entry in entries
        ]
        assert list(lines[label]) == expected
    assert ("nats" in below.get_ylabel()) == is_decoder
    costs = figure.costs(types.EffectiveKeys.of(measurement), "nearest").values()
    assert all(each.low <= each.value <= each.high for each in costs)


def test_the_figure_without_measurements_says_so():
    drawn = figure.draw([], SECTIONS.effective_keys, STYLE)
    assert "no attention was measured" in "\n".join(label.get_text() for label in texts(drawn))
