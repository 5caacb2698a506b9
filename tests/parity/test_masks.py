"""Learned masks: exact where the scores depend on distance alone, and judged as they are fitted."""

import math

import numpy as np
import pytest
import torch
import transformers

from posenc.architectures import attention
from posenc.artifacts.files import ArtifactError
from posenc.capture import closed_form, mask_fitting
from posenc.capture import learning as masks
from posenc.capture.calibration import Calibration, position_of, shape_of, with_mask
from posenc.capture.capture import forward
from posenc.capture.distilling import _Averages, distill
from posenc.capture.evaluation import INTACT, states_under
from posenc.capture.interventions import applied
from posenc.capture.parts import body, first_row, position_embedding
from posenc.conditions.learned import LearnedMask, read, write
from posenc.conditions.masks import ClosedFormMask, DistilledMask, FittedMask, SlopeMask
from posenc.conditions.section import Condition
from posenc.metrics.mask_placebos import hashed_distances, hashed_sides
from posenc.models.load import load

N, WIDTH = 12, 16
CLOSED = {"method": "closed_form", "position": "zero", "documents": None, "seed": 0,
          "first": True, "temperature": False}  # fmt: skip


def distance_model():
    """One layer whose scores are 3 cos(i - j), whatever the tokens: position is all they see.

    Tokens live in the first half of the features and positions in the other; queries and keys read
    positions, values read tokens. LayerNorm has so large an eps that it is linear.
    """
    config = transformers.GPT2Config(
        vocab_size=20, n_positions=N, n_layer=1, n_head=2, n_embd=WIDTH, n_inner=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=1e8,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    attention.register()
    model = transformers.GPT2LMHeadModel(config).eval()
    generator = torch.Generator().manual_seed(0)
    half, d_head = WIDTH // 2, WIDTH // 2
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for norm in (model.transformer.h[0].ln_1, model.transformer.h[0].ln_2,
                     model.transformer.ln_f):  # fmt: skip
            norm.weight.fill_(1e4)  # sqrt(eps): the norm is the identity, but for the mean
        tokens = torch.randn(20, half, generator=generator)
        model.transformer.wte.weight[:, :half] = tokens - tokens.mean(1, keepdim=True)
        angle = torch.arange(N, dtype=torch.float32)
        wave = torch.stack([angle.cos(), angle.sin(), -angle.cos(), -angle.sin()], 1)
        model.transformer.wpe.weight[:, half : half + 4] = wave  # zero mean
        project = model.transformer.h[0].attn.c_attn.weight  # [d_model, 3 d_model]
        size = math.sqrt(3 * math.sqrt(d_head))
        for head in range(2):
            for k in range(2):
                project[half + k, head * d_head + k] = size
                project[half + k, WIDTH + head * d_head + k] = size
        project[:half, 2 * WIDTH :] = torch.randn(half, WIDTH, generator=generator)
        out = model.transformer.h[0].attn.c_proj.weight
        out[:, :half] = torch.randn(WIDTH, half, generator=generator)
    model.set_attn_implementation(attention.NAME)
    return model


@pytest.fixture
def texts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(0, 20, (length,), generator=generator).tolist()
        for length in (12, 9, 12, 5, 11, 12, 3, 12)
    ]


def distilled(**changes):
    section = {"method": "distilled", "position": "zero", "layout": "relative", "first": False,
               "weights": "uniform", "sequential": False}  # fmt: skip
    return DistilledMask.model_validate({**section, **changes})


