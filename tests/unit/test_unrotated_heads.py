"""Heads without rotation: against conditions, the library at one position, and planted heads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import spearmanr

from posenc.artifacts.tables import write_table
from posenc.capture import masked_attention
from posenc.capture.capture import document_losses, packed_last
from posenc.capture.interventions import applied
from posenc.capture.unrotated import layer_inputs, states_unrotated
from posenc.conditions.section import Condition
from posenc.config.labels import display
from posenc.measurements.of_models import CellsJob
from posenc.measurements.unrotated_heads import figure as figure
from posenc.measurements.unrotated_heads import measure as step
from posenc.measurements.unrotated_heads import quantities as numbers
from posenc.measurements.unrotated_heads.declaration import UnrotatedHeads
from posenc.measurements.unrotated_heads.measure import Choice, Together
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.tokens.tokenized import Tokens

from . import synthetic_experiments as made_up
from .runs import made_of_weights
from .test_figures import SECTIONS, STYLE, check_texts, texts
from .test_score_parts_measurement import llama

PARAMETERS = UnrotatedHeads(
    documents=6, tokens=12, keys=[0, 3], counts=[1, 3], draws=2, bootstrap_samples=100,
    confidence=0.9, seed=0,
)  # fmt: skip
SHAPE = (2, 4)
CLOSE = {"atol": 2e-5, "rtol": 1e-4}
NONE, EVERY = np.zeros(SHAPE, bool), np.ones(SHAPE, bool)


@pytest.fixture(scope="module")
def model():
    return llama()


@pytest.fixture
def documents() -> list[list[int]]:
    rng = np.random.default_rng(4)
    return [rng.integers(3, 40, length).tolist() for length in (5, 9, 9, 12, 12, 12)]


def states(model, documents, heads, key=None) -> torch.Tensor:
    return states_unrotated(model, documents, layer_inputs(model, documents), heads, key)


def under(model, documents, **position) -> torch.Tensor:
    """What the study's own condition gives."""
    condition = Condition.model_validate({"position": {"kind": "unrotated", **position}})
    with applied(model, condition), torch.inference_mode():
        return packed_last(model, documents)[0]


def test_without_a_choice_it_is_the_intact_model(model, documents):
    with torch.inference_mode():
        intact = torch.cat(
            [model.model(torch.tensor([ids])).last_hidden_state[0] for ids in documents]
        )
    torch.testing.assert_close(states(model, documents, NONE), intact, **CLOSE)
    assert not masked_attention._pairs
    assert len(model.model.layers) == 2


def test_without_any_rotation_all_tokens_stand_at_one_place(model, documents):
    with torch.inference_mode():
        outputs = [
            model.model(torch.tensor([ids]), position_ids=torch.zeros(1, len(ids), dtype=int))
            for ids in documents
        ]
    expected = torch.cat([output.last_hidden_state[0] for output in outputs])
    torch.testing.assert_close(states(model, documents, EVERY), expected, **CLOSE)


@pytest.mark.parametrize(("layers", "heads"), [([0], [2]), ([1], [0, 3]), ([0, 1], None)])
def test_heads_are_those_of_the_study_s_conditions(model, documents, layers, heads):
    chosen = NONE.copy()
    chosen[np.ix_(layers, heads or range(4))] = True
    expected = under(model, documents, layers=layers, heads=heads)
    result = states(model, documents, chosen)
    torch.testing.assert_close(result, expected, **CLOSE)
    assert (result - states(model, documents, NONE)).abs().max() > 1e-3


def test_the_first_key_is_that_of_the_study_s_condition_and_another_one_is_not(model, documents):
    expected = under(model, documents, first_key=True)
    torch.testing.assert_close(states(model, documents, EVERY, 0), expected, **CLOSE)
    # A key acts only on queries at its place and after it.
    starts = np.cumsum([0, *map(len, documents)])[:-1]  # [documents]
    change = states(model, documents, EVERY, 3) - states(model, documents, NONE)  # [tokens, d]
    before = np.concatenate([start + np.arange(3) for start in starts])
    assert change[before].abs().max() < 1e-5 < 1e-3 < change.abs().max()


