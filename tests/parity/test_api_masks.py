"""Masks calibrated from Python: as the workflow learns them, and as the library reads them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import AttentionInterface
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama

import posenc
from posenc.capture.calibration import Calibration
from posenc.capture.closed_form import closed_form, mean_vectors
from posenc.capture.evaluation import evaluate, losses_under
from posenc.capture.patterns import patterns_under
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import ClosedFormMask, MeanVectors
from posenc.metrics.patterns import softmax
from posenc.models import schemes
from tests.parity.any_models import tiny, words
from tests.unit.api_models import FAMILIES, saved, untouched
from tests.unit.small_models import TEXT

CALIBRATION = [TEXT, "her hands was never dull", "the plot the film the plot", "slow", ""]
TEXTS = ["the film was slow and clever but not bad", "good", "the plot the plot the plot"]
TERMS = ("mask", "key", "query")
PLACEBOS = ("over_heads", "within_layers", "neighbours", "one_per_layer")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, posenc.Model]:
    folder = tmp_path_factory.mktemp("models")
    return {family: posenc.load(saved(family, folder / family)) for family in FAMILIES}


@pytest.fixture
def llama(models) -> posenc.Model:
    return models["llama"]


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """A folder without params.yaml."""
    monkeypatch.chdir(tmp_path)


def ids_of(model, texts) -> list[list[int]]:
    return [row.tolist() for row in posenc.run(model, texts, activations=False).ids]


def source(method, **more):
    if method == "means":
        return MeanVectors(**{"method": "means", "documents": None, "seed": 0, **more})
    return ClosedFormMask(
        **{"method": "closed_form", "position": "zero", "documents": None, "seed": 0,
           "first": True, "temperature": False, **more}
    )  # fmt: skip


def learned(model, method, **more) -> LearnedMask:
    """As the workflow learns it."""
    texts = ids_of(model, CALIBRATION)
    data = Calibration(model.network, texts, texts, 64)
    makes = mean_vectors if method == "means" else closed_form
    return makes(source(method, **more), data)[0]


def condition_of(method, terms=TERMS) -> posenc.Condition:
    """As params.yaml has it."""
    if method == "means":
        position = {"kind": "first_order", "mask": "m", "terms": list(terms)}
        return posenc.Condition.model_validate({"position": position})
    profile = {"kind": "learned", "mask": "m"}
    return posenc.Condition.model_validate(
        {"position": "zero", "mask": {"semantics": "additive", "profile": profile}}
    )


def check_run(model, run, condition, mask) -> None:
    """A run gives what the workflow's evaluation gives."""
    ids = [row.tolist() for row in run.ids]
    if model.is_decoder:
        expected = losses_under(model.network, ids, {"c": condition}, {"m": mask}, 64)
        losses = {index: nll for _, index, nll in expected}
        for row, nll in enumerate(run.nll):
            np.testing.assert_allclose(nll, losses[row], atol=1e-4)
        together = np.concatenate([losses[row] for row in range(len(ids))])
        assert run.perplexity == pytest.approx(np.exp(together.mean(dtype=float)), rel=1e-4)
        for row, document in enumerate(ids):
            last, patterns = patterns_under(model.network, [document], condition, {"m": mask})
            np.testing.assert_allclose(run.hidden_states[row][-1], last[0], atol=1e-4)
            np.testing.assert_allclose(run.patterns[row], torch.cat(patterns), atol=1e-5)
    intact = posenc.run(model, TEXTS).hidden_states
    counted = [[True] * len(row) for row in ids]
    for _, outcome in evaluate(model.network, ids, counted, {"c": condition}, {"m": mask}, 64):
        ours, theirs = run.hidden_states[outcome.document], intact[outcome.document]
        norms = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
        cosine = (ours * theirs).sum(-1) / norms  # [n_layers + 1, tokens]
        np.testing.assert_allclose(cosine.sum(axis=1), outcome.cosine, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_with_the_closed_form_is_the_workflow_s(models, family):
    model = models[family]
    mask = posenc.closed_form(model, CALIBRATION)
    with posenc.under(model, "zero", mask=mask):
        run = posenc.run(model, TEXTS, patterns=True)
    assert run.condition == "zero, closed_form"
    check_run(model, run, condition_of("closed_form"), learned(model, "closed_form"))
    with posenc.under(model, "zero"):
        without = posenc.run(model, TEXTS)
    assert not np.allclose(run.hidden_states[0], without.hidden_states[0], atol=1e-2)


@pytest.mark.parametrize("terms", [TERMS, ("mask",), ("key", "query")])
def test_a_run_with_first_order_is_the_workflow_s(llama, terms):
    mask = posenc.first_order(llama, CALIBRATION)
    with posenc.under(llama, "zero", mask=mask if terms == TERMS else mask.only(*terms)):
        run = posenc.run(llama, TEXTS, patterns=True)
    named = "" if terms == TERMS else f" ({', '.join(terms)})"
    assert run.condition == f"zero, first_order{named}"
    check_run(llama, run, condition_of("means", terms), learned(llama, "means"))
    with pytest.raises(posenc.ConditionError, match="no queries: rotation is another one"):
        _ = run.queries


def test_terms_from_the_mask_to_the_intact_model(llama):
    """The mask alone is the closed form; all four terms are the intact model."""
    first = posenc.first_order(llama, CALIBRATION)
    for condition, mask, other in (
        ("zero", first.only("mask"), posenc.closed_form(llama, CALIBRATION)),
        ("intact", first.only(*TERMS, "rest"), None),
    ):
        with posenc.under(llama, "zero", mask=mask):
            ours = posenc.run(llama, TEXTS)
        with posenc.under(llama, condition, mask=other):
            theirs = posenc.run(llama, TEXTS)
        for state, expected in zip(ours.hidden_states, theirs.hidden_states, strict=True):
            np.testing.assert_allclose(state, expected, atol=1e-4)


@pytest.mark.parametrize("placebo", PLACEBOS)
@pytest.mark.parametrize("method", ["closed_form", "means"])
def test_placebos_are_those_of_the_masks_section(llama, method, placebo):
    makes = posenc.first_order if method == "means" else posenc.closed_form
    mask = makes(llama, CALIBRATION, placebo=placebo, seed=3)
    own = makes(llama, CALIBRATION)
    absent = {"closed_form": "neighbours", "means": "within_layers"}
    if placebo != absent[method]:
        expected = learned(llama, method, placebo=placebo, seed=3)
        for name, array in expected.arrays().items():
            np.testing.assert_allclose(getattr(mask.learned, name), array, atol=1e-5)
    for name, array in own.learned.arrays().items():
        moved = getattr(mask.learned, name)  # [n_layers, n_heads, ...]
        assert not np.allclose(moved, array, atol=1e-3)
        if placebo == "neighbours":
            np.testing.assert_array_equal(moved[:, :-1], array[:, 1:])
        elif placebo == "within_layers":
            np.testing.assert_array_equal(np.sort(moved, axis=1), np.sort(array, axis=1))
    with posenc.under(llama, "zero", mask=mask):
        assert posenc.run(llama, TEXTS).condition == f"zero, {own.name}_{placebo}"


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_bias_by_hand_gives_the_same_logits(models, family):
    """The library's own eager attention, without rotation or table, and a layer's bias beside."""
    model, network = models[family], untouched(family)
    mask = posenc.closed_form(model, CALIBRATION)
    eager = {"gpt2": modeling_gpt2, "llama": modeling_llama}[family].eager_attention_forward
    ids = torch.tensor(ids_of(model, TEXTS[:1]))  # [1, tokens]
    tokens = ids.shape[1]
    bias = mask.bias(tokens)
    heads = {"gpt2": 2, "llama": 4}[family]
    assert bias.shape == (2, heads, tokens, tokens) and bias.dtype == np.float32
    future = torch.full((tokens, tokens), -torch.inf).triu(1)

    def attend(module, query, key, value, attention_mask, **options):
        added = torch.from_numpy(bias[module.layer_idx])[None] + future  # [1, heads, n, n]
        return eager(module, query, key, value, added, **options)

    AttentionInterface.register("with_bias", attend)
    network.set_attn_implementation("with_bias")
    places = torch.zeros_like(ids)
    if family == "gpt2":
        network.transformer.wpe.weight.data.zero_()
    with torch.inference_mode():
        expected = network(ids, position_ids=places).logits
        with posenc.under(model, "zero", mask=mask):
            logits = model.network(ids).logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)
    bias *= 0
    with torch.inference_mode():
        assert not torch.allclose(network(ids, position_ids=places).logits, logits, atol=1e-2)