@pytest.mark.parametrize(
    "changes",
    [{}, {"sequential": True}, {"first": True}, {"layout": "absolute"}, {"of": "scores"}, CLOSED],
    ids=["relative", "sequential", "first", "absolute", "scores", "closed"],
)
def test_scores_of_distance_alone_are_restored_exactly(texts, changes):
    model = distance_model()
    data = Calibration(model, texts[:6], texts[6:], 1000)
    source = ClosedFormMask(**changes) if changes == CLOSED else distilled(**changes)
    mask, _ = masks.learn(source, data)
    if "layout" not in changes:
        known = mask.relative[0, 0, 0]
        np.testing.assert_allclose(known[: N - 1], 3 * np.cos(np.arange(N - 1)), atol=1e-4)
    condition = with_mask("zero")
    for ids in texts:
        with torch.inference_mode():
            intact = forward(model, [ids])[0][-1][0, :, : WIDTH // 2]
            with applied(model, Condition(position="zero")):
                without = forward(model, [ids])[0][-1][0, :, : WIDTH // 2]
            with applied(model, condition, {"it": mask}):
                restored = forward(model, [ids])[0][-1][0, :, : WIDTH // 2]
        torch.testing.assert_close(restored, intact, rtol=0, atol=2e-4)
        if len(ids) > 3:
            assert (without - intact).abs().max() > 0.1


def test_one_pass_serves_distilled_and_closed_masks(folder, family, documents, monkeypatch):
    """After a mask distilled from scores, a closed-form one does not run the model again."""
    model = load(folder, family)
    source = ClosedFormMask(**CLOSED)
    alone, _ = closed_form.closed_form(source, Calibration(model, documents, documents, 60))
    data = Calibration(model, documents, documents, 60)
    distill(distilled(of="scores", first=True), data)
    monkeypatch.delattr(closed_form, "with_and_without")
    after, _ = closed_form.closed_form(source, data)
    np.testing.assert_array_equal(after.relative, alone.relative)
    np.testing.assert_array_equal(after.first, alone.first)
    with pytest.raises(NameError):  # other documents have other means
        closed_form.closed_form(source.model_copy(update={"documents": 1}), data)


def test_averages_are_those_of_a_loop(texts):
    """Differences by distance, with the first key apart, counted pair by pair."""
    rng = np.random.default_rng(0)
    averages = _Averages(1, 2, 6)
    loops = {}
    for _ in range(4):
        difference = torch.tensor(rng.normal(size=(3, 2, 6, 6)))
        weight = torch.tensor(rng.uniform(size=(3, 2, 6, 6)))
        averages.add(0, difference, weight)
        for (b, h, i, j), value in np.ndenumerate(difference.numpy()):
            w = float(weight[b, h, i, j])
            for key in (("all", h, i - j), ("rest", h, i - j) if j else ("first", h, i)):
                top, bottom = loops.get(key, (0.0, 0.0))
                loops[key] = (top + w * value, bottom + w)
    both = averages.relative(0, 2, without_first=False)
    rest = averages.relative(0, 1, without_first=True)
    first = averages.first(0, rest)
    for h in range(2):
        for offset in range(6):
            for side, sign in ((0, 1), (1, -1)):
                top, bottom = loops["all", h, sign * offset]
                np.testing.assert_allclose(both[h, side, offset], top / bottom, atol=1e-12)
            expected = 0.0
            if offset < 5:  # at the longest distance, the first key is the only one
                top, bottom = loops["rest", h, offset]
                expected = top / bottom
            np.testing.assert_allclose(rest[h, 0, offset], expected, atol=1e-12)
            top, bottom = loops["first", h, offset]
            np.testing.assert_allclose(first[h, offset], top / bottom - expected, atol=1e-12)


def fitted(**changes):
    section = {
        "method": "fitted", "position": "keep_first_mean", "learn_position": True,
        "terms": ["slope", "logarithm", "near", "first"], "near": 3, "steps": 6,
        "batch_documents": 3, "learning_rate": 0.05, "precision": "float32", "validate_steps": 2,
        "seed": 0,
    }  # fmt: skip
    return FittedMask.model_validate({**section, **changes})


TERMS = ["slope", "logarithm", "near", "first"]


@pytest.mark.parametrize(
    "changes",
    [
        {"terms": []},
        {"terms": TERMS},
        {"terms": TERMS, "distances": "hashed"},
        {"terms": TERMS, "position": "intact"},
        {"terms": TERMS, "position": "intact", "distances": "hashed"},
        {"terms": TERMS, "learn_position": False, "position": "intact"},
        {"terms": TERMS, "learn_position": False, "position": "intact", "distances": "hashed"},
    ],
)
def test_the_fit_s_loss_is_the_loss_that_is_judged(folder, family, documents, changes):
    """At random parameters, with a gradient and as conditions are evaluated."""
    model = load(folder, family)
    data = Calibration(model, documents, documents, 60)
    source = fitted(**changes)
    parameters = mask_fitting._Parameters(source, model, data.longest)
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in parameters.parameters():
            parameter.normal_(std=0.3)
    condition = with_mask(position_of(source), bool(source.terms))
    judged = data.loss(condition, parameters.mask())
    loss = mask_fitting._loss(parameters, data, documents)
    assert loss.requires_grad
    assert float(loss.detach()) == pytest.approx(judged, abs=2e-6)


def test_hashed_distances_are_a_bias_of_the_library(folder, family, documents):
    """Against the library's eager attention with the bias as its 4-D mask, written pair by pair."""
    model = load(folder, family)
    rng, (n_layers, n_heads, sides) = np.random.default_rng(4), shape_of(model)
    # One bias for all heads of all layers: the library takes one mask.
    curves = rng.normal(size=(sides, 9)).astype(np.float32)
    mask = LearnedMask(
        relative=np.broadcast_to(curves, (n_layers, n_heads, sides, 9)).copy(), hashed=np.array(5)
    )
    ids = [*documents[0][:6], *documents[1][:5], documents[0][1]]
    distance, side = hashed_distances(ids, 9, 5), hashed_sides(ids, 5)
    bias = torch.zeros(len(ids), len(ids))
    for i, j in np.ndindex(*bias.shape):
        bias[i, j] = float(curves[side[i, j] if sides > 1 else 0, distance[i, j]])
        if family == "gpt2" and j > i:
            bias[i, j] = -torch.inf
    ours = states_under(model, [ids, documents[2]], [with_mask("intact")], {"it": mask})[0][-1]
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = body(model)(torch.tensor([ids]), attention_mask=bias[None, None])[0][0]
    torch.testing.assert_close(ours[: len(ids)], expected, rtol=1e-4, atol=2e-5)


def test_hashed_distances_need_the_tokens():
    mask = LearnedMask(relative=np.zeros((1, 1, 1, 3), np.float32), hashed=np.array(0))
    with pytest.raises(ArtifactError, match="needs the tokens"):
        mask.bias(0, 4)


def test_a_mask_of_zeros_is_the_model_without_positions(folder, family, documents):
    model = load(folder, family)
    data = Calibration(model, documents, documents, 60)
    n_layers, n_heads, sides = shape_of(model)
    nothing = LearnedMask(relative=np.zeros((n_layers, n_heads, sides, 9), np.float32))
    without = data.loss(Condition(position="zero"))
    assert data.loss(with_mask("zero"), nothing) == pytest.approx(without, abs=1e-6)
    assert data.loss(INTACT) != pytest.approx(without, abs=1e-3)


def test_a_fit_keeps_its_best_and_leaves_the_weights(folder, family, documents):
    model = load(folder, family)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    data = Calibration(model, documents, documents, 60)
    mask, facts = masks.learn(fitted(), data)
    losses = [point["loss"] for point in facts["curve"]]
    assert facts["loss"] == pytest.approx(min(losses), abs=1e-6)
    assert min(losses) < losses[0] == pytest.approx(facts["start"], abs=1e-6)
    # A vector for the first position and one for the others; 6 numbers a head and side, one first.
    sides = 1 if family == "gpt2" else 2
    assert facts["parameters"] == 2 * 32 + 3 * 4 * (sides * (1 + 1 + 3) + 1)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    again, _ = masks.learn(fitted(), data)
    for name, array in mask.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])


def test_vectors_are_added_to_an_intact_table(folder, family, documents):
    """By hand, in the library's model, with a sum in place of the position table."""
    model = load(folder, family)
    data = Calibration(model, documents, documents, 60)
    source = fitted(terms=[], position="intact")
    parameters = mask_fitting._Parameters(source, model, data.longest)
    untouched = data.loss(with_mask(position_of(source), False), parameters.mask())
    assert untouched == pytest.approx(data.loss(INTACT), abs=1e-6)
    rng, embedding = np.random.default_rng(6), position_embedding(model)
    initial, constant = rng.normal(size=(2, embedding.embedding_dim)).astype(np.float32)
    with torch.no_grad():
        parameters.initial.copy_(torch.tensor(initial))
        parameters.constant.copy_(torch.tensor(constant))
    loss = data.loss(with_mask(position_of(source), False), parameters.mask())
    assert loss != pytest.approx(untouched, abs=1e-3)
    first = first_row(model)
    with torch.no_grad():
        embedding.weight[first] += torch.tensor(initial)
        embedding.weight[first + 1 :] += torch.tensor(constant)
    if family == "gpt2":  # An encoder's loss is the distance to what the model now is.
        assert Calibration(model, documents, documents, 60).loss(INTACT) == pytest.approx(
            loss, abs=2e-6
        )


def test_the_best_slope_of_the_list_is_taken(texts):
    model = distance_model()
    data = Calibration(model, texts[:4], texts[4:], 1000)
    slopes = [0.0, 0.3, 2.0]
    mask, facts = masks.choose_slope(
        SlopeMask(method="slope", position="zero", slopes=slopes), data
    )
    losses = [point["loss"] for point in facts["curve"]]
    assert facts["slope"] == slopes[int(np.argmin(losses))]
    np.testing.assert_allclose(mask.relative[0, 1, 0, :3], -facts["slope"] * np.arange(3))
    assert losses[0] == pytest.approx(data.loss(Condition(position="zero")), abs=1e-6)


def test_a_mask_comes_back_from_its_file(tmp_path):
    rng = np.random.default_rng(0)
    mask = LearnedMask(
        relative=rng.normal(size=(2, 2, 1, 5)).astype(np.float32), constant=np.ones(4, np.float32)
    )
    write(tmp_path / "it.safetensors", mask, {"mask": "it"})
    back, facts = read(tmp_path / "it.safetensors")
    assert facts["mask"] == "it" and back.first is None
    np.testing.assert_array_equal(back.relative, mask.relative)
    np.testing.assert_array_equal(back.vectors(3), np.ones((3, 4)))
    content = bytearray((tmp_path / "it.safetensors").read_bytes())
    content[-3] ^= 1
    (tmp_path / "it.safetensors").write_bytes(content)
    from posenc.artifacts.files import DamagedError

    with pytest.raises(DamagedError, match="was altered or damaged"):
        read(tmp_path / "it.safetensors")


def test_a_bias_by_hash_knows_no_order(tmp_path):
    rng = np.random.default_rng(1)
    relative = rng.normal(size=(2, 3, 2, 7)).astype(np.float32)
    write(tmp_path / "it.safetensors", LearnedMask(relative, hashed=np.array(3)), {"mask": "it"})
    mask, _ = read(tmp_path / "it.safetensors")
    ids, order = rng.integers(0, 99, 20).tolist(), rng.permutation(20)
    bias, again = mask.bias(1, 20, ids), mask.bias(1, 20, [ids[k] for k in order])
    np.testing.assert_array_equal(again, bias[:, order][:, :, order])
    assert len(np.unique(bias)) == 3 * 2 * 7


def test_a_relative_bias_by_hand():
    relative = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)  # past 0 1 2, future 3 4 5
    first = np.array([[[10.0, 20.0]]], np.float32)
    bias = LearnedMask(relative=relative, first=first).bias(0, 4)[0]
    np.testing.assert_array_equal(
        bias,
        [[10 + 0, 4, 5, 5], [20 + 1, 0, 4, 5], [20 + 2, 1, 0, 4], [20 + 2, 2, 1, 0]],
    )


def test_a_mask_is_read_as_it_was_written(tmp_path):
    """Whatever its order of axes in memory: a file holds the bytes as they lie there."""
    rng = np.random.default_rng(0)
    curves = rng.normal(size=(2, 3, 1, 5)).astype(np.float32)
    longer = curves[..., np.minimum(np.arange(9), 4)]  # NumPy lays its last axis out first
    first = np.asfortranarray(rng.normal(size=(2, 3, 9)).astype(np.float32))
    assert not longer.flags.c_contiguous and not first.flags.c_contiguous
    write(tmp_path / "mask.safetensors", LearnedMask(relative=longer, first=first), {})
    mask, _ = read(tmp_path / "mask.safetensors")
    np.testing.assert_array_equal(mask.relative, longer)
    np.testing.assert_array_equal(mask.first, first)
