"""What each condition computes, against definitions written out from the catalogue's table."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from posenc.capture.capture import document_losses, forward, packed_states
from posenc.capture.evaluation import stacked_states, states_under
from posenc.capture.interventions import applied
from posenc.capture.parts import ConditionError, blocks, position_embedding
from posenc.conditions import positions, profiles, semantics
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition
from posenc.models.load import load

TOLERANCE = {"rtol": 0, "atol": 3e-6}  # float32 sums in another order
LINEAR = {"kind": "linear", "floor": 0.1}
LOWEST = torch.finfo(torch.float32).min


def masked(name, position="intact", profile=LINEAR, **others):
    mask = {"semantics": name, "profile": profile, **others}
    return Condition.model_validate({"position": position, "mask": mask})


@torch.inference_mode()
def last(model, documents, condition, masks=None):
    """Last hidden state of each document, without padding."""
    with applied(model, condition, masks, max(map(len, documents))):
        states, _ = forward(model, documents)
    return [states[-1][row, : len(ids)] for row, ids in enumerate(documents)]


def written_out(name, z, v, m, causal):
    """A row of the table, from scores z [H, n, n], values v [H, n, d] and factors m [1 or n, n]."""
    n = z.shape[-1]
    future = torch.ones(n, n, dtype=torch.bool).triu(1) & causal
    hide = torch.where(future, -torch.inf, 0.0)
    if name in ("hf_le420", "hf_finfo"):
        lowest = -1e4 if name == "hf_le420" else LOWEST
        return (torch.where(future, lowest, z) + (1 - m) * lowest).softmax(-1) @ v
    if name in ("hf_sdpa_cpu", "hf_sdpa_cuda"):
        masked_out = torch.broadcast_to(m != 1, (n, n)) | future
        bias = torch.where(masked_out, LOWEST, 0.0)
        if name == "hf_sdpa_cuda" and causal:  # rows in which every key is masked are let free
            bias = bias * ~masked_out.all(-1, keepdim=True)
        return (z + bias).softmax(-1) @ v
    if name == "hf_bool":
        return (z + torch.where(m != 0, 0.0, -torch.inf) + hide).softmax(-1) @ v
    if name == "log_mask":
        p = (z + hide).softmax(-1) * m
        return p / p.sum(-1, keepdim=True) @ v
    if name == "prob_mul":
        return ((z + hide).softmax(-1) * m) @ v
    if name == "logit_mul":
        return (z * m + hide).softmax(-1) @ v
    raise AssertionError(name)


def eager_last(model, document, name, per_query, layers=None, heads=None):
    """The library's own blocks, with their attention written out as above."""
    causal = hasattr(model, "transformer")
    n = len(document)
    fraction = torch.linspace(0, 1, n)[None] if n > 1 else torch.ones(1, 1)
    if per_query:
        i, j = torch.arange(n)[:, None], torch.arange(n)
        fraction = torch.where(i > 0, j / i.clamp(min=1), torch.ones(())).clamp(max=1)
    m = 0.1 + 0.9 * fraction

    def attention(module, query, key, value, attention_mask, scaling=None, **kwargs):
        z = query[0] @ key[0].transpose(-1, -2) / math.sqrt(query.shape[-1])
        plain = written_out("hf_bool", z, value[0], torch.ones(1, n), causal)
        out = plain
        if layers is None or module.layer_idx in layers:
            out = written_out(name, z, value[0], m, causal)
            chosen = torch.tensor([heads is None or h in heads for h in range(len(z))])
            out = torch.where(chosen[:, None, None], out, plain)
        return out.transpose(0, 1)[None], None

    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register("written_out", attention)
    AttentionMaskInterface.register("written_out", sdpa_mask)
    former = model.config._attn_implementation
    model.set_attn_implementation("written_out")
    try:
        with torch.inference_mode():
            body = model.transformer if causal else model
            return body(torch.tensor([document])).last_hidden_state[0]
    finally:
        model.set_attn_implementation(former)


