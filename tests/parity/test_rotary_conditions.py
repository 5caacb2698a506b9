"""Conditions and masks of rotary models, against the library run at other positions or angles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from posenc.architectures import attention
from posenc.capture import masked_attention
from posenc.capture.calibration import Calibration
from posenc.capture.capture import forward, packed_states
from posenc.capture.content import with_and_without
from posenc.capture.evaluation import evaluate
from posenc.capture.interventions import applied
from posenc.capture.learning import learn, work
from posenc.capture.parts import ConditionError, blocks
from posenc.capture.rotation import frequencies, turned
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import ClosedFormMask, DistilledMask, FittedMask
from posenc.conditions.section import Condition
from posenc.metrics import rotary, score_parts
from posenc.models.affine import ready
from posenc.models.load import load
from tests.parity.test_llama import library_output, reference, saved

CLOSE = {"rtol": 0, "atol": 3e-5}


@pytest.fixture(params=["grouped", "base", "qwen2"])
def kind(request):
    return request.param


@pytest.fixture
def library_model(kind):
    return reference(kind)


@pytest.fixture
def model(library_model, tmp_path):
    return ready(load(saved(library_model, tmp_path / "model"), "llama"))


def under(position, **more) -> Condition:
    return Condition.model_validate({"position": position, **more})


def states_of(model, condition, documents):
    """Hidden states after the last norm, of packed and of padded documents, one by one."""
    lengths = [len(ids) for ids in documents]
    with applied(model, condition):
        packed = packed_states(model, documents)[-1][0].split(lengths)
        padded = forward(model, documents)[0][-1]  # [batch, longest, d_model]
    for state, row in zip(packed, padded, strict=True):
        torch.testing.assert_close(row[: len(state)], state, **CLOSE)
    return packed


def expected_at(library_model, documents, positions):
    """The library's own at other positions, float [tokens], given to its angles' source."""
    states = []
    for ids in documents:
        at = torch.as_tensor(positions(np.arange(len(ids)))).float()[None]  # [1, tokens]
        hook = library_model.model.rotary_emb.register_forward_pre_hook(
            lambda module, args, options, at=at: (args[:1], {"position_ids": at}),
            with_kwargs=True,
        )
        states.append(library_output(library_model, ids).hidden_states[-1][0])
        hook.remove()
    return states


def same(states, expected):
    return all(torch.allclose(a, b, **CLOSE) for a, b in zip(states, expected, strict=True))


@pytest.mark.parametrize(
    ("position", "positions"),
    [
        ("zero", lambda p: 0 * p),
        ({"kind": "interpolate", "by": 0.5}, lambda p: 0.5 * p),
        ({"kind": "interpolate", "by": 2.0}, lambda p: 2 * p),
        ({"kind": "shuffle", "seed": 3}, lambda p: np.random.default_rng(3).permutation(40)[p]),
        ({"kind": "shift", "by": 5}, lambda p: p),  # the distances are the same
    ],
)
def test_positions_are_those_that_a_condition_says(
    model, library_model, documents, position, positions
):
    expected = expected_at(library_model, documents, positions)
    states = states_of(model, under(position), documents)
    assert same(states, expected)
    assert same(states, expected_at(library_model, documents, lambda p: p)) == (
        isinstance(position, dict) and position["kind"] == "shift"
    )


def test_another_base_is_the_library_s(kind, model, documents):
    theta = reference(kind).config.rope_parameters["rope_theta"]
    base = rotary.ntk_base(theta, 4.0, 8)
    library_model = reference(kind, rope_parameters={"rope_type": "default", "rope_theta": base})
    expected = expected_at(library_model, documents, lambda p: p)
    assert same(states_of(model, under({"kind": "base", "stretch": 4.0}), documents), expected)


@pytest.mark.parametrize("kept", ["highest", "lowest"])
@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_bands_of_frequencies(model, documents, kept, count):
    condition = under({"kind": "bands", "kept": kept, "count": count})
    states = states_of(model, condition, documents)
    assert same(states, states_of(model, under("intact"), documents)) == (count == 4)
    assert same(states, states_of(model, under("zero"), documents)) == (count == 0)
    band = rotary.banded(
        frequencies(model), slice(count) if kept == "highest" else slice(4 - count, 4)
    )
    with turned(model, condition):
        x = torch.zeros(1, 3, 8)
        cosine, _ = model.model.rotary_emb(x, position_ids=torch.tensor([[0, 7, 11]]))
    expected = np.cos(np.array([0, 7, 11])[:, None] * band)
    np.testing.assert_allclose(cosine[0, :, :4].numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("position", "like"),
    [
        ({"kind": "unrotated"}, "zero"),
        ({"kind": "unrotated", "layers": [0, 1, 2]}, "zero"),
        ({"kind": "unrotated", "heads": [0, 1, 2, 3]}, "zero"),
        ({"kind": "unrotated", "layers": [1], "heads": [2]}, None),
        ({"kind": "unrotated", "first_key": True}, None),
        ({"kind": "clip", "distance": 0}, "zero"),
        ({"kind": "clip", "distance": 32}, "intact"),
        ({"kind": "clip", "distance": 3}, None),
    ],
)
def test_rotation_of_some_pairs(model, documents, position, like):
    states = states_of(model, under(position), documents)
    for other in ("intact", "zero"):
        assert same(states, states_of(model, under(other), documents)) == (like == other)
    counted = [[True] * len(ids) for ids in documents]
    mask = {"semantics": "additive", "profile": {"kind": "alibi", "slope": 0.0}}
    both = {"plain": under(position), "masked": under(position, mask=mask)}
    outcomes = {name: [] for name in both}
    for name, outcome in evaluate(model, documents, counted, both, {}, 1000):
        outcomes[name].append(outcome.nll)
    for plain, masked in zip(*outcomes.values(), strict=True):
        np.testing.assert_allclose(plain, masked, rtol=0, atol=5e-5)


def test_scores_of_some_pairs_are_those_of_the_formula(model, documents):
    """Shaw et al.'s clipping, and queries and keys as projections give them, in float64."""
    ids = documents[3]
    with attention.recording_before_rotation(model) as before:
        _, after = forward(model, [ids])
    places, theta = np.arange(len(ids)), frequencies(model)
    for layer in range(len(blocks(model))):
        q, k = (getattr(before, name)[layer][0].numpy() for name in ("queries", "keys"))
        turned_pair = after.queries[layer], after.keys[layer]

        def found(q, k, section, layer=layer, pair=turned_pair):
            with turned(model, under(section)):
                return masked_attention._pairs[layer](*pair, [ids])[0].numpy() / np.sqrt(8)

        past = np.tril(np.ones((len(ids),) * 2, bool))
        for clip in (0, 3, 10):
            expected = rotary.scores(q, k, places, theta, clip=clip)
            scores = found(q, k, {"kind": "clip", "distance": clip})
            np.testing.assert_allclose(scores[:, past], expected[:, past], rtol=0, atol=1e-4)
        whole, none = rotary.scores(q, k, places, theta), rotary.scores(q, k, places, [])
        scores = found(q, k, {"kind": "unrotated", "heads": [1, 3]})
        np.testing.assert_allclose(scores[[0, 2]], whole[[0, 2]], rtol=0, atol=1e-4)
        np.testing.assert_allclose(scores[[1, 3]], none[[1, 3]], rtol=0, atol=1e-4)
        scores = found(q, k, {"kind": "unrotated", "first_key": True})
        np.testing.assert_allclose(scores[..., 0], none[..., 0], rtol=0, atol=1e-4)
        np.testing.assert_allclose(scores[..., 1:], whole[..., 1:], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"position": "mean"},
            r"position 'mean' is not for .* rotation: it takes intact, zero, sh",
        ),
        ({"position": {"kind": "learned", "mask": "it"}}, r"position 'learned' is not for"),
        ({"beyond": "wrap"}, r"beyond 'wrap' is for tables"),
        ({"position": {"kind": "unrotated", "layers": [3]}}, r"position\.layers names 3"),
        ({"position": {"kind": "unrotated", "heads": [4]}}, r"position\.heads names 4"),
    ],
)
def test_what_does_not_fit_a_rotary_model_is_refused(model, section, message):
    masks = {"it": LearnedMask()}
    with (
        pytest.raises(ConditionError, match=message),
        applied(model, Condition.model_validate(section), masks),
    ):
        pass