def test_the_bias_of_an_encoder_is_what_is_added_to_its_scores(models):
    model = models["bert"]
    mask = posenc.closed_form(model, CALIBRATION)
    with posenc.under(model, "zero", mask=mask):
        run = posenc.run(model, TEXTS[:1], patterns=True)
    query, key = run.queries[0], run.keys[0]  # [n_layers, n_heads, tokens, d_head] each
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    expected = softmax((scores + mask.bias(query.shape[2])).astype(float), causal=False)
    np.testing.assert_allclose(run.patterns[0], expected, atol=1e-5)


def test_the_model_is_what_it_was(llama):
    before = posenc.run(llama, TEXTS)
    mask = posenc.first_order(llama, CALIBRATION)
    posenc.closed_form(llama, CALIBRATION)
    with posenc.under(llama, {"position": "zero"}, mask=mask):
        run = posenc.run(llama, TEXTS)
    assert run.condition == '{"position": "zero"}, first_order'
    for losses, other in zip(before.nll, posenc.run(llama, TEXTS).nll, strict=True):
        np.testing.assert_array_equal(losses, other)


def test_a_condition_of_one_s_own_takes_the_mask_by_its_name(llama):
    """Beside intact rotation, in one layer, where there is no word for it."""
    mask = posenc.closed_form(llama, CALIBRATION)
    profile = {"kind": "learned", "mask": "m"}
    condition = {"mask": {"semantics": "additive", "profile": profile, "layers": [1]}}
    with posenc.under(llama, condition, masks={"m": mask.learned}):
        run = posenc.run(llama, TEXTS)
    assert not np.allclose(run.nll[0], posenc.run(llama, TEXTS).nll[0], atol=1e-3)


