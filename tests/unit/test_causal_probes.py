"""Probes under other masks: masks by hand, runs against the library, what a probe can tell."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.artifacts.files import ArtifactError, sha256_file, write_sealed
from posenc.artifacts.tables import write_table
from posenc.capture.interventions import applied
from posenc.conditions.learned import LearnedMask, write
from posenc.conditions.section import Condition
from posenc.drawing.command import read_measurements
from posenc.measurements.causal_probes import figure as figure
from posenc.measurements.causal_probes import measure as step
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.causal_windows import receptive_field, visible
from posenc.models.load import load
from posenc.tokens.tokenized import Tokens

from . import synthetic
from .runs import made_of_weights
from .small_models import random_model, saved
from .test_figures import SECTIONS, STYLE, check_texts
from .test_score_parts_measurement import llama

PARAMETERS = {
    "documents": 12, "tokens": 240, "windows": [4], "conditions": [], "folds": 3,
    "bootstrap_samples": 100, "confidence": 0.9, "seed": 3,
}  # fmt: skip
ZERO = Condition(position="zero")
ALIBI = {"semantics": "additive", "profile": {"kind": "alibi", "slope": 0.5}}


def job(family: str = "gpt2", conditions=(), **changed) -> step.Job:
    return step.Job.model_validate(
        {"parameters": {**PARAMETERS, **changed}, "datasets": ["text"],
         "reading": {"family": family, "max_tokens": 48}, "conditions": dict(conditions)}
    )  # fmt: skip


@pytest.fixture
def text(tmp_path) -> Tokens:
    """Random documents that begin with the token 2, which the tokenizer has added."""
    rng = np.random.default_rng(5)
    ids = [[2, *rng.integers(3, 40, length).tolist()] for length in (*[30] * 9, 25, 28, 40, 45)]
    table = pa.table({"input_ids": ids, "special": [[True, *[False] * len(i[1:])] for i in ids]})
    write_table(table, tmp_path / "text.parquet", {"bos": True})
    return Tokens(tmp_path / "text.parquet")


def everything(documents: list[list[int]]) -> step.Sample:
    lengths = [len(ids) for ids in documents]
    return step.Sample(
        np.repeat(np.arange(len(lengths)), lengths), np.concatenate(list(map(np.arange, lengths)))
    )


def states(model, documents: list[list[int]], sees: dict | None = None) -> np.ndarray:
    """Of all tokens of all documents, [n_states, tokens, d_model]."""
    variant = step.Variant("any", ZERO, sees=sees)
    return step.hidden_states(model, documents, everything(documents), variant)


@given(st.integers(1, 9), st.booleans(), st.none() | st.integers(1, 10), st.booleans())
def test_a_mask_is_a_rule_for_each_pair(tokens, is_causal, window, has_first):
    mask = visible(tokens, is_causal=is_causal, window=window, has_first=has_first)
    for query, key in np.ndindex(tokens, tokens):
        is_hidden = is_causal and key > query
        is_hidden |= window is not None and key <= query - window
        is_hidden |= not has_first and key == 0 != query
        assert mask[query, key] == (not is_hidden)


@given(st.integers(0, 5), st.integers(1, 5))
def test_the_receptive_field_is_what_layer_upon_layer_reaches(layers, window):
    reached = np.linalg.matrix_power(visible(30, window=window).astype(int), layers)
    assert np.count_nonzero(reached[-1]) == receptive_field(layers, window)


def test_a_state_depends_on_its_receptive_field_and_on_nothing_before():
    model, rng = random_model("gpt2"), np.random.default_rng(0)
    document = rng.integers(3, 40, 20)  # [tokens]
    other = np.concatenate([rng.integers(3, 40, 20 - 5), document[-5:]])  # [tokens]
    sees = {"window": 3}  # after two layers, five tokens
    ours, theirs = (states(model, [ids.tolist()], sees)[:, -1] for ids in (document, other))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    other[-5] = 3 + (document[-5] - 2) % 37
    theirs = states(model, [other.tolist()], sees)[:, -1]
    np.testing.assert_allclose(ours[:2], theirs[:2], atol=1e-6)
    assert np.abs(ours[2] - theirs[2]).max() > 1e-4


@pytest.mark.parametrize("sees", [{}, {"window": 99}, {"is_causal": True}])
def test_the_causal_mask_that_is_handed_over_is_the_library_s_own(sees):
    model, documents = random_model("gpt2"), [[2, 5, 7, 9, 11], [2, 4, 6]]
    with applied(model, ZERO), torch.inference_mode():
        theirs = [
            torch.stack(model(torch.tensor([ids]), output_hidden_states=True).hidden_states)[:, 0]
            for ids in documents
        ]
    for hidden in (states(model, documents), states(model, documents, sees)):
        np.testing.assert_allclose(hidden, torch.cat(theirs, dim=1), atol=1e-6)


@pytest.mark.parametrize(
    "sees", [{"window": 3}, {"is_causal": False}, {"has_first": False}], ids=str
)
def test_a_masked_run_is_attention_by_hand(tmp_path, sees):
    # As the job loads it: with the implementation of attention that records.
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")
    ids, n_heads = [2, 5, 7, 9, 11, 3, 8], 2
    allowed = torch.from_numpy(visible(len(ids), **sees))  # [tokens, tokens]
    body, by_hand = model.transformer, []
    with torch.inference_mode():
        x = body.wte(torch.tensor(ids))  # [tokens, d_model], without positions
        by_hand.append(x)
        for block in body.h:
            query, key, value = (
                part.unflatten(-1, (n_heads, -1)).transpose(0, 1)  # [n_heads, tokens, d_head]
                for part in block.attn.c_attn(block.ln_1(x)).split(x.shape[-1], dim=-1)
            )
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
            pattern = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
            x = x + block.attn.c_proj((pattern @ value).transpose(0, 1).flatten(-2))
            x = x + block.mlp(block.ln_2(x))
            by_hand.append(x)
        by_hand[-1] = body.ln_f(x)
    np.testing.assert_allclose(states(model, [ids], sees), torch.stack(by_hand), atol=1e-5)


def test_hiding_the_first_key_is_cutting_the_first_token_off():
    model, documents = random_model("gpt2"), [[2, 5, 7, 9, 11], [2, 4, 6]]
    hidden = states(model, documents, {"has_first": False})
    cut = states(model, [ids[1:] for ids in documents])
    np.testing.assert_allclose(hidden[:, [1, 2, 3, 4, 6, 7]], cut, atol=1e-6)


def test_without_positions_and_a_mask_the_order_of_words_makes_no_difference():
    model, ids = random_model("gpt2"), np.random.default_rng(1).permutation(30)[:12]
    order = np.random.default_rng(2).permutation(12)
    here, there = (
        states(model, [words.tolist()], {"is_causal": False}) for words in (ids, ids[order])
    )
    np.testing.assert_allclose(there, here[:, order], atol=1e-5)


def test_random_weights_are_drawn_by_the_seed_and_leave_the_model_as_it_is():
    model = random_model("gpt2")
    before = copy.deepcopy(model.state_dict())
    first, same, other = (step.with_random_weights(model, seed) for seed in (1, 1, 2))
    weights = [
        network.transformer.h[0].attn.c_attn.weight for network in (first, same, other, model)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2]) and not torch.equal(weights[0], weights[3])
    assert weights[0].std().item() == pytest.approx(model.config.initializer_range, rel=0.1)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_planted_count_is_read_inside_the_field_and_not_beyond():
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(30), 40)  # [tokens]
    positions = np.tile(np.arange(40), 30)  # [tokens]
    sample = step.Sample(documents, positions)
    noise = rng.normal(size=(1200, 6))
    counted, windowed = noise.copy(), noise.copy()  # [tokens, d_model]
    counted[:, 0], windowed[:, 0] = positions, np.minimum(positions, 9)
    result = step.results(
        job(windows=[4]).parameters,
        sample,
        [step.Variant("zero", ZERO), step.Variant("window_4", ZERO, sees={"window": 4})],
        {name: np.stack([noise, noise, noise, values]) for name, values in (
            ("zero", counted), ("window_4", windowed),
        )},
    ).as_json()  # fmt: skip
    zero, window = (entry["layers"][3] for entry in result["variants"])
    assert zero["error"]["value"] < 0.1 and zero["difference"]["value"] == 0
    assert window["field"] == 10
    assert window["inside"]["error"]["value"] < 0.2
    assert window["inside"]["tokens"] + window["beyond"]["tokens"] == 1200
    beyond = window["beyond"]
    # Nothing is left there: the best constant of 30 positions is 7.5 off.
    assert beyond["chance"]["value"] == pytest.approx(7.5)
    assert beyond["error"]["value"] == pytest.approx(7.5, abs=0.3)
    assert beyond["causal"]["value"] < 0.1
    assert beyond["difference"]["low"] > 7 and abs(beyond["gain"]["value"]) < 0.2
    assert result["chance"]["value"] == pytest.approx(10)


def test_errors_are_means_over_tokens_with_resampled_documents(text):
    result = step.measure(job(), random_model("gpt2"), text, {}).as_json()
    parameters, sample = job().parameters, step.drawn(job().parameters, text)
    assert result["documents"] == 12 and result["tokens"] == 240
    assert sample.position.min() == 1  # the start-of-text token is left out
    hidden = step.hidden_states(
        random_model("gpt2"), text.ids, sample, step.Variant("window_4", ZERO, sees={"window": 4})
    )
    errors = step.probed(parameters, sample, hidden[1])["ridge"]
    expected = ratio_bootstrap(
        np.bincount(sample.document, errors), np.bincount(sample.document), 100, 0.9, 3
    ).as_json()
    entry = next(variant for variant in result["variants"] if variant["window"] == 4)["layers"][1]
    assert entry["error"] == pytest.approx(expected)
    assert entry["inside"] is None and entry["beyond"]["tokens"] == (sample.position >= 4).sum()


def test_an_encoder_has_no_mask_to_exchange(text):
    result = step.measure(job("bert"), random_model("bert"), text, {}).as_json()
    assert [variant["variant"] for variant in result["variants"]] == ["intact", "zero", "random"]


@pytest.mark.parametrize("sees", [None, {"window": 3}, {"is_causal": False}], ids=str)
def test_a_rotary_model_without_rotation_has_all_tokens_at_one_place(sees):
    model, documents = llama(), [[2, 5, 7, 9, 11], [2, 4, 6]]
    by_hand = []
    with torch.inference_mode():
        for ids in documents:
            allowed = torch.from_numpy(visible(len(ids), **(sees or {})))  # [tokens, tokens]
            out = model.model(
                torch.tensor([ids]),
                position_ids=torch.zeros(1, len(ids), dtype=torch.long),
                attention_mask=torch.where(allowed, 0.0, -torch.inf)[None, None],
                output_hidden_states=True,
            )
            by_hand.append(torch.stack(out.hidden_states)[:, 0])
    hidden = states(model, documents, sees)
    np.testing.assert_allclose(hidden, torch.cat(by_hand, dim=1), atol=1e-5)
    everything_at_once = step.Variant("intact", Condition())
    sample = everything(documents)
    intact = step.hidden_states(model, documents, sample, everything_at_once)
    assert np.abs(intact - hidden).max() > 1e-4


def test_a_rotary_model_is_probed_as_any_other(text):
    conditions = {"far": {"position": "zero", "mask": ALIBI}}
    result = step.measure(job("llama", conditions), llama(), text, {}).as_json()
    names = [variant["variant"] for variant in result["variants"]]
    assert names == [*step.VARIANTS, "window_4", "far"]


@pytest.mark.parametrize("changed", [{"documents": 2}, {"documents": 3}])
def test_too_little_text_is_said(text, changed):
    with pytest.raises(ArtifactError, match="too few for 3 folds: raise evaluation"):
        step.measure(job(**changed), random_model("gpt2"), text, {})


def curves(turned: float) -> LearnedMask:
    """A learned bias of two layers and heads: a line by distance, for all heads alike."""
    line = -turned * np.arange(48, dtype=np.float32)  # [distances]
    return LearnedMask(relative=np.broadcast_to(line, (2, 2, 1, 48)).copy())


def test_states_under_a_condition_are_those_of_its_mask(tmp_path):
    """A learned line by distance is ALiBi, and both are the library's mask with that bias."""
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")
    documents = [[2, 5, 7, 9, 11, 3, 8], [2, 4, 6]]
    alibi = Condition.model_validate({"position": "zero", "mask": ALIBI})
    learned = Condition.model_validate(
        {
            "position": "zero",
            "mask": {"semantics": "additive", "profile": {"kind": "learned", "mask": "line"}},
        }
    )
    masks, hidden = {"line": curves(0.5)}, []
    for condition in (alibi, learned):
        variant = step.Variant("any", condition)
        hidden.append(step.hidden_states(model, documents, everything(documents), variant, masks))
    by_hand = []
    with applied(model, ZERO), torch.inference_mode():
        for ids in documents:
            place = torch.arange(len(ids))  # [tokens]
            bias = -0.5 * (place[:, None] - place).float()  # [tokens, tokens]
            bias = bias.masked_fill(place > place[:, None], -torch.inf)
            out = model(
                torch.tensor([ids]), attention_mask=bias[None, None], output_hidden_states=True
            )
            by_hand.append(torch.stack(out.hidden_states)[:, 0])
    for states_under in hidden:
        np.testing.assert_allclose(states_under, torch.cat(by_hand, dim=1), atol=1e-5)