def test_a_key_that_no_document_has_changes_nothing(model, documents):
    torch.testing.assert_close(
        states(model, documents, EVERY, 40), states(model, documents, NONE), **CLOSE
    )


def text_of(documents) -> Tokens:
    class Text:
        ids, path, digest = documents, "text.parquet", "digest"
        lengths = np.array([len(ids) for ids in documents])

    return Text()


def test_costs_are_differences_of_losses_over_documents(model, documents):
    result = step.measure(PARAMETERS, model, text_of(documents)).as_json()
    drawn = [documents[k] for k in np.random.default_rng(0).permutation(len(documents))]

    def nll(heads, key=None):
        last = states(model, drawn, heads, key)
        return np.array([losses.sum() for losses in document_losses(model, last, drawn)])

    tokens = [len(ids) - 1 for ids in drawn]
    one_head = NONE.copy()
    one_head[1, 2] = True
    for heads, key, entry in (
        (EVERY, None, result["all"]),
        (EVERY, 3, result["keys"][1]["delta_nll"]),
        (one_head, None, result["heads"][6]["delta_nll"]),
    ):
        expected = ratio_bootstrap(nll(heads, key) - nll(NONE), tokens, 100, 0.9, 0).as_json()
        assert entry == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert [result[key] for key in ("n_layers", "n_heads", "documents", "tried")] == [2, 4, 6, 3]
    assert [(entry["choice"], entry["draws"]) for entry in result["sets"][:5]] == [
        ("strongest", 1), ("weakest", 1), ("random", 2), ("only_strongest", 1), ("only_random", 2),
    ]  # fmt: skip


def test_heads_are_ranked_on_other_documents_than_they_are_tried_on(model, documents):
    seen = []
    original = step.losses

    def recorded(network, drawn, choices):
        seen.append(([tuple(ids) for ids in drawn], choices))
        return original(network, drawn, choices)

    step.losses = recorded
    try:
        result = step.measure(PARAMETERS, model, text_of(documents)).as_json()
    finally:
        step.losses = original
    (whole, alone), (tried, sets) = seen
    assert tried == whole[1::2]
    ranked = [list(ids) for ids in whole[::2]]
    nll = original(model, ranked, alone)  # [ranked, choices]
    costs = (nll[:, -8:] - nll[:, :1]).sum(axis=0)  # [heads]
    assert np.flatnonzero(sets[0].heads).tolist() == [int(np.argmax(costs))]
    assert np.flatnonzero(sets[1].heads).tolist() == [int(np.argmin(costs))]
    three = {int(place) for place in np.argsort(-costs)[:3]}
    assert set(np.flatnonzero(sets[7].heads).tolist()) == three
    # Only those heads keep rotation.
    for lost, kept in ((0, 4), (2, 5), (3, 6), (7, 11)):
        assert np.array_equal(sets[kept].heads, ~sets[lost].heads)
    rest = [list(ids) for ids in tried]
    other = original(model, rest, alone)
    trial = (other[:, -8:] - other[:, :1]).sum(axis=0)
    assert result["agreement_of_halves"] == pytest.approx(spearmanr(costs, trial).statistic)


def test_a_planted_head_is_the_one_that_costs(documents):
    """If all heads but one have queries of zero, rotation acts on that one alone."""
    planted = llama()
    with torch.no_grad():
        for layer, block in enumerate(planted.model.layers):
            weight = block.self_attn.q_proj.weight.view(4, 4, 16)
            for head in range(4):
                if (layer, head) != (1, 2):
                    weight[head] = 0
            block.self_attn.q_proj.weight[:] *= 20
    result = step.measure(PARAMETERS, planted, text_of(documents)).as_json()
    costs = {(e["layer"], e["head"]): e["delta_nll"]["value"] for e in result["heads"]}
    assert all(abs(cost) < 1e-5 for place, cost in costs.items() if place != (1, 2))
    assert costs[1, 2] == pytest.approx(result["all"]["value"], rel=1e-3)
    assert abs(costs[1, 2]) > 1e-3
    layers = [entry["delta_nll"]["value"] for entry in result["layers"]]
    assert layers[1] == pytest.approx(costs[1, 2], rel=1e-3) and abs(layers[0]) < 1e-5


