"""What the page says of heads: the clearest one, and masks in closed form of rotary decoders."""

from __future__ import annotations

import copy
import dataclasses
import json

import numpy as np
import pytest

from posenc.artifacts.printing import number
from posenc.artifacts.results import Interval
from posenc.artifacts.runs import Run, of_kind
from posenc.measurements.conditions.result import EvaluatedConditions
from posenc.measurements.sample_scores.result import Sentence
from posenc.measurements.score_parts.result import Decomposition
from posenc.report import page_heads
from posenc.report.page_numbers import inline

from . import synthetic
from .test_page import results_of


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(synthetic.write_inputs(tmp_path_factory.mktemp("heads")))


def masks(results, model: str, dataset: int = 0) -> list[dict]:
    found = json.loads(page_heads.heads(results))["models"]
    (one,) = [one for one in found if one["name"] == model]
    return one["datasets"][dataset]["masks"]


def sentence(model: str, causal: bool, heads: list[np.ndarray]) -> Run[Sentence]:
    """A run of a model of one layer."""
    tokens = len(heads[0])
    seen = np.tri(tokens, dtype=bool) if causal else np.ones([tokens] * 2, bool)
    texts = [" ".join(map(str, head[seen])) for head in heads]
    conditions = [
        {"condition": "zero", "layers": []},
        {"condition": "intact", "layers": [texts]},
    ]
    scores = Sentence(
        documents=1, tokens=tokens, is_causal=causal, n_layers=1, n_heads=len(heads), pieces=[],
        conditions=conditions,
    )  # fmt: skip
    return Run(model, "", "", scores, "")


def test_the_clearest_head_has_the_largest_mean_share_at_one_offset():
    flat, own = np.zeros([4, 4]), 50 * np.eye(4)
    # Half at the next token of one model, three quarters and a part at the previous of another.
    after = np.log(np.full([4, 4], 1 / 6) + np.eye(4, k=1) / 3)
    before = 50 * np.eye(4, k=-1)
    found = page_heads.clearest(
        [sentence("encoder", False, [flat, after]), sentence("decoder", True, [own, before, flat])]
    )
    assert found == {
        "model": "decoder", "layer": 0, "head": 1, "offset": -1, "share": 0.75,
    }  # fmt: skip
    found = page_heads.clearest([sentence("encoder", False, [own, flat, after])])
    assert (found["head"], found["offset"]) == (2, 1)
    assert found["share"] == pytest.approx(3 * 0.5 / 4, abs=5e-4)


def test_a_rotary_decoder_has_the_closed_form_of_each_head(results):
    closed, *others = masks(results, "smollm2")
    assert closed["condition"] == "zero_closed" and others
    parts = {(r["run"]["model"], r["run"]["dataset"]): r for r in results.of("score_parts")}
    dataset = results.study["study"]["datasets"][0]
    measured = parts["smollm2", dataset]["heads"]
    assert len(closed["heads"]) == len(measured)
    (tokens,) = {
        one["tokens"] for one in results.of("sample_scores") if one["run"]["model"] == "smollm2"
    }
    for head, (past, first) in zip(measured, closed["heads"], strict=True):
        for packed, name in ((past, "past"), (first, "first_key")):
            values = [float(word) / 1000 for word in packed.split(" ")]
            np.testing.assert_allclose(values, head["closed_form"][name][:tokens], atol=5.1e-4)


def test_losses_beside_it_are_those_of_all_heads_at_once(results):
    (closed, *_) = masks(results, "smollm2", 1)
    dataset = results.study["study"]["datasets"][1]
    (run,) = [
        one for one in results.of("conditions")
        if one["run"] == {"model": "smollm2", "dataset": dataset}
    ]  # fmt: skip
    entries = {entry["condition"]: entry for entry in run["conditions"]}
    assert [point["value"] for point in closed["points"]] == [
        "intact", "zero", "zero_closed", "placebo_heads",
    ]  # fmt: skip
    for point in closed["points"]:
        loss = entries[point["value"]]["nll_per_token"]
        assert point["cells"][1] == inline(number(Interval(**loss)))
    assert len({point["cells"][1] for point in closed["points"]}) == 4


def test_models_with_a_table_have_simple_shapes_alone(results):
    for model in ("minilm", "decoder"):
        assert masks(results, model)
        assert "zero_closed" not in [mask["condition"] for mask in masks(results, model)]


@pytest.mark.parametrize(
    ("gone", "left"), [("zero_closed", None), ("placebo_heads", ["intact", "zero", "zero_closed"])]
)
def test_what_was_not_measured_is_left_out(results, gone, left):
    measurements = copy.deepcopy(results.measurements)
    for one in measurements:
        if one["measurement"] == "conditions":
            one["conditions"] = [c for c in one["conditions"] if c["condition"] != gone]
    offered = masks(dataclasses.replace(results, measurements=measurements), "smollm2")
    closed = [mask for mask in offered if mask["condition"] == "zero_closed"]
    points = [point["value"] for mask in closed for point in mask["points"]]
    assert points == (left or [])


def test_a_mask_in_closed_form_adds_nothing_where_there_is_no_pair(results):
    runs = of_kind(results.measurements, "conditions", EvaluatedConditions)
    (evaluated, *_) = [run.result for run in runs if run.model == "smollm2"]
    runs = of_kind(results.measurements, "score_parts", Decomposition)
    (parts, *_) = [run.result for run in runs if run.model == "smollm2"]
    head = parts.heads[0]
    curves = head.closed_form.model_copy(
        update={"past": [1.0, None, -2.0, 3.0], "first_key": [0.5, 0.25, None]}
    )
    parts = parts.model_copy(update={"heads": [head.model_copy(update={"closed_form": curves})]})
    mask = page_heads.closed_form(evaluated, parts, 3)
    assert mask["heads"] == [["1000 0 -2000", "500 250 0"]]