def test_conditions_of_the_study_are_variants_of_a_decoder(text):
    conditions = {"far": {"position": "zero", "mask": ALIBI}, "moved": {"position": "mean"}}
    result = step.measure(job(conditions=conditions), random_model("gpt2"), text, {}).as_json()
    names = [variant["variant"] for variant in result["variants"]]
    assert names == [*step.VARIANTS, "window_4", "far", "moved"]
    specs = {variant["variant"]: variant["spec"] for variant in result["variants"]}
    assert specs["moved"] == {"position": "mean"} and specs["zero"] is None
    encoder = step.measure(job("bert", conditions), random_model("bert"), text, {}).as_json()
    assert len(encoder["variants"]) == 3


@pytest.mark.parametrize(
    ("name", "spec", "reason"),
    [("alone", {"segments": 1}, "segments of 1 tokens"),
     ("zero", {"position": "zero"}, "called so"), ("window_9", {}, "called so")],
)  # fmt: skip
def test_a_condition_that_cannot_be_probed_is_refused(text, name, spec, reason):
    with pytest.raises(ArtifactError, match=f"causal_probes.conditions names '{name}'.*{reason}"):
        step.measure(job(conditions={name: spec}), random_model("gpt2"), text, {})


def test_the_file_says_what_it_is_made_of(tmp_path: Path, text):
    masks = tmp_path / "masks"
    write(masks / "line.safetensors", curves(0.5), {})
    digest = sha256_file(masks / "line.json")
    write_sealed(masks / "masks.json", {"model": "small", "masks": {"line": digest, "other": "-"}})
    learned = {"semantics": "additive", "profile": {"kind": "learned", "mask": "line"}}
    result = made_of_weights(step, tmp_path, text, job(conditions={"it": {"mask": learned}}), masks)
    assert result["provenance"]["inputs"]["masks"] == {"line": digest}


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> list[dict]:
    written = synthetic.write_inputs(tmp_path_factory.mktemp("study"))
    return read_measurements(written["causal_probes"])


