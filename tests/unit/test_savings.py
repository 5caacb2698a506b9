"""What positions take, and whose caches can be shared: by the library's own cache, and by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from posenc.artifacts.files import ArtifactError
from posenc.capture.caches import cache_of, positions_at_hand
from posenc.capture.parts import body, first_position, is_decoder
from posenc.measurements.of_models import CellsJob
from posenc.measurements.savings import measure as step
from posenc.measurements.savings.declaration import Savings
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.caches import ROUNDED, relative_differences
from posenc.models.affine import ready

from .runs import made_of_weights
from .small_models import TEXT, random_model
from .test_effective_keys import IDS, MODELS, bert, gpt2, llama
from .test_swaps import write_text

PARAMETERS = Savings(
    documents=3, tokens=9, offsets=[1, 20], bootstrap_samples=100, confidence=0.9, seed=0
)


@pytest.fixture(params=[*MODELS, "roberta"])
def model(request):
    torch.manual_seed(3)
    network = random_model("roberta") if request.param == "roberta" else MODELS[request.param]()
    for name, weight in network.named_parameters():
        if weight.dim() == 1 and "norm" not in name.lower():
            torch.nn.init.normal_(weight, std=0.3)  # biases that matter
    return network


@pytest.fixture
def text(tmp_path):
    words = TEXT.split()
    texts = [" ".join(words[begin : begin + 5 + begin]) for begin in range(6)]
    return write_text(tmp_path / "text", texts)[0]


def library(model, offset: int):
    """Each layer's keys and values, as the library keeps them or its modules give them."""
    places = torch.arange(len(IDS))[None] + offset + first_position(model)
    given = {"input_ids": torch.tensor([IDS]), "position_ids": places}
    with torch.inference_mode():
        if is_decoder(model):
            cache = body(model)(**given, use_cache=True).past_key_values
            return [(layer_cache.keys[0], layer_cache.values[0]) for layer_cache in cache.layers]
        states = model(**given, output_hidden_states=True).hidden_states
        maps = [layer.attention.self for layer in model.encoder.layer]
        return [
            tuple(
                part(state)[0].unflatten(-1, (attention.num_attention_heads, -1)).transpose(0, 1)
                for part in (attention.key, attention.value)
            )
            for attention, state in zip(maps, states, strict=False)
        ]


@pytest.mark.parametrize("offset", [0, 7])
@pytest.mark.parametrize("is_ready", [False, True])
def test_a_cache_is_the_librarys_own(model, offset, is_ready):
    expected = library(model, offset)
    cache = cache_of(ready(model) if is_ready else model, IDS, offset)
    assert len(cache.keys) == len(cache.values) == len(expected) == 2
    for keys, values, (own_keys, own_values) in zip(*cache, expected, strict=True):
        groups = len(keys) // len(own_keys)
        np.testing.assert_allclose(
            keys, own_keys.repeat_interleave(groups, dim=0).numpy(), rtol=0, atol=2e-5
        )
        flat = own_values.transpose(0, 1).flatten(1)  # [tokens, key_value_heads * d_head]
        np.testing.assert_allclose(values, flat.numpy(), rtol=0, atol=2e-5)
    # Hooks are gone: nothing is added to positions, nothing is kept.
    again = cache_of(model, IDS, offset)
    np.testing.assert_array_equal(again.keys[1], cache.keys[1])
    assert len(again.values) == len(cache.values) == 2


def test_a_rotary_cache_can_be_turned_on_and_a_tables_cannot(model):
    differences = {
        (way, offset): pair
        for way, offset, pair in step.document_differences(model, IDS, PARAMETERS.offsets)
    }
    is_rotary = model.config.model_type == "llama"
    ways = ["intact", "turned", "zero"] if is_rotary else ["intact", "zero"]
    assert set(differences) == {(way, offset) for way in ways for offset in PARAMETERS.offsets}
    for (way, _), (keys, values) in differences.items():  # [n_layers, tokens] each
        assert keys.shape == values.shape == (2, len(IDS))
        if way == "zero":
            assert not keys.any() and not values.any()  # to the bit
        elif way == "turned":
            assert 0 < keys.max() < 2e-5 and values.max() < 2e-5
            assert not values[0].any()  # nothing has been turned yet
        else:
            assert (keys.min(axis=1) > 1e-3).all()
            assert values.max() < 2e-5 if is_rotary else (values.min(axis=1) > 1e-3).all()