ROWS = [
    "hf_le420", "hf_finfo", "hf_sdpa_cpu", "hf_sdpa_cuda", "hf_bool", "log_mask", "prob_mul",
    "logit_mul",
]  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_its_definition(folder, family, documents, name):
    """In a padded batch, each document with its own profile."""
    model = load(folder, family)
    states = last(model, documents, masked(name))
    for document, state in zip(documents, states, strict=True):
        torch.testing.assert_close(
            state, eager_last(model, document, name, False), rtol=0, atol=2e-5
        )


@pytest.mark.parametrize("name", ["log_mask", "prob_mul", "logit_mul", "hf_le420"])
def test_a_row_along_each_query_is_its_definition(folder, family, documents, name):
    model = load(folder, family)
    states = last(model, documents, masked(name, span="query"))
    for document, state in zip(documents, states, strict=True):
        torch.testing.assert_close(
            state, eager_last(model, document, name, True), rtol=0, atol=2e-5
        )


@pytest.mark.parametrize("name", ["log_mask", "prob_mul", "logit_mul", "hf_sdpa_cpu"])
def test_a_mask_acts_on_its_layers_and_heads_only(folder, family, documents, name):
    model = load(folder, family)
    states = last(model, documents, masked(name, layers=[1], heads=[0, 3]))
    for document, state in zip(documents, states, strict=True):
        expected = eager_last(model, document, name, False, layers=[1], heads=[0, 3])
        torch.testing.assert_close(state, expected, rtol=0, atol=2e-5)


@pytest.fixture
def decoder(tmp_path):
    from tests.parity.library import reference

    reference("gpt2").save_pretrained(tmp_path / "gpt2")
    return load(tmp_path / "gpt2", "gpt2")


@pytest.mark.parametrize("name", ["hf_le420", "hf_finfo"])
def test_with_a_floor_of_0_the_future_leaks(decoder, documents, name):
    """The first query's own key is hidden as much as the last key: the library saw both."""
    zero_floor = masked(name, profile={"kind": "linear", "floor": 0.0})
    ids = documents[3]
    changed = [*ids[:-1], (ids[-1] + 1) % 97]
    ours, theirs = last(decoder, [ids], zero_floor)[0], last(decoder, [changed], zero_floor)[0]
    assert (ours[0] - theirs[0]).abs().max() > 1e-3
    ours, theirs = last(decoder, [ids], masked(name))[0], last(decoder, [changed], masked(name))[0]
    assert torch.equal(ours[:-1], theirs[:-1])


def assert_same(ours, theirs, tolerance=TOLERANCE):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


def test_hf_finfo_is_each_token_alone(decoder, documents):
    """The source's 11,897: no attention between tokens is left."""
    alone = states_under(decoder, documents, [Condition(position="zero", segments=1)], {})[0][-1]
    states = last(decoder, documents, masked("hf_finfo", "zero"))
    alone = alone.split([len(ids) for ids in documents])
    assert_same(alone, states)
    for row, ids in enumerate(documents):
        with applied(decoder, Condition(position="zero")):
            for place, token in enumerate(ids):
                single = forward(decoder, [[token]])[0][-1][0, 0]
                torch.testing.assert_close(alone[row][place], single, **TOLERANCE)


def test_hf_finfo_with_positions_is_each_token_alone_at_its_position(decoder, documents):
    states = last(decoder, documents, masked("hf_finfo"))
    for ids, state in zip(documents, states, strict=True):
        for place, token in enumerate(ids):
            with torch.inference_mode():
                single = decoder.transformer(
                    torch.tensor([[token]]), position_ids=torch.tensor([[place]])
                ).last_hidden_state[0, 0]
            torch.testing.assert_close(state[place], single, **TOLERANCE)


def test_an_affine_mask_is_alibi(decoder, documents):
    """z + (1 - m)(-10^4) with m linear is ALiBi of slope 9000 / (n - 1)."""
    for ids in documents:
        slope = 9000 / (len(ids) - 1)
        alibi = masked("additive", profile={"kind": "alibi", "slope": slope})
        assert_same(last(decoder, [ids], masked("hf_le420")), last(decoder, [ids], alibi))