@pytest.mark.parametrize("embeddings", ["unit_norm", {"kind": "scale", "by": 3.0}])
def test_embeddings_are_touched_before_the_first_block(model, library_model, documents, embeddings):
    ids = documents[3]
    x = library_model.model.embed_tokens.weight[ids].detach()  # [tokens, d_model]
    x = x * 3 if isinstance(embeddings, dict) else x / x.norm(dim=-1, keepdim=True)
    with torch.inference_mode():
        expected = library_model(inputs_embeds=x[None], output_hidden_states=True)
    states = states_of(model, under("intact", embeddings=embeddings), [ids])
    assert same(states, [expected.hidden_states[-1][0]])


# --- Masks --------------------------------------------------------------------------------------


def closed_form(**changes) -> ClosedFormMask:
    section = {"method": "closed_form", "position": "zero", "documents": None, "seed": 0,
               "first": True, "temperature": False}  # fmt: skip
    return ClosedFormMask.model_validate({**section, **changes})


def distilled(**changes) -> DistilledMask:
    section = {"method": "distilled", "position": "zero", "layout": "relative", "first": True,
               "weights": "uniform", "sequential": False, "of": "scores"}  # fmt: skip
    return DistilledMask.model_validate({**section, **changes})


def calibration(model, documents) -> Calibration:
    return Calibration(model, documents[:4], documents[4:], 60)