def test_lines_are_the_errors_of_the_first_decoder(measured):
    drawn = figure.draw(measured, SECTIONS.causal_probes, STYLE)
    measurement = next(
        measurement for measurement in measured if measurement["run"]["model"] == "decoder"
    )
    assert drawn.get_suptitle() == "decoder, sample reviews"
    entries = {entry["variant"]: entry for entry in measurement["variants"]}
    counted = [name for name, entry in entries.items() if entry["spec"] is None]
    masked = [name for name, entry in entries.items() if entry["spec"] is not None]
    assert len(counted) == 8 and len(masked) == 5
    for axes, names in zip(drawn.axes, (counted, ["intact", "zero", *masked]), strict=True):
        *lines, chance = axes.lines
        for line, name in zip(lines, names, strict=True):
            layers = entries[name]["layers"]
            assert list(line.get_ydata()) == [layer["error"]["value"] for layer in layers]
        assert chance.get_ydata()[0] == measurement["chance"]["value"]
    check_texts(drawn)


def test_without_conditions_there_is_one_panel(measured):
    measurement = next(
        measurement for measurement in measured if measurement["run"]["model"] == "decoder"
    )
    measurement = {
        **measurement,
        "variants": [entry for entry in measurement["variants"] if entry["spec"] is None],
    }
    drawn = figure.draw([measurement], SECTIONS.causal_probes, STYLE)
    assert len(drawn.axes) == 1
    check_texts(drawn)


def test_without_a_decoder_the_figure_says_so(measured):
    encoders = [measurement for measurement in measured if measurement["run"]["model"] == "minilm"]
    drawn = figure.draw(encoders, SECTIONS.causal_probes, STYLE)
    assert "no decoder was examined" in drawn.axes[0].texts[0].get_text()