def test_the_logarithm_of_an_exponential_profile_is_alibi(decoder, documents):
    for ids in documents:
        slope = -math.log(0.1) / (len(ids) - 1)
        alibi = masked("additive", profile={"kind": "alibi", "slope": slope})
        exponential = masked("log_mask", profile={"kind": "exponential", "floor": 0.1})
        assert_same(last(decoder, [ids], exponential), last(decoder, [ids], alibi))


@pytest.mark.parametrize(
    "condition",
    [
        masked("hf_bool"),
        masked("log_mask", profile={"kind": "constant", "value": 0.3}),
        masked("logit_mul", profile={"kind": "constant", "value": 1.0}),
        masked("prob_mul", profile={"kind": "constant", "value": 1.0}),
        masked("emb_mul", profile={"kind": "constant", "value": 1.0}),
        masked("additive", profile={"kind": "alibi", "slope": 0.0}),
        masked("log_mask", profile={"kind": "linear", "floor": 1.0}),
        Condition(embeddings={"kind": "scale", "by": 1.0}),
    ],
    ids=lambda condition: f"{condition.mask.semantics}" if condition.mask else "scale",
)
def test_what_has_no_effect(folder, family, documents, condition):
    model = load(folder, family)
    assert_same(last(model, documents, condition), last(model, documents, Condition()))


def test_a_multiplied_pattern_is_multiplied_values(decoder, documents):
    """(m p) V is p (m V): the value projection's output times m, by hand."""
    ids = documents[1]
    m = torch.linspace(0.1, 1, len(ids))

    def scaled(module, inputs, output):
        width = output.shape[-1] // 3
        return torch.cat([output[..., : 2 * width], output[..., 2 * width :] * m[:, None]], -1)

    hooks = [block.attn.c_attn.register_forward_hook(scaled) for block in blocks(decoder)]
    expected = last(decoder, [ids], Condition())
    for hook in hooks:
        hook.remove()
    assert_same(last(decoder, [ids], masked("prob_mul")), expected)


def test_scaled_embeddings_leave_the_first_attention_of_a_pre_norm_model(decoder, documents):
    """LayerNorm removes a token's scale (up to its eps): later layers see it again."""

    def states(condition):
        with applied(decoder, condition):
            return forward(decoder, documents[:1])

    for block in blocks(decoder):
        block.ln_1.eps = 0.0
    (plain, intact), (changed, scaled) = states(Condition()), states(masked("emb_mul"))
    torch.testing.assert_close(intact.queries[0], scaled.queries[0], rtol=0, atol=2e-6)
    torch.testing.assert_close(intact.keys[0], scaled.keys[0], rtol=0, atol=2e-6)
    assert (intact.keys[1] - scaled.keys[1]).abs().max() > 1e-3
    n = len(documents[0])
    expected = plain[0] * torch.linspace(0.1, 1, n)[:, None]
    torch.testing.assert_close(changed[0], expected, **TOLERANCE)


@pytest.mark.parametrize("kind", ["unit_norm", {"kind": "scale", "by": 3.0}])
def test_the_norm_of_embeddings_is_nothing_to_a_post_norm_model(tmp_path, documents, kind):
    """BERT normalises the sum of its embeddings: a norm cannot carry position there (A3)."""
    from tests.parity.library import reference

    reference("bert").save_pretrained(tmp_path / "bert")
    model = load(tmp_path / "bert", "bert")
    model.embeddings.LayerNorm.eps = 0.0
    assert_same(
        last(model, documents, Condition(embeddings=kind)), last(model, documents, Condition())
    )


def test_a_unit_norm_is_one(decoder, documents):
    with applied(decoder, Condition(embeddings="unit_norm")):
        states, _ = forward(decoder, documents[:1])
    norms = states[0][0].norm(dim=-1)
    torch.testing.assert_close(norms, torch.ones_like(norms))


