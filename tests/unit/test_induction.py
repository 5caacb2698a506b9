"""Repeated random tokens: by hand, in planted cases, and against the library's own attention."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from posenc.artifacts.files import write_sealed
from posenc.artifacts.tables import write_table
from posenc.capture.parts import ConditionError
from posenc.capture.patterns import patterns_under
from posenc.conditions.learned import LearnedMask, write
from posenc.conditions.section import Condition
from posenc.config.labels import display
from posenc.drawing.command import read_measurements
from posenc.measurements.induction import figure as figure
from posenc.measurements.induction import measure as step
from posenc.measurements.under_conditions import recovered_gain
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.induction import (
    induction_scores,
    previous_scores,
    reordered,
    repeated,
    uniform_scores,
)
from posenc.metrics.patterns import softmax
from posenc.models.load import load
from posenc.tokens.tokenized import Tokens

from . import synthetic
from .runs import made_of_weights
from .small_models import saved
from .test_figures import SECTIONS, STYLE, check_texts
from .test_score_parts_measurement import llama

PARAMETERS = {
    "sequences": 6, "tokens": 7, "heads": 2, "bootstrap_samples": 100, "confidence": 0.9, "seed": 3,
}  # fmt: skip
MASKED = {"semantics": "additive", "profile": {"kind": "learned", "mask": "bumps"}}
CONDITIONS = {
    "intact": {},
    "zero": {"position": "zero"},
    "zero_alibi": {
        "position": "zero",
        "mask": {"semantics": "additive", "profile": {"kind": "alibi", "slope": 0.3}},
    },
    "bumps": {"position": "zero", "mask": MASKED},
    "some_heads": {"mask": {**MASKED, "layers": [1], "heads": [1]}},
    "log_mask": {"mask": {"semantics": "log_mask", "profile": {"kind": "linear", "floor": 0.1}}},
    "prob_mul": {"mask": {"semantics": "prob_mul", "profile": {"kind": "linear", "floor": 0.1}}},
    "logit_mul": {"mask": {"semantics": "logit_mul", "profile": {"kind": "linear", "floor": 0.1}}},
    "emb_mul": {"mask": {"semantics": "emb_mul", "profile": {"kind": "linear", "floor": 0.1}}},
}
UNITS = {name: Condition.model_validate(condition) for name, condition in CONDITIONS.items()}


def bumps(n_layers: int, n_heads: int) -> LearnedMask:
    rng = np.random.default_rng(2)
    return LearnedMask(
        relative=rng.normal(size=(n_layers, n_heads, 1, 9)).astype(np.float32),
        first=rng.normal(size=(n_layers, n_heads, 9)).astype(np.float32),
        temperature=rng.uniform(0.5, 2, size=(n_layers, n_heads)).astype(np.float32),
    )


def network(family: str, folder: Path):
    return llama() if family == "llama" else load(saved(family, folder), family)


@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 99))
def test_a_sequence_has_no_token_twice_and_is_repeated_once(tokens, sequences, seed):
    vocabulary = [3, 5, 8, 13, 21, 34, 55, 89, 144, 144]
    ids = repeated(vocabulary, sequences, tokens, seed)
    assert ids.shape == (sequences, 2 * tokens)
    np.testing.assert_array_equal(ids[:, :tokens], ids[:, tokens:])
    assert all(len(set(row)) == tokens and set(row) <= set(vocabulary) for row in ids.tolist())


@given(st.integers(4, 9), st.integers(1, 4), st.integers(0, 99))
def test_in_another_order_no_token_follows_the_one_that_it_followed(tokens, sequences, seed):
    once = repeated([3, 5, 8, 13, 21, 34, 55, 89, 144], sequences, tokens, seed)
    ids = reordered(once, seed)
    np.testing.assert_array_equal(ids[:, :tokens], once[:, :tokens])
    for row in ids.tolist():
        assert sorted(row[:tokens]) == sorted(row[tokens:])
        pairs = [{*itertools.pairwise(part)} for part in (row[:tokens], row[tokens:])]
        assert not pairs[0] & pairs[1]


def test_all_tokens_are_drawn_alike():
    ids = repeated(range(10), 4000, 3, 0)[:, :3]
    counts = np.bincount(ids.ravel(), minlength=10)
    assert np.square(counts - 1200).sum() / 1200 < 21.7  # chi-square of 9 degrees, 0.99


def test_too_few_types_are_said():
    with pytest.raises(ValueError, match="2 different tokens are too few for 3"):
        repeated([4, 4, 7], 1, 3, 0)


@given(st.integers(2, 6), st.integers(0, 3), st.integers(0, 50))
def test_scores_are_means_over_queries(period, begin, seed):
    tokens = begin + 2 * period
    patterns = np.random.default_rng(seed).uniform(size=(2, 3, tokens, tokens))
    previous, induction = previous_scores(patterns), induction_scores(patterns, period)
    for place in np.ndindex(2, 3):
        pattern = patterns[place]
        assert previous[place] == pytest.approx(
            np.mean([pattern[query, query - 1] for query in range(1, tokens)])
        )
        # The token before the query's earlier occurrence is at query - period.
        after = [pattern[query, query - period + 1] for query in range(begin + period, tokens)]
        assert induction[place] == pytest.approx(np.mean(after))
    flat = softmax(np.zeros((tokens, tokens)), causal=True)
    expected = float(previous_scores(flat)), float(induction_scores(flat, period))
    assert uniform_scores(tokens, period) == pytest.approx(expected)


def test_planted_heads_have_a_score_of_one():
    ids = repeated(range(50), 1, 5, 1)[0]
    back, after = np.eye(10, k=-1), np.zeros((10, 10))
    for query in range(5, 10):
        (earlier,) = np.flatnonzero(ids[:query] == ids[query])
        after[query, earlier + 1] = 1
    assert (previous_scores(back), induction_scores(back, 5)) == (1, 0)
    assert (previous_scores(after), induction_scores(after, 5)) == (0, 1)
    with pytest.raises(ValueError, match="10 tokens do not hold 6 twice"):
        induction_scores(back, 6)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_patterns_without_a_mask_are_the_library_s(tmp_path, family):
    model = network(family, tmp_path / "model")
    documents = np.random.default_rng(0).integers(3, 40, (3, 12)).tolist()
    _, patterns = patterns_under(model, documents, UNITS["intact"], {})
    kind = type(model)
    eager = kind(transformers.AutoConfig.for_model(**model.config.to_dict()))
    eager.set_attn_implementation("eager")
    eager.load_state_dict(model.state_dict())
    with torch.inference_mode():
        theirs = eager.eval()(torch.tensor(documents), output_attentions=True).attentions
    for ours, other in zip(patterns, theirs, strict=True):
        np.testing.assert_allclose(ours, other, atol=1e-6)


@pytest.mark.parametrize("name", UNITS)
def test_patterns_are_those_that_the_model_reads_values_with(tmp_path, name):
    model = network("gpt2", tmp_path / "model")
    documents = np.random.default_rng(0).integers(3, 40, (3, 12)).tolist()
    values, read = [], []
    for block in model.transformer.h:
        block.attn.c_attn.register_forward_hook(lambda _, __, out: values.append(out[..., -16:]))
        block.attn.c_proj.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    _, patterns = patterns_under(model, documents, UNITS[name], {"bumps": bumps(2, 2)})
    assert len(patterns) == 2
    for pattern, value, out in zip(patterns, values, read, strict=True):
        by_head = value.unflatten(-1, (2, 8)).transpose(1, 2)  # [batch, n_heads, tokens, d_head]
        expected = (pattern @ by_head).transpose(1, 2).flatten(-2)  # [batch, tokens, d_model]
        np.testing.assert_allclose(out, expected, atol=1e-5)


def test_patterns_that_are_not_at_hand_are_refused():
    with pytest.raises(ConditionError, match="segments of 3 tokens"):
        patterns_under(None, [[1, 2]], Condition(segments=3), {})


@pytest.fixture
def text(tmp_path) -> Tokens:
    """Documents that begin with token 2, which the tokenizer added."""
    rng = np.random.default_rng(5)
    ids = [[2, *rng.integers(3, 40, length).tolist()] for length in (12, 3, 9)]
    table = pa.table({"input_ids": ids, "special": [[True, *[False] * len(i[1:])] for i in ids]})
    write_table(table, tmp_path / "text.parquet", {"bos": True})
    return Tokens(tmp_path / "text.parquet")


def job(family: str = "gpt2", max_tokens: int = 40, **changed) -> step.Job:
    return step.Job.model_validate(
        {"parameters": {**PARAMETERS, **changed}, "datasets": ["text"], "conditions": CONDITIONS,
         "reading": {"family": family, "max_tokens": max_tokens}}
    )  # fmt: skip


def test_losses_and_attention_of_the_intact_model_are_the_library_s(tmp_path, text):
    model = network("gpt2", tmp_path / "model")
    measurement = step.measure(job(), model, text, {"bumps": bumps(2, 2)}).as_json()
    types = np.unique([token for ids in text.ids for token in ids[1:]])
    sequences = repeated(types, 6, 7, 3)
    ids, other = (
        torch.tensor([[2, *row] for row in rows.tolist()])
        for rows in (sequences, reordered(sequences[::3], 3))
    )
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        out, out_other = (model(batch, output_attentions=True) for batch in (ids, other))
    nll, nll_other = (
        -output.logits.log_softmax(-1)[:, :-1].gather(-1, batch[:, 1:, None])[..., 0].numpy()
        for output, batch in ((out, ids), (out_other, other))
    )
    entry = measurement["conditions"][0]
    # Position 1 is the first random token and 8 the first repeated one; neither is announced.
    first, again = nll[:, 1:7].sum(axis=1), nll[:, 8:].sum(axis=1)
    options = {"samples": 100, "confidence": 0.9, "seed": 3}
    for part, sums in (("first", first), ("again", again), ("gain", first - again),
                       ("reordered", first[::3] - nll_other[:, 8:].sum(axis=1))):  # fmt: skip
        expected = ratio_bootstrap(sums, np.full(len(sums), 6), **options).as_json()
        assert entry[part] == pytest.approx(expected, abs=1e-5)
    patterns = torch.stack(out.attentions, dim=1).numpy()  # [sequences, n_layers, n_heads, 15, 15]
    for kind, scores in (
        ("previous", previous_scores(patterns)),
        ("induction", induction_scores(patterns, 7)),
    ):
        places = sorted(np.ndindex(2, 2), key=lambda place: -scores[::2].mean(axis=0)[place])[:2]
        assert [
            (listed["layer"], listed["head"]) for listed in measurement["heads"][kind]
        ] == places
        mean = np.mean([scores[1::2, layer, head].mean() for layer, head in places])
        assert entry[kind]["value"] == pytest.approx(mean, abs=1e-6)


def test_a_share_is_of_the_gain_that_is_lost_and_null_where_none_is():
    costs = np.array([[-5.0, -1.0, -3.0], [-6.0, -2.0, -4.0], [-7.0, -1.0, -4.5]])
    options = {"samples": 100, "confidence": 0.9, "seed": 3}
    names = ["intact", "zero", "mask"]
    means = step.PairedMeans(costs, np.ones(3), **options)
    assert recovered_gain(means, names, 2).value == pytest.approx((11.5 - 4) / (18 - 4))
    turned = step.PairedMeans(-costs, np.ones(3), **options)  # the intact model gains nothing
    assert recovered_gain(turned, names, 2) is None
    same = step.PairedMeans(costs[:, [0, 0, 2]], np.ones(3), **options)  # nothing is lost
    assert recovered_gain(same, names, 2) is None
    assert recovered_gain(means, ["intact", "mask", "other"], 2) is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"family": "bert"}, "no language-model head"),
        ({"max_tokens": 14}, "the model reads 14 tokens, a sequence has 14 beside its first"),
        ({"tokens": 19}, "of the text, {types} different tokens are too few for 19"),
    ],
)
def test_what_cannot_be_measured_says_why(text, changed, reason):
    measurement = step.measure(job(**changed), None, text, {}).as_json()
    types = len({token for ids in text.ids for token in ids[1:]})
    assert measurement["status"] == "not run" and measurement["reason"] == reason.format(
        types=types
    )


def test_conditions_whose_patterns_are_not_at_hand_have_their_losses(tmp_path, text):
    plain = job()
    cut = plain.model_copy(update={"conditions": {**UNITS, "cut": Condition(segments=1)}})
    loaded = network("gpt2", tmp_path / "model")
    measurement = step.measure(cut, loaded, text, {"bumps": bumps(2, 2)}).as_json()
    entry = measurement["conditions"][-1]
    assert entry["previous"] is None and "segments of 1" in entry["reason"]
    # Each token is read alone: one that occurs again is read as it was before.
    assert entry["gain"]["value"] == pytest.approx(0, abs=1e-5)
    assert entry["reordered"]["value"] != 0  # each token is then announced by another one


def test_the_file_says_what_it_is_made_of(tmp_path, text):
    masks = tmp_path / "masks"
    masks.mkdir()
    write(masks / "bumps.safetensors", bumps(2, 2), {})
    write_sealed(masks / "masks.json", {"masks": {"bumps": "0" * 64, "other": "1" * 64}})
    measurement = made_of_weights(step, tmp_path, text, job(), masks)
    assert measurement["provenance"]["inputs"]["masks"] == {"bumps": "0" * 64}


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> list[dict]:
    written = synthetic.write_inputs(tmp_path_factory.mktemp("study"))
    return read_measurements(written["induction"])


def test_marks_are_the_measured_numbers_of_the_model_that_copies_most(measured):
    drawn = figure.draw(measured, SECTIONS.induction, STYLE)
    runs = [one for one in measured if one["run"]["model"] == "smollm2"]
    said = [text.get_text() for text in drawn.legends[0].get_texts()]
    named = [f"{display('smollm2')}, {display(run['run']['dataset'])}" for run in runs]
    assert said == [*named, "all keys alike"]
    assert [axes.get_xlabel() for axes in drawn.axes] == ["nats", *["share of attention"] * 2]
    for axes, part in zip(drawn.axes, figure.PANELS, strict=True):
        marked = [line for line in axes.lines if line.get_linestyle() == "None"]
        for line, run in zip(marked, runs, strict=True):
            values = [entry[part]["value"] for entry in run["conditions"] if entry[part]]
            assert list(line.get_xdata()) == values
    check_texts(drawn)


def test_without_a_measurement_the_figure_says_so():
    drawn = figure.draw([], SECTIONS.induction, STYLE)
    assert "no tokens were repeated" in drawn.axes[0].texts[0].get_text()
