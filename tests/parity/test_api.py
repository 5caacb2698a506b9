"""The Python API against the library's own models, under every condition and family.

What the library does under a condition is written out here: another table of positions, equal
position ids, a 4-D mask of its eager attention, texts cut by hand.
"""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
import torch

import posenc
from posenc.architectures import attention
from posenc.capture.evaluation import evaluate
from posenc.capture.parts import first_row, position_embedding
from posenc.study.params import load as load_params
from tests.unit.api_models import FAMILIES, saved, untouched
from tests.unit.small_models import TEXT, WORDS
from tests.unit.synthetic import PROJECT

TEXTS = [TEXT, "good", "her hands was dull", "the plot the plot the plot the plot"]
CONDITIONS = {
    name: condition
    for name, condition in load_params(PROJECT / "params.yaml").conditions.items()
    if not condition.masks()
}
BY_FAMILY = [
    (family, name)
    for family in FAMILIES
    for name, chosen in CONDITIONS.items()
    if chosen.is_for(family in ("gpt2", "llama"), "rotation" if family == "llama" else "table")
    and chosen.problem(2, 2, "rotation" if family == "llama" else "table") is None
]
CAUSAL = ("gpt2", "llama")
LINEAR = {"kind": "linear", "floor": 0.1}
MASKS = {
    "none": None,
    "alibi": {"semantics": "additive", "profile": {"kind": "alibi", "slope": 0.3}},
    "log_mask": {"semantics": "log_mask", "profile": LINEAR},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, posenc.Model]:
    folder = tmp_path_factory.mktemp("models")
    return {family: posenc.load(saved(family, folder / family)) for family in FAMILIES}