def test_a_model_without_positions_commutes_with_a_permutation_of_an_encoder(tmp_path, documents):
    from tests.parity.library import reference

    reference("bert").save_pretrained(tmp_path / "bert")
    model = load(tmp_path / "bert", "bert")
    ids = documents[3]
    order = np.random.default_rng(0).permutation(len(ids))
    for position in ("zero", "mean"):
        condition = Condition(position=position)
        straight = last(model, [ids], condition)[0]
        permuted = last(model, [[ids[i] for i in order]], condition)[0]
        torch.testing.assert_close(permuted, straight[order], **TOLERANCE)
    straight = last(model, [ids], Condition())[0]
    permuted = last(model, [[ids[i] for i in order]], Condition())[0]
    assert (permuted - straight[order]).abs().max() > 1e-2


@pytest.mark.parametrize("n_layers", [1, 2])
def test_one_causal_layer_without_positions_forgets_the_order_of_its_past(n_layers, documents):
    """Two do not: the causal mask tells the second layer how much each token saw (A1)."""
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=97, n_positions=40, n_layer=n_layers, n_head=4, n_embd=32,
        initializer_range=0.3, attn_implementation="sdpa",
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = documents[3]
    order = np.random.default_rng(0).permutation(len(ids) - 1)
    permuted = [*(ids[i] for i in order), ids[-1]]
    ends = []
    with applied(model, Condition(position="zero")):
        for document in (ids, permuted):
            ends.append(forward(model, [document])[0][-1][0, -1])
    difference = (ends[0] - ends[1]).abs().max()
    assert difference < 1e-5 if n_layers == 1 else difference > 1e-3


def test_positions_become_what_they_are_said_to(folder, family):
    """The tables by hand, without the padding rows of RoBERTa."""
    model = load(folder, family)
    embedding = position_embedding(model)
    first = 2 if family == "roberta" else 0
    table = embedding.weight.detach().numpy()[first:].copy()
    expected = {
        "zero": np.zeros_like(table),
        "mean": np.tile(table.mean(0), (len(table), 1)),
        "keep_first": np.concatenate([table[:1], 0 * table[1:]]),
    }
    shifted = Condition(position={"kind": "shift", "by": 3})
    cases = [(Condition(position=name), want) for name, want in expected.items()]
    cases.append((shifted, np.concatenate([table[3:], table[:3]])))
    for condition, want in cases:
        with applied(model, condition):
            np.testing.assert_allclose(
                embedding.weight.detach().numpy()[first:], want, rtol=0, atol=1e-7
            )
    with applied(model, Condition(position={"kind": "shuffle", "seed": 5})):
        shuffled = embedding.weight.detach().numpy()[first:]
        assert not np.array_equal(shuffled, table)
        np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(table, axis=0))


def test_positions_beyond_the_table(decoder, documents):
    long = [documents[3] * 2]  # 66 tokens, 40 positions
    with applied(decoder, Condition(beyond="wrap"), tokens=66):
        table = position_embedding(decoder).weight
        assert torch.equal(table[40:66], table[:26])
    with applied(decoder, Condition(), tokens=66):
        table = position_embedding(decoder).weight
        assert torch.equal(table[65], table[39])
    assert len(last(decoder, long, Condition(position="zero"))[0]) == 66


def test_one_stacked_pass_is_the_passes_one_by_one(folder, family, documents):
    model = load(folder, family)
    rng = np.random.default_rng(0)
    sides = 1 if family == "gpt2" else 2
    learned = LearnedMask(
        relative=rng.normal(size=(3, 4, sides, 20)).astype(np.float32),
        first=rng.normal(size=(3, 4, 20)).astype(np.float32),
    )
    masks = {"it": learned}
    conditions = [
        Condition(position="zero"),
        masked("log_mask", "zero"),
        masked("prob_mul", "zero", layers=[2]),
        masked("logit_mul", "zero", layers=[1], span="query"),
        masked("emb_mul", "zero"),
        masked("hf_sdpa_cpu", "zero", layers=[1, 2]),
        masked("additive", "zero", {"kind": "learned", "mask": "it"}),
        masked("additive", "zero", {"kind": "learned", "mask": "it", "scale": -1}),
        masked("additive", "zero", {"kind": "alibi_geometric"}, heads=[1]),
        masked("additive", "zero", {"kind": "window", "tokens": 4}, heads=[0, 2]),
    ]
    together = stacked_states(model, documents, conditions, masks)
    for condition, states in zip(conditions, together, strict=True):
        with applied(model, condition, masks):
            alone, _ = forward(model, documents)
            packed = packed_states(model, documents)
        for ours, padded, row_alone in zip(states, alone, packed, strict=True):
            theirs = torch.cat([padded[row, : len(ids)] for row, ids in enumerate(documents)])
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
            torch.testing.assert_close(row_alone[0], theirs, rtol=0, atol=1e-5)