@pytest.mark.parametrize("makes", [posenc.closed_form, posenc.first_order])
def test_what_cannot_be_calibrated_is_refused(llama, makes):
    for texts, said in (
        ([], "texts is empty"),
        (["", ""], "more than a first token"),
        ("the film", "one text"),
    ):
        with pytest.raises(ValueError, match=said):
            makes(llama, texts)
    with pytest.raises(ValueError, match=f"'heads': take one of {', '.join(PLACEBOS)}"):
        makes(llama, CALIBRATION, placebo="heads")
    with pytest.raises(TypeError, match=r"give posenc\.load\('llama'\)"):
        makes("llama", CALIBRATION)
    with (
        posenc.under(llama, "zero"),
        pytest.raises(posenc.ConditionError, match="is under zero, but means are of the intact"),
    ):
        makes(llama, CALIBRATION)
    llama.network.train()
    with pytest.raises(posenc.ConditionError, match=r"network\.eval\(\)"):
        makes(llama, CALIBRATION)
    llama.network.eval()


def test_a_table_has_no_first_order(models):
    with pytest.raises(posenc.ConditionError, match="needs rotary positions, and "):
        posenc.first_order(models["gpt2"], CALIBRATION)


@pytest.mark.parametrize("makes", [posenc.closed_form, posenc.first_order])
def test_a_model_without_positions_has_no_mask(makes, tmp_path):
    ctrl = posenc.load(tiny("causal", "ctrl"), tokenizer=words())
    path = saved("gpt2", tmp_path) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), schemes.KEY: "none"}))
    for model in (ctrl, posenc.load(tmp_path)):
        with pytest.raises(posenc.ConditionError, match="no positions that a mask can stand in"):
            makes(model, ["w5 w6 w7"])


def test_a_mask_that_does_not_fit_is_refused(models):
    llama, gpt2 = models["llama"], models["gpt2"]
    mask, first = (f(llama, CALIBRATION) for f in (posenc.closed_form, posenc.first_order))

    def refused(model, condition, said, error=posenc.ConditionError, **given):
        with pytest.raises(error, match=said), posenc.under(model, condition, **given):
            raise AssertionError

    refused(gpt2, "zero", "'closed_form' is another model's: it has 4 heads, but .* 2", mask=mask)
    refused(
        gpt2, "zero", "'first_order' is not for a model whose positions are a table", mask=first
    )
    shallow = LearnedMask(relative=np.zeros((3, 4, 1, 5), np.float32))
    refused(llama, condition_of("closed_form"), "it has 3 layers", masks={"m": shallow})
    wide = LearnedMask(**{name: np.zeros((2, 4, 8), np.float32) for name in first.learned.arrays()})
    refused(
        llama, condition_of("means"), "it has 8 features of a head, but .* has 4", masks={"m": wide}
    )
    for condition in ("intact", condition_of("closed_form"), condition_of("means")):
        refused(llama, condition, "stands in place of positions", mask=mask)
        refused(llama, condition, "stands in place of positions", mask=first)
    refused(llama, "zero", "the mask is {}: give what", TypeError, mask={})
    for terms in ((), ("mask", "mask"), ("keys",)):
        with pytest.raises(ValueError, match="name some of mask, key, query, rest, each once"):
            first.only(*terms)
    with pytest.raises(ValueError, match="tokens is 0"):
        mask.bias(0)