def test_one_token_again_and_again_is_all_mask(model):
    """Queries and keys do not vary, so the closed form is the whole difference, at any distance."""
    data = calibration(model, [[7] * 12, [7] * 20, [7] * 9, [7] * 5, [7] * 30, [7] * 30])
    for source in (closed_form(), closed_form(documents=1), closed_form(first=False)):
        mask, facts = learn(source, data)
        heads = with_and_without(model, [[7] * 33])
        for layer in range(3):
            difference = (heads.scores(layer) - heads.content(layer))[0].numpy()
            past = np.tril(np.ones(difference.shape[-2:], bool))
            bias = mask.bias(layer, 33)
            np.testing.assert_allclose(bias[:, past], difference[:, past], rtol=0, atol=1e-4)
            assert np.abs(difference).max() > 0.05
        assert facts["tokens"] <= 46


def test_the_mean_difference_of_the_scores_is_the_mean(model, documents):
    """By brute force over all pairs; with means of queries and keys that go together by chance."""
    mask, _ = learn(distilled(), calibration(model, documents))
    differences = {}
    for ids in documents[:4]:
        heads = with_and_without(model, [ids])
        for layer in range(3):
            difference = (heads.scores(layer) - heads.content(layer))[0].numpy()
            for i in range(len(ids)):
                for j in range(i + 1):
                    key = (layer, "first", i) if j == 0 else (layer, i - j)
                    differences.setdefault(key, []).append(difference[:, i, j])
    longest = max(map(len, documents[:4]))
    for layer in range(3):
        bias = mask.bias(layer, longest)
        for i in range(longest):
            np.testing.assert_allclose(
                bias[:, i, 0], np.mean(differences[layer, "first", i], axis=0), rtol=0, atol=1e-4
            )
            for j in range(1, i + 1):
                expected = np.mean(differences[layer, i - j], axis=0)
                np.testing.assert_allclose(bias[:, i, j], expected, rtol=0, atol=1e-4)