def test_segments_are_documents_of_their_own(folder, family, documents):
    model = load(folder, family)
    condition = Condition(segments=7)
    states = states_under(model, documents, [condition], {})[0][-1]
    for ids, state in zip(documents, states.split([len(d) for d in documents]), strict=True):
        parts = last(model, [ids[i : i + 7] for i in range(0, len(ids), 7)], Condition())
        torch.testing.assert_close(state, torch.cat(parts), **TOLERANCE)


def test_a_window_slides_over_a_document(folder, family, documents):
    """Each token against a run of the window that ends in it: at most seven tokens."""
    model = load(folder, family)
    states = states_under(model, documents, [Condition(segments=7, stride=1)], {})[0][-1]
    for ids, state in zip(documents, states.split([len(d) for d in documents]), strict=True):
        (begin,) = last(model, [ids[:7]], Condition())
        windows = [ids[end - 7 : end] for end in range(8, len(ids) + 1)]
        after = [last(model, [window], Condition())[0][-1:] for window in windows]
        torch.testing.assert_close(state, torch.cat([begin, *after]), **TOLERANCE)


def test_a_learned_bias_is_added_to_the_scores(decoder, documents):
    """Against the library's eager attention with the bias as its 4-D float mask."""
    rng = np.random.default_rng(1)
    absolute = rng.normal(size=(3, 4, 33, 33)).astype(np.float32)
    relative = rng.normal(size=(3, 4, 1, 33)).astype(np.float32)
    same = np.broadcast_to(relative[:1, :1], relative.shape).copy()
    ids = documents[3]
    i, j = np.indices((33, 33))
    by_hand = torch.tensor(same[0, 0, 0][np.maximum(i - j, 0)])
    by_hand = by_hand.masked_fill(torch.ones(33, 33, dtype=torch.bool).triu(1), -torch.inf)
    decoder.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = decoder.transformer(
            torch.tensor([ids]), attention_mask=by_hand[None, None]
        ).last_hidden_state[0]
    condition = masked("additive", profile={"kind": "learned", "mask": "it"})
    decoder.set_attn_implementation("posenc")
    state = last(decoder, [ids], condition, {"it": LearnedMask(relative=same)})[0]
    torch.testing.assert_close(state, expected, **TOLERANCE)
    pairs = LearnedMask(absolute=absolute)
    assert np.array_equal(pairs.bias(1, 9), absolute[1, :, :9, :9])