@pytest.fixture(params=FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture
def model(models, family) -> posenc.Model:
    return models[family]


@pytest.fixture
def decoder(models) -> posenc.Model:
    return models["gpt2"]


def condition(**keys) -> posenc.Condition:
    return posenc.Condition.model_validate(keys)


def bias_by_hand(kind: str, n: int) -> torch.Tensor:
    """What a mask of :data:`MASKS` adds to the scores, [n, n]."""
    i = torch.arange(n, dtype=torch.float32)
    if kind == "alibi":
        return -0.3 * (i[:, None] - i[None, :]).abs()
    if kind == "log_mask":
        return torch.linspace(0.1, 1, n).log().expand(n, n)
    return torch.zeros(n, n)


def library(family: str, ids: list[int], position: str = "intact", mask: str = "none", table=None):
    """One document through the untouched library; with attentions."""
    model, options = untouched(family), {}
    n = len(ids)
    if table is not None:
        position_embedding(model).weight.data = table
    if position == "zero":
        if family == "llama":
            options["position_ids"] = torch.zeros(1, n, dtype=torch.long)
        else:
            position_embedding(model).weight.data.zero_()
    if family not in CAUSAL:  # the library has neither beyond the last position
        options["token_type_ids"] = torch.zeros(1, n, dtype=torch.long)
        options["position_ids"] = torch.arange(n)[None] + first_row(model)
    bias = bias_by_hand(mask, n)  # [n, n]
    if family in CAUSAL:
        bias = bias + torch.full((n, n), torch.finfo(torch.float32).min).triu(1)
    with torch.inference_mode():
        return model(
            torch.tensor([ids]), attention_mask=bias[None, None], output_hidden_states=True,
            output_attentions=True, **options,
        )  # fmt: skip


def check(run: posenc.Run, row: int, expected, nll: bool) -> None:
    """A run's document is what the library made of it."""
    for ours, theirs in zip(run.hidden_states[row], expected.hidden_states, strict=True):
        np.testing.assert_allclose(ours, theirs[0], atol=2e-5)
    for ours, theirs in zip(run.patterns[row], expected.attentions, strict=True):
        np.testing.assert_allclose(ours, theirs[0], atol=1e-5)
    assert (run.nll is not None) == nll
    if nll:
        ids = torch.from_numpy(run.ids[row])
        losses = torch.nn.functional.cross_entropy(
            expected.logits[0, :-1], ids[1:], reduction="none"
        )
        np.testing.assert_allclose(run.nll[row], losses, atol=1e-4)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("position", ["intact", "zero"])
def test_a_run_is_the_library_s(model, family, position, mask):
    with posenc.under(model, condition(position=position, mask=MASKS[mask])):
        run = posenc.run(model, TEXTS, patterns=True)
    for row in range(len(TEXTS)):
        expected = library(family, run.ids[row].tolist(), position, mask)
        check(run, row, expected, family in CAUSAL)


def test_without_a_condition_the_model_is_intact(model, family):
    run = posenc.run(model, TEXTS, patterns=True)
    assert run.condition == "intact"
    for row in range(len(TEXTS)):
        check(run, row, library(family, run.ids[row].tolist()), family in CAUSAL)


def test_scores_are_those_of_queries_and_keys(model, family):
    with posenc.under(model, condition(position="zero")):
        run = posenc.run(model, TEXTS[:1], patterns=True)
    q, k = run.queries[0], run.keys[0]  # [n_layers, n_heads, tokens, d_head]
    assert q.shape == k.shape == (2, 4 if family == "llama" else 2, run.ids[0].size, q.shape[-1])
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if family in CAUSAL:
        scores = np.where(np.triu(np.ones(scores.shape[-2:], bool), 1), -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = weights / weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(run.patterns[0], expected, atol=1e-5)


@contextlib.contextmanager
def values_and_reads(network, family: str):
    """Values of each layer's heads and what the heads read, as projections see them."""
    values, reads, hooks = [], [], []

    def after(module, part=slice(None)):
        return module.register_forward_hook(lambda _, __, out: values.append(out[..., part]))

    def before(module):
        return module.register_forward_pre_hook(lambda _, inputs: reads.append(inputs[0]))

    for module in network.modules():
        if hasattr(module, "c_attn"):
            hooks += [after(module.c_attn, slice(-16, None)), before(module.c_proj)]
        elif hasattr(module, "o_proj"):
            hooks += [after(module.v_proj), before(module.o_proj)]
        elif hasattr(module, "self") and hasattr(module, "output"):
            hooks += [after(module.self.value), before(module.output.dense)]
    yield values, reads
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize(("kind", "name"), BY_FAMILY)
def test_every_condition_is_the_engine_s(models, kind, name, monkeypatch):
    """The engine packs documents and was compared with the library condition by condition."""
    monkeypatch.chdir(PROJECT)
    model, chosen = models[kind], CONDITIONS[name]
    refused = chosen.segments is not None
    with posenc.under(model, name), values_and_reads(model.network, kind) as (values, reads):
        if refused:
            with pytest.raises(posenc.ConditionError, match="no attention patterns"):
                posenc.run(model, TEXTS, patterns=True)
        run = posenc.run(model, TEXTS, patterns=not refused)
    if chosen.of_pairs:
        with pytest.raises(posenc.ConditionError, match="another one for some pairs"):
            _ = run.queries
    ids = [row.tolist() for row in run.ids]
    counted = [[True] * len(row) for row in ids]
    outcomes = [
        outcome for _, outcome in evaluate(model.network, ids, counted, {name: chosen}, {}, 10_000)
    ]
    intact = posenc.run(model, TEXTS).hidden_states
    for outcome in outcomes:
        ours, theirs = run.hidden_states[outcome.document], intact[outcome.document]
        cosine = (ours * theirs).sum(-1) / (
            np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
        )  # [n_layers + 1, tokens]
        np.testing.assert_allclose(cosine.sum(axis=1), outcome.cosine, atol=1e-4)
        if kind in CAUSAL:
            np.testing.assert_allclose(run.nll[outcome.document], outcome.nll, atol=1e-4)
    if refused:
        return
    assert len(reads) == 2 * len(TEXTS)
    for place, (value, read) in enumerate(zip(values, reads, strict=True)):
        pattern = torch.from_numpy(run.patterns[place // 2][place % 2])  # [n_heads, n, n]
        by_head = value[0].unflatten(-1, (-1, 4 if kind == "llama" else 8)).transpose(0, 1)
        by_head = attention.by_query_head(by_head[None], len(pattern))[0]  # [n_heads, n, d_head]
        expected = (pattern @ by_head).transpose(0, 1).flatten(-2)  # [n, d_model]
        np.testing.assert_allclose(read[0], expected, atol=2e-5)


def test_documents_of_other_lengths_change_nothing(model):
    """An error of the past: a padded batch was off by 0.08 under a mask."""
    with posenc.under(model, condition(position="zero", mask=MASKS["log_mask"])):
        together = posenc.run(model, TEXTS, patterns=True)
        for row, text in enumerate(TEXTS):
            alone = posenc.run(model, [text], patterns=True)
            for name in ("hidden_states", "queries", "keys", "patterns"):
                ours, theirs = getattr(together, name)[row], getattr(alone, name)[0]
                np.testing.assert_array_equal(ours, theirs)


def test_a_padded_batch_is_refused(model):
    ids = torch.tensor([[2, 5, 6], [2, 5, 0]])
    with posenc.under(model, condition(mask=MASKS["log_mask"])):
        model.network(ids, attention_mask=torch.ones_like(ids))
        bias = torch.zeros(2, 1, 3, 3)
        for mask in (torch.tensor([[1, 1, 1], [1, 1, 0]]), torch.ones(2, 3) / 2, bias, bias + 1):
            with pytest.raises(posenc.ConditionError, match="without padding"):
                model.network(ids, attention_mask=mask)
    model.network(ids, attention_mask=torch.tensor([[1, 1, 1], [1, 1, 0]]))


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("mask", MASKS)
def test_generation_without_a_cache_is_greedy_and_with_one_refused(model, family, mask):
    prompt = [2, 4, 5, 9]
    expected = list(prompt)
    for _ in range(6):
        logits = library(family, expected, "zero", mask).logits[0, -1]
        expected.append(int(logits.argmax()))
    options = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    ids = torch.tensor([prompt])
    with posenc.under(model, condition(position="zero", mask=MASKS[mask])):
        generated = model.network.generate(ids, use_cache=False, **options)
        with pytest.raises(posenc.ConditionError, match="pass use_cache=False"):
            model.network.generate(ids, **options)
        with pytest.raises(posenc.ConditionError, match="a cache of keys"):
            model.network(ids, use_cache=True)
    assert generated[0].tolist() == expected
    cache = model.network(ids, use_cache=True).past_key_values
    with (
        posenc.under(model, condition(mask=MASKS[mask])),
        pytest.raises(posenc.ConditionError, match="a cache of keys"),
    ):
        model.network(torch.tensor([[7]]), past_key_values=cache)
    assert model.network.generate(ids, **options).shape == (1, 10)


def test_a_direct_call_is_the_library_s(model, family):
    ids = [2, 4, 5, 9, 11]
    expected = library(family, ids, "zero", "alibi").hidden_states[-1]
    with posenc.under(model, condition(position="zero", mask=MASKS["alibi"])):
        states = model.network(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1]
    np.testing.assert_allclose(states.detach(), expected, atol=2e-5)


def test_segments_are_run_on_their_own(model, family):
    with posenc.under(model, condition(position="zero", segments=3)):
        run = posenc.run(model, TEXTS)
        for name in ("queries", "keys"):
            with pytest.raises(posenc.ConditionError, match="segments of 3 tokens"):
                getattr(run, name)
        with pytest.raises(posenc.ConditionError, match=r"posenc\.run does"):
            model.network(torch.tensor([[2, 3, 4, 5]]))
    for row, ids in enumerate(run.ids):
        cuts = [ids[i : i + 3].tolist() for i in range(0, len(ids), 3)]
        outputs = [library(family, cut, "zero") for cut in cuts]
        for layer, ours in enumerate(run.hidden_states[row]):
            theirs = torch.cat([output.hidden_states[layer][0] for output in outputs])
            np.testing.assert_allclose(ours, theirs, atol=2e-5)
        if family in CAUSAL:
            logits = torch.cat([output.logits[0] for output in outputs])[:-1]
            losses = torch.nn.functional.cross_entropy(
                logits, torch.from_numpy(ids[1:]), reduction="none"
            )
            np.testing.assert_allclose(run.nll[row], losses, atol=1e-4)


def test_patterns_are_not_asked_of_the_network(model):
    ids = torch.tensor([[2, 4, 5]])
    with posenc.under(model, "intact"):
        with pytest.raises(posenc.ConditionError, match=r"posenc\.run\(\.\.\., patterns=True\)"):
            model.network(ids, output_attentions=True)
        with pytest.raises(ValueError, match="output_attentions"):
            model.network.config.output_attentions = True  # the library's own refusal


def test_other_positions_are_refused(model, family):
    ids = torch.tensor([[2, 4, 5]])
    first = 2 if family == "roberta" else 0
    with posenc.under(model, condition(position="zero")):
        model.network(ids, position_ids=torch.arange(3)[None] + first)
        with pytest.raises(posenc.ConditionError, match="position_ids are those"):
            model.network(ids, position_ids=torch.tensor([[7, 8, 9]]))


@pytest.mark.filterwarnings("ignore:1 of 1 texts")
def test_beyond_the_last_position(model, family):
    last = 46 if family == "roberta" else 48
    long = [" ".join(WORDS[i % len(WORDS)] for i in range(60))]
    assert model.positions == last
    with pytest.raises(posenc.ConditionError, match=f"has {last} positions, not 60"):
        posenc.run(model, long, max_tokens=60)
    with posenc.under(model, condition(position="zero", mask=MASKS["alibi"])):
        with pytest.raises(posenc.ConditionError, match=f"has {last} positions, not {last + 1}"):
            model.network(torch.full((1, last + 1), 5))
        model.network(torch.full((1, last), 5))
        for wanted in (last + 1, 60):
            with pytest.warns(UserWarning, match="1 of 1 texts are longer"):
                run = posenc.run(model, long, patterns=True, max_tokens=wanted)
            assert run.ids[0].shape == (wanted,)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
@pytest.mark.parametrize("beyond", ["clamp", "wrap"])
def test_later_positions_are_what_the_condition_says(model, family, beyond):
    plain = untouched(family)
    embedding = position_embedding(plain)
    first, table = first_row(model.network), embedding.weight.data
    count = len(table) - first
    later = torch.arange(12) if beyond == "wrap" else torch.full((12,), count - 1)
    longer = torch.cat([table, table[first + later]])
    long = [" ".join(WORDS[i % len(WORDS)] for i in range(80))]
    for wanted in (count + 1, count + 12):
        with posenc.under(model, condition(beyond=beyond)), pytest.warns(UserWarning, match="cut"):
            run = posenc.run(model, long, patterns=True, max_tokens=wanted)
        check(run, 0, library(family, run.ids[0].tolist(), table=longer), family in CAUSAL)


def test_a_network_that_was_changed_is_refused(model):
    network = model.network
    try:
        network.set_attn_implementation("sdpa")
        with pytest.raises(posenc.ConditionError, match="now 'sdpa', which knows no condition"):
            posenc.run(model, TEXTS)
        network.set_attn_implementation(attention.NAME)
        with posenc.under(model, condition(mask=MASKS["alibi"])):
            network.set_attn_implementation("eager")
            for call in (lambda: posenc.run(model, TEXTS), lambda: network(torch.tensor([[2, 3]]))):
                with pytest.raises(posenc.ConditionError, match="now 'eager'"):
                    call()
        network.train()
        with pytest.raises(posenc.ConditionError, match=r"network\.eval\(\)"):
            posenc.run(model, TEXTS)
    finally:
        network.eval()
    assert network.config._attn_implementation == attention.NAME


@pytest.mark.parametrize("scheme", ["alibi", "rotary"])
def test_a_scheme_inside_the_attention_is_run_and_its_patterns_refused(tmp_path, scheme):
    path = saved("gpt2", tmp_path) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "position_scheme": scheme}))
    model = posenc.load(tmp_path)
    run = posenc.run(model, TEXTS)
    for ids, nll in zip(run.ids, run.nll, strict=True):
        with torch.inference_mode():  # nothing is packed or padded: the scheme's own attention
            logits = model.network(torch.from_numpy(ids)[None]).logits[0, :-1]
        expected = torch.nn.functional.cross_entropy(
            logits, torch.from_numpy(ids[1:]), reduction="none"
        )
        np.testing.assert_allclose(nll, expected, atol=1e-4)
    with pytest.raises(posenc.ConditionError, match=f"{scheme} acts inside the attention"):
        posenc.run(model, TEXTS, patterns=True)
    with pytest.raises(posenc.ConditionError, match=scheme), posenc.under(model, "intact"):
        raise AssertionError


def test_a_model_is_restored_exactly_whatever_happens(model):
    before = {name: x.clone() for name, x in model.network.state_dict().items()}
    ids = torch.tensor([[2, 4, 5]])
    with torch.inference_mode():
        expected = model.network(ids)[0]
    strong = condition(position="zero", embeddings="unit_norm", mask=MASKS["alibi"])
    with pytest.raises(KeyError), posenc.under(model, strong):
        posenc.run(model, TEXTS)
        raise KeyError
    with pytest.raises(ValueError, match="one text"), posenc.under(model, strong):
        posenc.run(model, TEXT)
    for name, x in model.network.state_dict().items():
        torch.testing.assert_close(x, before[name], rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(model.network(ids)[0], expected, rtol=0, atol=0)
    assert not any(module._forward_pre_hooks for module in model.network.modules())
    posenc.run(model, TEXTS)