def test_the_closed_form_is_of_the_means_of_all_tokens_but_first_ones(model, documents):
    mask, _ = learn(closed_form(), calibration(model, documents))
    before = {"queries": [], "keys": [], "first": []}
    for ids in documents[:4]:
        with attention.recording_before_rotation(model) as heads:
            packed_states(model, [ids])
        before["queries"].append(heads.queries[1][0, :, 1:])
        before["keys"].append(heads.keys[1][0, :, 1:])
        before["first"].append(heads.keys[1][0, :, :1])
    q, k, first = (torch.cat(x, dim=1).mean(dim=1).double().numpy() for x in before.values())
    theta, places = frequencies(model), np.arange(40)
    for key, column in ((k, 20), (first, 0)):
        turned_key = [rotary.scores(q[:, None], key[:, None], [0.0], theta[:0])[:, 0, 0]]
        for distance in (1, 5, 19):
            pair_q, pair_k = (
                rotary.rotate(x[:, None], places[[p]], theta)[:, 0]
                for x, p in ((q, distance), (key, 0))
            )
            expected = (pair_q * pair_k).sum(-1) / np.sqrt(8) - turned_key[0]
            biases = mask.bias(1, 40)[:, column + distance, column]
            np.testing.assert_allclose(biases, expected, rtol=0, atol=1e-5)


def test_a_mask_of_beginnings_is_that_of_documents_that_end_there(model, documents):
    cut = calibration(model, documents)
    begun = Calibration(model, [ids[:7] for ids in documents[:4]], documents[4:], 60)
    mask, facts = learn(closed_form(tokens=7), cut)
    expected, of = learn(closed_form(), begun)
    assert facts["tokens"] == of["tokens"] == sum(min(len(ids), 7) for ids in documents[:4])
    # A rotation has a curve at any distance: it reaches as far as one of whole documents.
    reach = expected.relative.shape[-1]
    assert mask.relative.shape == learn(closed_form(), cut)[0].relative.shape
    assert mask.relative.shape[-1] > reach
    np.testing.assert_allclose(mask.relative[..., :reach], expected.relative, atol=1e-6)
    assert not np.allclose(mask.relative, learn(closed_form(), cut)[0].relative, atol=1e-4)


def test_documents_are_drawn_and_must_be_there(model, documents):
    data = calibration(model, documents)
    first, second = (learn(closed_form(documents=1, seed=seed), data)[0] for seed in (0, 1))
    assert not np.allclose(first.relative, second.relative)
    with pytest.raises(RuntimeError, match=r"documents is 5, but masks are fitted on 4"):
        learn(closed_form(documents=5), data)


@pytest.mark.parametrize("placebo", ["over_heads", "within_layers", "one_per_layer"])
def test_placebos_have_the_same_curves_in_other_places(model, documents, placebo):
    data = calibration(model, documents)
    own, other = (learn(closed_form(placebo=p), data)[0] for p in (None, placebo))
    whole = [
        np.concatenate([m.relative[:, :, 0], m.first], -1).reshape(12, -1) for m in (own, other)
    ]
    assert not any(np.allclose(a, b) for a, b in zip(*whole, strict=True))
    if placebo == "one_per_layer":
        expected = whole[0].reshape(3, 4, -1).mean(axis=1, keepdims=True).repeat(4, axis=1)
        np.testing.assert_allclose(whole[1].reshape(3, 4, -1), expected, rtol=0, atol=1e-6)
    else:
        np.testing.assert_allclose(np.sort(whole[0], axis=0), np.sort(whole[1], axis=0), atol=1e-6)


@pytest.mark.parametrize("source", [closed_form(temperature=True), distilled(temperature=True)])
def test_temperatures_are_least_squares_within_queries(model, documents, source):
    data = calibration(model, documents)
    seen = []
    mask, _ = learn(source, data, seen.append)
    assert sum(seen) == work(source, data)
    layer, head = 1, 2
    rows, values = [], []
    for ids in documents[:4]:
        heads = with_and_without(model, [ids])
        z, c = (f(layer)[0, head].double().numpy() for f in (heads.scores, heads.content))
        bias = mask.bias(layer, len(ids))[head]
        for i in range(1, len(ids)):
            pattern = np.exp(z[i, : i + 1] - z[i, : i + 1].max())
            weight = np.sqrt(pattern / pattern.sum())
            x, y = c[i, : i + 1], (z - bias)[i, : i + 1]
            rows += list(weight * (x - (weight**2 * x).sum()))
            values += list(weight * (y - (weight**2 * y).sum()))
    slope = np.linalg.lstsq(np.array(rows)[:, None], np.array(values), rcond=None)[0][0]
    expected = 1 / slope if slope > 0 else 1.0
    assert mask.temperature[layer, head] == pytest.approx(max(expected, 0.1), rel=1e-3)