def test_a_scaled_bias_is_the_bias_so_many_times(folder, family, documents):
    """The first key's too: as a mask whose curves are that many times as large."""
    model, rng = load(folder, family), np.random.default_rng(2)
    relative = rng.normal(size=(3, 4, 1 if family == "gpt2" else 2, 40)).astype(np.float32)
    first = rng.normal(size=(3, 4, 40)).astype(np.float32)
    masks = {
        "it": LearnedMask(relative=relative, first=first),
        "other": LearnedMask(relative=-2 * relative, first=-2 * first),
    }
    profile = {"kind": "learned", "mask": "it", "scale": -2}
    states = last(model, documents, masked("additive", "intact", profile), masks)
    other = masked("additive", "intact", {"kind": "learned", "mask": "other"})
    for ours, theirs in zip(states, last(model, documents, other, masks), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_window_is_the_library_s_attention_to_the_nearest_keys(decoder, documents):
    """Against the library's eager attention with the window as its 4-D float mask."""
    ids = documents[3]
    i, j = np.indices((33, 33))
    seen = torch.tensor((j <= i) & (i - j < 5))
    by_hand = torch.where(seen, 0.0, -torch.inf)
    decoder.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = decoder.transformer(
            torch.tensor([ids]), attention_mask=by_hand[None, None]
        ).last_hidden_state[0]
    decoder.set_attn_implementation("posenc")
    state = last(decoder, [ids], masked("additive", profile={"kind": "window", "tokens": 5}))[0]
    torch.testing.assert_close(state, expected, **TOLERANCE)


def test_learned_vectors_stand_in_place_of_positions(decoder, documents):
    constant = np.full(32, 0.25, np.float32)
    initial = np.arange(32, dtype=np.float32)
    mask = LearnedMask(constant=constant, initial=initial)
    condition = Condition.model_validate({"position": {"kind": "learned", "mask": "it"}})
    with applied(decoder, condition, {"it": mask}):
        table = position_embedding(decoder).weight.detach().numpy()
        np.testing.assert_array_equal(table[0], initial)
        np.testing.assert_array_equal(table[1:], np.tile(constant, (39, 1)))


def test_weights_and_implementation_are_restored(folder, family, documents):
    model = load(folder, family)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = last(model, documents, Condition())
    with pytest.raises(KeyError), applied(model, masked("emb_mul", "zero")):
        raise KeyError
    assert model.config._attn_implementation == "posenc"
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert_same(last(model, documents, Condition()), before, {"rtol": 0, "atol": 0})


def test_a_mask_that_hides_every_key_is_refused(decoder, documents):
    empty = masked("log_mask", profile={"kind": "linear", "floor": 0.0})
    with pytest.raises(ConditionError, match="raise the profile's floor above 0"):
        last(decoder, documents, empty)


def test_a_condition_that_does_not_fit_the_model_is_refused(decoder):
    with (
        pytest.raises(ConditionError, match=r"mask\.layers names 7, but the model's are 0 to 2"),
        applied(decoder, masked("log_mask", layers=[7])),
    ):
        pass
    with (
        pytest.raises(ConditionError, match="the learned mask 'it' is not there"),
        applied(decoder, masked("additive", profile={"kind": "learned", "mask": "it"})),
    ):
        pass


def test_profiles_by_hand():
    four = profiles.Document(4)
    np.testing.assert_allclose(
        profiles.linear(four, floor=0.1), [[0.1, 0.4, 0.7, 1.0]], rtol=0, atol=1e-15
    )
    np.testing.assert_allclose(
        profiles.exponential(four, floor=0.001), [[0.001, 0.01, 0.1, 1.0]], rtol=0, atol=1e-15
    )
    np.testing.assert_allclose(
        profiles.power(four, floor=0.1, exponent=2), [[0.1, 0.2, 0.5, 1.0]], rtol=0, atol=1e-15
    )
    # The slides' [.1, .55, 1]: the row of the third query.
    rows = profiles.linear(profiles.Document(3, per_query=True), floor=0.1)
    np.testing.assert_allclose(rows[2], [0.1, 0.55, 1.0], rtol=0, atol=1e-15)
    slopes = -profiles.alibi_geometric(profiles.Places.of(2, 8))[:, 1, 0]
    np.testing.assert_allclose(
        slopes, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    )
    assert profiles.alibi(profiles.Places.of(3), slope=2.0)[2, 0] == -4


def test_embeddings_beyond_the_table_by_hand():
    table = np.arange(3.0)[:, None]
    assert positions.extended(table, 5, "clamp")[:, 0].tolist() == [0, 1, 2, 2, 2]
    assert positions.extended(table, 5, "wrap")[:, 0].tolist() == [0, 1, 2, 0, 1]
    assert positions.extended(table, 2, "wrap")[:, 0].tolist() == [0, 1, 2]


def test_every_semantics_is_tested_here():
    assert {*ROWS, "emb_mul"} == set(semantics.semantics.functions)


def test_losses_of_a_batch_are_the_library_s(decoder, documents):
    states = packed_states(decoder, documents)[-1][0]
    for ids, losses in zip(documents, document_losses(decoder, states, documents), strict=True):
        with torch.inference_mode():
            logits = decoder(torch.tensor([ids])).logits[0]
        expected = functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")
        np.testing.assert_allclose(losses, expected.numpy(), rtol=0, atol=1e-5)