def test_shares_are_of_the_loss_without_any_rotation():
    ends = np.array([[10.0, 20.0], [20.0, 40.0]])  # [documents, 2]
    sets = [Together("strongest", 1, [Choice(NONE)]), Together("random", 1, [Choice(NONE)] * 2)]
    nll = np.array([[15.0, 10.0, 12.0], [30.0, 20.0, 24.0]])  # [documents, choices]
    first, second = step.set_results(PARAMETERS, sets, ends, nll, np.array([10, 20]))
    assert first.share.value == pytest.approx(0.5)
    assert first.delta_nll.value == pytest.approx(0.5)
    assert second.share.value == pytest.approx(0.1) and second.draws == 2


def test_a_table_of_positions_turns_nothing():
    result = step.measure(PARAMETERS, None, text_of([[1, 2]])).as_json()
    assert result["status"] == "not run" and "table" in result["reason"]


@pytest.fixture(scope="module")
def measured() -> dict:
    return made_up.unrotated_heads("smollm2", "reviews")


def test_the_map_has_heads_by_layers(measured):
    drawn = figure.draw([measured], SECTIONS.unrotated_heads, STYLE)
    (image,) = drawn.axes[0].images
    values = image.get_array()
    assert values.shape == (9, 30)
    assert values[0, 0] == 1 and values[4, 2] == pytest.approx(1 / (1 + 9 * 2 + 4))
    assert drawn.get_suptitle() == f"{display('smollm2')}, reviews"
    lines = {line.get_label(): line for line in drawn.axes[1].lines}
    assert list(lines["that cost most"].get_ydata()) == pytest.approx([0.09, 0.27, 0.81])
    assert list(lines["at random"].get_xdata()) == [9, 27, 81]
    check_texts(drawn)


def test_without_a_rotary_model_the_figure_says_so(measured):
    other = {**measured, "status": "not run", "reason": "positions come in by a table"}
    drawn = figure.draw([other], SECTIONS.unrotated_heads, STYLE)
    assert "by a table" in " ".join(t.get_text() for t in texts(drawn))


def test_numbers_are_those_of_the_file(measured):
    measured["heads"][14]["delta_nll"] = {"value": 3.0, "low": -1.0, "high": 4.0}
    named = numbers.QUANTITIES.read(measured)
    read = {f"key_{key}" for key in (0, 1, 4, 16)}
    read |= {
        f"{how}.{count}.{part}"
        for how in numbers.HOW
        for count in (9, 27, 81)
        for part in ("delta_nll", "share")
    }
    whole = {key for key in numbers.QUANTITIES.names if not key.startswith(("key_", *numbers.HOW))}
    assert set(named) == whole | read
    assert (named["head"].value, named["head.layer"].value, named["head.index"].value) == (3, 1, 5)
    positive = sum(entry["delta_nll"]["low"] > 0 for entry in measured["heads"])
    assert named["above_zero"].value == positive < 270
    assert named["key_4"].value == pytest.approx(0.2)
    assert named["strongest.27.share"].value == pytest.approx(0.27)
    assert named["random.81.delta_nll"].value == pytest.approx(2 * 0.2 * 0.9)
    assert named["agreement"].value == 0.7
    short = numbers.QUANTITIES.read({**measured, "keys": [], "sets": []})
    assert not any(key.startswith(("key_", "strongest.")) for key in short)


def test_the_file_of_a_model_with_a_table_says_that_nothing_is_turned(tmp_path):
    ids = [[5, 9, 2, 30]] * 4
    write_table(pa.table({"input_ids": ids}), tmp_path / "text.parquet", {"bos": False})
    job = CellsJob[UnrotatedHeads].model_validate(
        {"parameters": PARAMETERS.model_dump(), "datasets": ["text"],
         "reading": {"family": "gpt2", "max_tokens": 48}}
    )  # fmt: skip
    result = made_of_weights(step, tmp_path, Tokens(tmp_path / "text.parquet"), job)
    assert result["status"] == "not run" and "table" in result["reason"]
