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
    made = random_model("roberta") if request.param == "roberta" else MODELS[request.param]()
    for name, weight in made.named_parameters():
        if weight.dim() == 1 and "norm" not in name.lower():
            torch.nn.init.normal_(weight, std=0.3)  # biases that count
    return made


@pytest.fixture
def text(tmp_path):
    words = TEXT.split()
    texts = [" ".join(words[begin : begin + 5 + begin]) for begin in range(6)]
    return write_text(tmp_path / "text", texts)[0]


def library(model, offset: int):
    """Keys and values of each layer that the library itself keeps, or that its modules give."""
    places = torch.arange(len(IDS))[None] + offset + first_position(model)
    given = {"input_ids": torch.tensor([IDS]), "position_ids": places}
    with torch.inference_mode():
        if is_decoder(model):
            made = body(model)(**given, use_cache=True).past_key_values
            return [(one.keys[0], one.values[0]) for one in made.layers]
        states = model(**given, output_hidden_states=True).hidden_states
        maps = [layer.attention.self for layer in model.encoder.layer]
        return [
            tuple(
                part(state)[0].unflatten(-1, (one.num_attention_heads, -1)).transpose(0, 1)
                for part in (one.key, one.value)
            )
            for one, state in zip(maps, states, strict=False)
        ]


@pytest.mark.parametrize("offset", [0, 7])
@pytest.mark.parametrize("is_ready", [False, True])
def test_a_cache_is_the_librarys_own(model, offset, is_ready):
    expected = library(model, offset)
    found = cache_of(ready(model) if is_ready else model, IDS, offset)
    assert len(found.keys) == len(found.values) == len(expected) == 2
    for keys, values, (own_keys, own_values) in zip(*found, expected, strict=True):
        groups = len(keys) // len(own_keys)
        np.testing.assert_allclose(
            keys, own_keys.repeat_interleave(groups, dim=0).numpy(), rtol=0, atol=2e-5
        )
        flat = own_values.transpose(0, 1).flatten(1)  # [tokens, key_value_heads * d_head]
        np.testing.assert_allclose(values, flat.numpy(), rtol=0, atol=2e-5)
    # Hooks are gone: nothing is added to positions, nothing is kept.
    again = cache_of(model, IDS, offset)
    np.testing.assert_array_equal(again.keys[1], found.keys[1])
    assert len(again.values) == len(found.values) == 2


def test_a_rotary_cache_can_be_turned_on_and_a_tables_cannot(model):
    found = {
        (way, offset): one
        for way, offset, one in step.document_differences(model, IDS, PARAMETERS.offsets)
    }
    is_rotary = model.config.model_type == "llama"
    ways = ["intact", "turned", "zero"] if is_rotary else ["intact", "zero"]
    assert set(found) == {(way, offset) for way in ways for offset in PARAMETERS.offsets}
    for (way, _), (keys, values) in found.items():  # [n_layers, tokens] each
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
    for made, heads in ((gpt2(), 4), (bert(), 4), (llama(), 2)):
        found = step.sizes(made)
        assert found["bytes_per_cached_token"] == 2 * 2 * heads * 4 * 4
        count = sum(weight.numel() for weight in dict(made.named_parameters()).values())
        assert found["parameters"]["all"] == count == made.num_parameters()
        rows = 0 if heads == 2 else 32
        assert found["parameters"]["positions"] == rows * 16
        assert found["parameters"]["bytes"] == 4 * rows * 16
        assert found["parameters"]["share"] == rows * 16 / count
    # RoBERTa's rows for padding are parameters, but no positions.
    roberta = random_model("roberta")
    assert step.sizes(roberta)["parameters"]["positions"] == 48 * 16
    assert positions_at_hand(roberta) == 46
    assert (positions_at_hand(gpt2()), positions_at_hand(llama())) == (32, 32)


def test_results_are_means_over_tokens_and_what_is_kept_is_counted_by_layer():
    rng = np.random.default_rng(0)
    found = [rng.uniform(0.1, 1, size=(2, 3, tokens)) for tokens in (4, 7, 5)]
    for one in found:
        one[1, :2] = 0  # values of two layers of three
    found[2][1, 1, 3] = ROUNDED
    found[1][1, 2] *= ROUNDED
    made = step.results(PARAMETERS, found)
    assert made["kept"] == pytest.approx(2 / 6)
    every = np.concatenate(found, axis=-1)  # [kinds, n_layers, tokens]
    assert made["keys"]["largest"] == every[0].max()
    assert made["values"]["mean"]["value"] == pytest.approx(every[1].mean())
    for layer, one in enumerate(made["layers"]):
        assert one["layer"] == layer
        assert one["values"]["largest"] == every[1, layer].max()
        sums = [own[0, layer].sum() for own in found]
        expected = ratio_bootstrap(sums, [4, 7, 5], 100, 0.9, 0).as_json()
        assert one["keys"]["mean"] == pytest.approx(expected)
    found[2][1, 1, 3] = 1.001 * ROUNDED
    assert step.results(PARAMETERS, found)["kept"] == pytest.approx(1 / 6)


def test_the_step_measures_a_text(model, text):
    made = step.measure(PARAMETERS, model, text)
    is_rotary = model.config.model_type == "llama"
    kept = {(one["way"], one["offset"]): one["kept"] for one in made["caches"]}
    for offset in PARAMETERS.offsets:
        assert kept["zero", offset] == 1
        assert kept["intact", offset] == (0.5 if is_rotary else 0)
        assert kept.get(("turned", offset)) == (1 if is_rotary else None)
    assert (made["documents"], made["confidence"]) == (3, 0.9)
    json.dumps(made, allow_nan=False)


def test_what_does_not_fit_the_positions_is_not_run(text):
    far = PARAMETERS.model_copy(update={"offsets": [1, 30]})
    made = step.measure(far, gpt2(), text)
    assert made["status"] == "not run"
    assert "measurements.savings.offsets" in made["reason"] and "32 positions" in made["reason"]
    longest = max(len(ids) for ids in text.ids[:])
    edge = PARAMETERS.model_copy(update={"documents": len(text.ids), "tokens": 100})
    fits = edge.model_copy(update={"offsets": [32 - longest]})
    assert "caches" in step.measure(fits, gpt2(), text)
    over = edge.model_copy(update={"offsets": [33 - longest]})
    assert step.measure(over, gpt2(), text)["status"] == "not run"
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
    made = made_of_weights(step, tmp_path, text, job)
    assert made["status"] == "measured" and made["catalogue"] == ["A1", "F1"]