def test_parameters_are_counted_once_and_caches_by_their_heads():
    for network, heads in ((gpt2(), 4), (bert(), 4), (llama(), 2)):
        sizes = step.sizes(network)
        assert sizes.bytes_per_cached_token == 2 * 2 * heads * 4 * 4
        count = sum(weight.numel() for weight in dict(network.named_parameters()).values())
        assert sizes.parameters.all == count == network.num_parameters()
        rows = 0 if heads == 2 else 32
        assert sizes.parameters.positions == rows * 16
        assert sizes.parameters.bytes == 4 * rows * 16
        assert sizes.parameters.share == rows * 16 / count
    # RoBERTa's rows for padding are parameters, not positions.
    roberta = random_model("roberta")
    assert step.sizes(roberta).parameters.positions == 48 * 16
    assert positions_at_hand(roberta) == 46
    assert (positions_at_hand(gpt2()), positions_at_hand(llama())) == (32, 32)


def test_results_are_means_over_tokens_and_what_is_kept_is_counted_by_layer():
    rng = np.random.default_rng(0)
    differences = [rng.uniform(0.1, 1, size=(2, 3, tokens)) for tokens in (4, 7, 5)]
    for document in differences:
        document[1, :2] = 0  # values of two layers of three
    differences[2][1, 1, 3] = ROUNDED
    differences[1][1, 2] *= ROUNDED
    result = step.results(PARAMETERS, "intact", 1, differences).as_json()
    assert result["kept"] == pytest.approx(2 / 6)
    every = np.concatenate(differences, axis=-1)  # [kinds, n_layers, tokens]
    assert result["keys"]["largest"] == every[0].max()
    assert result["values"]["mean"]["value"] == pytest.approx(every[1].mean())
    for layer, entry in enumerate(result["layers"]):
        assert entry["layer"] == layer
        assert entry["values"]["largest"] == every[1, layer].max()
        sums = [own[0, layer].sum() for own in differences]
        expected = ratio_bootstrap(sums, [4, 7, 5], 100, 0.9, 0).as_json()
        assert entry["keys"]["mean"] == pytest.approx(expected)
    differences[2][1, 1, 3] = 1.001 * ROUNDED
    assert step.results(PARAMETERS, "intact", 1, differences).kept == pytest.approx(1 / 6)


def test_the_step_measures_a_text(model, text):
    result = step.measure(PARAMETERS, model, text).as_json()
    is_rotary = model.config.model_type == "llama"
    kept = {(entry["way"], entry["offset"]): entry["kept"] for entry in result["caches"]}
    for offset in PARAMETERS.offsets:
        assert kept["zero", offset] == 1
        assert kept["intact", offset] == (0.5 if is_rotary else 0)
        assert kept.get(("turned", offset)) == (1 if is_rotary else None)
    assert (result["documents"], result["confidence"]) == (3, 0.9)
    json.dumps(result, allow_nan=False)


def test_what_does_not_fit_the_positions_is_not_run(text):
    far = PARAMETERS.model_copy(update={"offsets": [1, 30]})
    result = step.measure(far, gpt2(), text).as_json()
    assert result["status"] == "not run"
    assert "measurements.savings.offsets" in result["reason"] and "32 positions" in result["reason"]
    longest = max(len(ids) for ids in text.ids[:])
    edge = PARAMETERS.model_copy(update={"documents": len(text.ids), "tokens": 100})
    fits = edge.model_copy(update={"offsets": [32 - longest]})
    assert "caches" in step.measure(fits, gpt2(), text).as_json()
    over = edge.model_copy(update={"offsets": [33 - longest]})
    assert step.measure(over, gpt2(), text).as_json()["status"] == "not run"
    many = PARAMETERS.model_copy(update={"documents": 1000})
    with pytest.raises(ArtifactError, match=r"measurements\.savings\.documents"):
        step.measure(many, gpt2(), text)


@pytest.mark.parametrize(
    ("call_", "message"),
    [
        (lambda: relative_differences([[0.0, 0.0]], [[1.0, 0.0]]), "zero"),
        (lambda: relative_differences([[np.inf, 0.0]], [[1.0, 0.0]]), "not finite"),
        (lambda: relative_differences([1.0, 0.0], [1.0]), "shapes"),
        (lambda: Savings(**{**PARAMETERS.model_dump(), "offsets": [4, 1]}), "must rise"),
    ],
)
def test_what_cannot_be_is_refused(call_, message):
    with pytest.raises(ValueError, match=message):
        call_()


def test_the_command_writes_the_same_bytes_again(tmp_path, text):
    job = CellsJob[Savings](
        parameters=PARAMETERS, datasets=["text"], reading={"family": "gpt2", "max_tokens": 48}
    )
    result = made_of_weights(step, tmp_path, text, job)
    assert result["status"] == "measured" and result["catalogue"] == ["A1", "F1"]