def test_a_temperature_divides_the_scores_of_its_head(library_model, model, documents):
    """The same as queries whose projection was divided by it."""
    temperature = np.linspace(0.5, 2, 12, dtype=np.float32).reshape(3, 4)
    zeros = np.zeros((3, 4, 1, 5), np.float32)
    mask = LearnedMask(relative=zeros, temperature=temperature)
    profile = {"semantics": "additive", "profile": {"kind": "learned", "mask": "it"}}
    with applied(model, under("intact", mask=profile), {"it": mask}):
        states = [packed_states(model, [ids])[-1][0] for ids in documents]
    with torch.no_grad():
        for layer, block in enumerate(library_model.model.layers):
            factor = torch.from_numpy(1 / temperature[layer]).repeat_interleave(8)
            block.self_attn.q_proj.weight *= factor[:, None]
            if block.self_attn.q_proj.bias is not None:
                block.self_attn.q_proj.bias *= factor
    assert same(states, [library_output(library_model, d).hidden_states[-1][0] for d in documents])
    # Of some heads alone, and in a pass with others.
    partial = under("intact", mask={**profile, "heads": [1]})
    one_head = LearnedMask(
        relative=zeros, temperature=np.where(np.arange(4) == 1, temperature, 1).astype(np.float32)
    )
    whole = under("intact", mask={**profile, "profile": {"kind": "learned", "mask": "one"}})
    counted = [[True] * len(ids) for ids in documents]
    nll = {"some": [], "whole": []}
    for name, outcome in evaluate(
        model,
        documents,
        counted,
        {"some": partial, "whole": whole},
        {"it": mask, "one": one_head},
        500,
    ):
        nll[name].append(outcome.nll)
    for a, b in zip(*nll.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=5e-5)


def test_a_fit_begins_with_the_mask_that_it_is_on(model, documents):
    data = calibration(model, documents)
    base, facts = learn(closed_form(temperature=True), data)
    section = {
        "method": "fitted", "position": "zero", "learn_position": False, "begin": "base",
        "terms": ["slope", "logarithm", "near", "first"], "near": 2, "steps": 6,
        "batch_documents": 2, "learning_rate": 1e-9, "precision": "float32", "validate_steps": 3,
        "seed": 0,
    }  # fmt: skip
    mask, fitted = learn(FittedMask.model_validate(section), data, others={"base": base})
    assert fitted["curve"][0]["loss"] == pytest.approx(facts["loss"], abs=1e-6)
    for layer in range(3):
        np.testing.assert_allclose(mask.bias(layer, 33), base.bias(layer, 33), rtol=0, atol=1e-4)
    np.testing.assert_array_equal(mask.temperature, base.temperature)
    # Judged on what it is fitted on: of random tokens, nothing holds for others.
    data = calibration(model, [*documents[:4], *documents[:4]])
    _, facts = learn(closed_form(temperature=True), data)
    better = FittedMask.model_validate({**section, "learning_rate": 0.05, "steps": 30})
    assert learn(better, data, others={"base": base})[1]["loss"] < facts["loss"] - 0.01


def test_what_a_distilled_mask_cannot_be():
    with pytest.raises(ValidationError, match="has no order of layers: set sequential to false"):
        distilled(sequential=True)
    with pytest.raises(ValidationError, match="temperature needs of: scores and layout: relative"):
        distilled(of="model", temperature=True)


def test_the_parts_of_scores_with_the_mask_sum_to_the_scores(model, documents):
    mask, _ = learn(closed_form(), calibration(model, documents))
    ids = documents[3]
    with attention.recording_before_rotation(model) as before:
        _, after = forward(model, [ids])
    q, k = (getattr(before, name)[2][0].numpy() for name in ("queries", "keys"))
    parts = score_parts.score_parts(
        q, k, np.arange(len(ids)), frequencies(model), mask.bias(2, len(ids))
    )
    expected = (after.queries[2] @ after.keys[2].transpose(-1, -2))[0].numpy() / np.sqrt(8)
    np.testing.assert_allclose(parts.sum(0), expected, rtol=0, atol=1e-4)
