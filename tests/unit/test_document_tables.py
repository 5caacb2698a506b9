"""Each cell of a table is the number that its row and its column say, in the right digits.

All estimates of the made-up measurements differ. They lie between 1 and 10, with intervals that
ask for five decimals: a column with fewer says so.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from posenc.report.records import Results
from posenc.report.tables import evaluation, positions, semantics, study
from posenc.report.tables.cells import display
from posenc.report.typeset import TABLES

from . import synthetic

ABSENT = ["{--}", "--"]


def planted(value: Any, numbers: Iterator[float]) -> Any:
    """A copy in which all estimates differ."""
    if isinstance(value, dict) and {"value", "low", "high"} <= value.keys():
        number = next(numbers)
        return {**value, "value": number, "low": number - 0.0011, "high": number + 0.0008}
    if isinstance(value, dict):
        return {key: planted(part, numbers) for key, part in value.items()}
    return [planted(part, numbers) for part in value] if isinstance(value, list) else value


def text(estimate: dict | float, decimals: int = 5) -> str:
    value = estimate["value"] if isinstance(estimate, dict) else estimate
    return f"{value:.{decimals}f}"


def both(estimate: dict, decimals: int = 5) -> list[str]:
    low, high = (rf"\num{{{estimate[end]:.{decimals}f}}}" for end in ("low", "high"))
    return [text(estimate, decimals), f"[{low},~{high}]"]


@pytest.fixture(scope="module")
def results() -> Results:
    """The default study with a second decoder of its kind."""
    facts = synthetic.study_file()
    facts["models"]["decoder_1"] = facts["models"]["decoder"]
    for models in (facts["study"]["models"], facts["study"]["captured"]):
        models.append("decoder_1")
    facts["study"]["trained"]["decoder_1"] = "sample_reviews"
    numbers = (1 + 0.00259 * place for place in itertools.count())
    measurements: list[dict] = []
    for model in facts["study"]["models"]:
        for dataset in facts["study"]["datasets"]:
            measurements.append(synthetic.conditions(facts, {}, model, dataset))
            measurements.append(synthetic.reference(facts, model, dataset))
            if model not in facts["study"]["captured"]:
                continue
            measurements.append(synthetic.norms(model, dataset))
            is_decoder = facts["models"][model]["is_decoder"]
            for condition in facts["study"]["conditions"]:
                run = (model, dataset, condition)
                measurements.append(synthetic.similarity(*run, 128, 4))
                measurements.append(synthetic.perplexity(*run, is_decoder))
    measurements = [planted(measurement, numbers) for measurement in measurements]
    assert next(numbers) < 10
    for place, measurement in enumerate(measurements):
        measurement["documents"], measurement["tokens"] = 1000 + place, 20000 + place
        measurement["file"] = f"{place}.json"
    return Results(facts, measurements, [], {"values": {}}, {"versions": []})


def of(results: Results, kind: str, *run: str) -> dict:
    (measurement,) = (
        measurement for measurement in results.of(kind) if tuple(measurement["run"].values()) == run
    )
    return measurement


def entry(measurement: dict, condition: str) -> dict:
    (chosen,) = (entry for entry in measurement["conditions"] if entry["condition"] == condition)
    return chosen


def changed(results: Results, kind: str, *run: str) -> tuple[Results, dict]:
    """Results with a copy of one of their measurements, and that copy."""
    measurement = of(results, kind, *run)
    own = copy.deepcopy(measurement)
    rest = [own if other is measurement else other for other in results.measurements]
    return Results(results.study, rest, [], results.published, results.versions), own


def titled(measurement: dict, scored: bool = False) -> str:
    tokens = measurement["scored_tokens" if scored else "tokens"]
    name = display(measurement["run"]["dataset"])
    return rf"{name}: \num{{{measurement['documents']}}} documents, \num{{{tokens}}} tokens"


def test_conditions_have_their_perplexity_change_and_share(results):
    altered, questions = changed(results, "conditions", "decoder", "sample_questions")
    reviews = of(altered, "conditions", "decoder", "sample_reviews")
    questions["conditions"] = [e for e in questions["conditions"] if e["condition"] != "mean"]
    table = evaluation.conditions_table(altered)
    assert table["datasets"] == [titled(reviews, True), titled(questions, True)]
    assert table["formats"] == [["1.5", "1.3", "1.3"], ["1.5", "1.3", "1.0"]], "no share of nothing"
    assert table["reason"] is None
    assert [row[0] for row in table["blocks"][0]["rows"]] == ["intact"]
    assert table["blocks"][0]["title"] == "" and table["blocks"][1]["title"] == "positions"
    rows = {row[0]: row[1:] for block in table["blocks"] for row in block["rows"]}
    assert rows.keys() == {display(condition["condition"]) for condition in reviews["conditions"]}
    for run, start in ((reviews, 0), (questions, 5)):
        for condition in run["conditions"]:
            name = condition["condition"]
            change = ABSENT if name == "intact" else both(condition["delta_nll"], 3)
            has_share = name not in ("intact", "zero") and condition["recovered"]
            share = text(condition["recovered"], 3) if has_share else "{--}"
            cells = rows[display(name)][start : start + 5]
            assert cells == [*both(condition["perplexity"]), *change, share], name
    assert rows[display("mean")][5:] == [*ABSENT, *ABSENT, "{--}"]


def test_changes_of_few_digits_are_printed_with_as_many(results):
    altered, reviews = changed(results, "conditions", "decoder", "sample_reviews")
    for condition in reviews["conditions"]:
        # Half of 0.15: 2 decimals.
        condition["delta_nll"] = {"value": 2.34567, "low": 2.2, "high": 2.5}
    rows = evaluation.conditions_table(altered)["blocks"][1]["rows"]
    assert rows[0][3:5] == both({"value": 2.34567, "low": 2.2, "high": 2.5}, 2)


def test_the_share_that_masks_recover_is_of_each_decoder_with_mean_and_deviation(results):
    table = evaluation.recovery_table(results)
    assert table["decoders"] == ["decoder", "decoder 1"] and table["reason"] is None
    assert table["formats"] == ["1.3"] * 4
    for dataset, block in zip(results.study["study"]["datasets"], table["blocks"], strict=True):
        runs = [of(results, "conditions", name, dataset) for name in ("decoder", "decoder_1")]
        documents, tokens = (
            rf"\num{{{runs[0][key]}}} to \num{{{runs[1][key]}}}"
            for key in ("documents", "scored_tokens")
        )
        if dataset == "sample_reviews":
            title = f"{display(dataset)}: {documents} documents, {tokens} tokens"
            assert block["title"] == title.replace(
                tokens, rf"\num{{{runs[0]['scored_tokens']}}}"
            ), "as many tokens in both"
        else:
            reason = "nothing is lost without positions"
            assert block == {"title": display(dataset), "reason": reason, "rows": []}
            continue
        rows = {row[0]: row[1:] for row in block["rows"]}
        named = {*map(display, ("zero_alibi", "fitted", "intact_fitted"))}
        assert named - rows.keys() == {display("intact_fitted")}
        for name, learned in {
            "zero_alibi": "--", "zero_slope": r"slope \num{0.1}",
            "fitted": r"\num{368} parameters", "zero_closed": "means",
            "placebo_heads": "means, over heads", "zero_distilled": "averages",
        }.items():  # fmt: skip
            first, second = (entry(run, name)["recovered"] for run in runs)
            mean = (first["value"] + second["value"]) / 2
            deviation = abs(first["value"] - second["value"]) / 2**0.5
            spread = [text(mean, 3), text(deviation, 3)]
            assert rows[display(name)] == [learned, *both(first, 3), *both(second, 3), *spread]


def test_semantics_are_beside_the_model_without_positions(results):
    table = semantics.semantics_table(results)
    reviews = of(results, "conditions", "decoder", "sample_reviews")
    names = {
        "hf_finfo": "zero_hf_finfo", "single_token": "single_token", "alibi": "zero_alibi",
        "per_query": "zero_per_query", "prob_mul": "zero_prob_mul", "log_mask": "zero_log_mask",
    }  # fmt: skip
    rows = {row["key"]: row for row in table["rows"]}
    assert names.keys() <= rows.keys() and len(rows) == len(table["rows"]) == 12
    for key, name in names.items():
        condition = entry(reviews, name)
        without = both(condition["delta_nll_without"], 3)
        assert rows[key]["name"] == display(name)
        assert rows[key]["cells"] == [text(condition["perplexity"]), *without]
    assert table["formats"] == ["1.5", "1.3"] and table["reason"] is None
    altered, own = changed(results, "conditions", "decoder", "sample_reviews")
    own["conditions"] = [e for e in own["conditions"] if e["condition"] != "zero_prob_mul"]
    rows = {row["key"]: row for row in semantics.semantics_table(altered)["rows"]}
    assert rows["prob_mul"]["cells"] == ["{--}", "{--}", "--"]


def test_anisotropy_is_of_the_last_state_without_positions(results):
    table = evaluation.anisotropy_table(results)
    runs = [
        measurement
        for measurement in results.of("similarity")
        if measurement["run"]["condition"] == "zero"
    ]
    assert len(table["rows"]) == len(runs) == 6 and table["formats"] == ["1.3"] * 6
    for row, run in zip(table["rows"], runs, strict=True):
        last = run["layers"][-1]
        numbers = [text(last["cosine"], 3), text(last["rescaled"], 3), *both(last["centred"], 3)]
        numbers += [*both(last["standardised"], 3), text(last["cka"], 3)]
        assert row == [*map(display, run["run"].values()), *numbers, *both(last["retrieval"], 3)]
    altered, own = changed(results, "similarity", *runs[0]["run"].values())
    own["status"] = "not run"
    assert evaluation.anisotropy_table(altered)["rows"] == table["rows"][1:]


def test_norms_have_what_they_tell_and_what_they_cost(results):
    altered, own = changed(results, "norms", "decoder", "sample_reviews")
    names = ("position_embeddings", "token_embeddings", "sum")
    own["r2"] = {
        of_: {"linear": 0.1 + place, "flexible": 0.25 + place} for place, of_ in enumerate(names)
    }
    table = evaluation.norms_table(altered)
    (row,) = (row for row in table["rows"] if row[:2] == ["decoder", "sample reviews"])
    assert row[2:8] == ["0.10", "0.25", "1.10", "1.25", "2.10", "2.25"]
    reviews = of(altered, "conditions", "decoder", "sample_reviews")
    costs = [entry(reviews, name) for name in ("unit_norm", "scaled")]
    assert row[8:] == [
        cell
        for cost in costs
        for cell in (text(cost["layers"][-1], 3), *both(cost["delta_nll"], 3))
    ]
    (encoder,) = (
        row for row in table["rows"] if row[:2] == [display("minilm"), "sample questions"]
    )
    questions = of(altered, "conditions", "minilm", "sample_questions")
    last = [entry(questions, name)["layers"][-1] for name in ("unit_norm", "scaled")]
    assert encoder[8:] == [text(last[0], 3), *ABSENT, text(last[1], 3), *ABSENT]
    assert table["formats"][0] == "-1.2" and table["formats"][6:] == ["1.3"] * 4


def test_reference_levels_stand_before_the_model(results):
    table = evaluation.reference_table(results)
    runs = [of(results, "reference", "decoder", name) for name in results.study["datasets"]]
    assert table["datasets"] == [titled(run) for run in runs]
    assert table["formats"] == [["1.5", "1.3"]] * 2
    assert table["model"] == "decoder" and table["reason"] == ""
    levels = [level["level"] for level in runs[0]["levels"]]
    assert [row[0] for row in table["levels"]] == levels and len(levels) == 4
    for row, name in zip(table["levels"], levels, strict=True):
        cells: list[str] = []
        for run in runs:
            (reference,) = (reference for reference in run["levels"] if reference["level"] == name)
            cells += [*both(reference["perplexity"]), text(reference["bits_per_byte"], 3)]
        assert row[1:] == cells
    assert [row[0] for row in table["conditions"]] == [*map(display, ("intact", "zero"))]
    for row, name in zip(table["conditions"], ("intact", "zero"), strict=True):
        cells = []
        for run in runs:
            measurement = of(results, "perplexity", "decoder", run["run"]["dataset"], name)
            cells += [*both(measurement["perplexity"]), text(measurement["bits_per_byte"], 3)]
        assert row[1:] == cells


def test_reference_levels_that_were_not_run_leave_gaps_and_say_why(results):
    altered, own = changed(results, "reference", "decoder", "sample_questions")
    own["levels"], own["reason"] = own["levels"][:1], "what it learned from is 100 % unknown"
    level = own["levels"][0]["perplexity"]
    level["low"] = level["high"] = level["value"]  # exact
    table = evaluation.reference_table(altered)
    bits = text(own["levels"][0]["bits_per_byte"], 3)
    digits = f"{level['value']:.3f}"  # four of a number without interval
    assert table["levels"][0][4:] == [digits, "--", bits]
    assert all(row[4:] == [*ABSENT, "{--}"] for row in table["levels"][1:])
    assert table["reason"] == r"what it learned from is 100 \% unknown"
    own |= {"status": "not run", "levels": []}
    table = evaluation.reference_table(altered)
    assert table["datasets"][1] == "sample questions" and ":" in table["datasets"][0]


def test_models_have_their_shape_and_their_weights(results):
    rows = {row[0]: row[1:] for row in study.models_table(results)["rows"]}
    assert list(rows) == [display(name) for name in results.study["study"]["models"]]
    decoder = ["decoder", "gpt2", r"\num{128}", r"\num{4}", r"\num{128}"]
    assert rows["decoder"] == [*decoder, "trained by us on sample reviews"]
    encoder = rows[display("minilm")]
    assert encoder[:2] == ["encoder", "bert"] and encoder[4] == r"\num{256}"
    assert encoder[5] == r"package: gt\_all\_minilm\_l6\_v2"

    def depth(given: Results, model: str) -> str:
        """Its layers: one fewer than the hidden states that it is evaluated on."""
        (measurement, *_) = (
            measurement
            for measurement in given.of("conditions")
            if measurement["run"]["model"] == model
        )
        return rf"\num{{{len(measurement['conditions'][0]['layers']) - 1}}}"

    assert rows[display("smollm2")][2:4] == ["--", depth(results, "smollm2")]
    altered, _ = changed(results, "similarity", "minilm", "sample_reviews", "zero")
    for measurement in altered.of("similarity"):
        if measurement["run"]["model"] == "minilm":
            altered.measurements[altered.measurements.index(measurement)] = {
                **measurement,
                "status": "not run",
            }
    rows = {row[0]: row[1:] for row in study.models_table(altered)["rows"]}
    assert rows[display("minilm")][2:4] == ["--", depth(altered, "minilm")]


def test_a_model_without_activations_has_the_shape_that_was_verified(results):
    verified = {"smollm2": {"d_model": 576, "n_layers": 30}}
    changed_results = dataclasses.replace(results, verifications=verified)
    rows = {row[0]: row[1:] for row in study.models_table(changed_results)["rows"]}
    assert rows[display("smollm2")][2:4] == [r"\num{576}", r"\num{30}"]


def test_data_sets_have_the_most_documents_and_where_they_come_from(results):
    rows = {row[0]: row[1:] for row in study.datasets_table(results)["rows"]}
    for dataset in ("sample_reviews", "sample_questions"):
        runs = [r for r in results.of("similarity") if r["run"]["dataset"] == dataset]
        most = max(run["documents"] for run in runs)
        split, form, seed = {
            "sample_reviews": ("test", "imdb", 20),
            "sample_questions": ("validation", "truthfulqa", 21),
        }[dataset]
        row = [form, split, rf"\num{{{most}}}", f"generated, seed {seed}"]
        assert rows[display(dataset)] == row
    sources = {
        "archive at example.org": {"kind": "url", "url": "https://example.org/a/b.tar.gz"},
        "local file b.csv": {"kind": "path", "path": "own_data/a/b.csv"},
        r"hub: a\_b/c": {"kind": "hub", "id": "a_b/c"},
    }
    for origin, source in sources.items():
        facts = copy.deepcopy(results.study)
        facts["datasets"]["sample_reviews"]["source"] = source
        (row, _) = study.datasets_table(Results(facts, [], [], {}, {}))["rows"]
        assert row[3:] == ["--", origin]


def test_cosines_have_the_documents_they_are_of(results):
    table = study.similarity_table(results)
    runs = [
        measurement
        for measurement in results.of("similarity")
        if measurement["run"]["condition"] == "zero"
    ]
    assert [row["names"] for row in table["rows"]] == [
        [display(name) for name in run["run"].values()] for run in runs
    ]
    for row, run in zip(table["rows"], runs, strict=True):
        first, last = run["layers"][0], run["layers"][-1]
        numbers = [*both(first["cosine"], 4), *both(last["cosine"], 4)]
        numbers += [text(last[name], 4) for name in ("baseline", "rescaled")]
        assert list(row["cells"]) == [str(run["documents"]), str(run["tokens"]), *numbers]
        assert row["reason"] is None
    assert table["formats"] == {"tokens": "5.0", "cosine": "1.4"}
    altered, own = changed(results, "similarity", *runs[0]["run"].values())
    own |= {"status": "not run", "reason": "100 %"}
    of_others = study.similarity_table(altered)["rows"][-1]
    model = display(own["run"]["model"])
    assert of_others == {"names": [model, "--", "--"], "reason": r"100 \%", "cells": []}


def test_perplexities_are_in_their_columns(results):
    table = study.perplexity_table(results)
    runs = [
        measurement
        for measurement in results.of("perplexity")
        if measurement["status"] == "measured"
    ]
    *rows, encoder = table["rows"]
    assert encoder["reason"] == "minilm has no language-model head" and len(rows) == len(runs)
    for row, run in zip(rows, runs, strict=True):
        change = both(run["delta_nll"], 3) if run["run"]["condition"] != "intact" else ABSENT
        numbers = [*both(run["perplexity"]), *change, text(run["bits_per_byte"], 3)]
        numbers.append(text(run["worse_than_uniform"], 4))
        cells = list(row["cells"])
        assert cells[:8] == [str(run["documents"]), str(run["tokens"]), *numbers]
        for cell, key in zip(cells[8:], ("mean", "median"), strict=True):
            assert float(cell) == pytest.approx(run["sequence_perplexity"][key], rel=5e-4)
        assert row["names"] == [display(name) for name in run["run"].values()]
    kinds = ("documents", "tokens", "perplexity", "delta", "bits", "share")
    formats = [table["formats"][kind] for kind in kinds]
    assert formats == ["4.0", "5.0", "1.5", "1.3", "1.3", "1.4"]


def published(results: Results, **entries: dict) -> Results:
    values = {
        key: {"quantity": f"{key} of all", "condition": "no_mask", "model": "B&B", "value": "1",
              "weights": ["hub/it"], "ours": [], **entry}
        for key, entry in entries.items()
    }  # fmt: skip
    return Results(results.study, results.measurements, [], {"values": values}, {"versions": []})


def test_published_values_have_ours_beside_them_and_how_alike_they_are(results):
    facts = copy.deepcopy(results.study)
    facts["models"]["minilm"]["source"] = {"kind": "hub", "id": "hub/it"}
    similar, other = (
        f"{model}.sample_reviews.zero.similarity.last.cosine" for model in ("minilm", "decoder")
    )
    with_published = published(
        Results(facts, results.measurements, [], {}, {}),
        both={"ours": [similar, other, "nothing.at.all"]},
        none={},
        lacking={"ours": ["minilm.sample_reviews.zero.conditions.perplexity", "constant.one"]},
        elsewhere={"table": "positions", "ours": ["minilm.positions.order_error"]},
        trained={"table": "experiments", "ours": [other, similar]},
    )
    printed = study.published_table(with_published)
    assert printed["template"] == "published"

    def theirs(key: str) -> list[str]:
        return [rf"\word{{{key} of all}}", r"no\_mask", r"B\&B", rf"\published{{{key}}}"]

    def compared(ours: str, word: str, key: str) -> str:
        words = r"{\word{higher}}{\word{lower}}{\word{not distinguishable}}"
        if word == "other":
            return r"\word{other model}"
        return rf"\word{{{word} model}}\word{{: }}\compared{{{ours}}}{{published.{key}}}{words}"

    names, empty = [display("sample_reviews"), display("zero")], [""] * 4
    minilm = display("minilm")
    no_head = "minilm.sample_reviews.zero.conditions.perplexity"
    assert printed["rows"] == [
        [*theirs("both"), minilm, *names, rf"\measured{{{similar}}}",
         compared(similar, "same", "both")],
        [*empty, "decoder", *names, rf"\measured{{{other}}}", compared(other, "other", "both")],
        [*empty, "--", "--", "--", r"\notrunmark", r"\word{not part of this study}"],
        [*theirs("none"), "--", "--", "--", r"\notrunmark", r"\word{no such condition}"],
        [*theirs("lacking"), minilm, *names, rf"\measured{{{no_head}}}",
         "minilm has no language-model head"],
        [*empty, "--", "--", "--", r"\measured{constant.one}",
         compared("constant.one", "other", "lacking")],
    ]  # fmt: skip
    assert study.published_experiments_table(with_published)["rows"] == [
        [*theirs("trained"), "decoder", *names, rf"\measured{{{other}}}",
         compared(other, "other", "trained")],
        [*empty, minilm, *names, rf"\measured{{{similar}}}",
         compared(similar, "same", "trained")],
    ]  # fmt: skip
    # A value from a table of positions is in ours, in the first column of mistaken pairs.
    table = positions.positions_table(with_published)
    (row,) = [row for row in table["rows"] if row[0] == r"B\&B, \word{published}"]
    group = next(group for group in table["groups"] if group["title"].startswith("Pairs mistaken"))
    cells = {place: cell for place, cell in enumerate(row[1:], 2) if cell != "{--}"}
    assert cells == {group["from"]: r"{\published{elsewhere}}"}


def test_a_study_without_a_decoder_says_so(results):
    facts = copy.deepcopy(results.study)
    facts["study"]["models"] = ["minilm"]
    altered = Results(facts, results.of("reference"), [], {}, {"versions": []})
    for name in ("conditions", "recovery", "semantics", "reference"):
        assert TABLES[name](altered)["reason"] == "no decoder in this study"
    assert evaluation.reference_table(altered)["model"] == ""


def test_perplexities_of_documents_have_their_formats(results):
    formats = study.perplexity_table(results)["formats"]
    assert formats.keys() == {
        "documents", "tokens", "perplexity", "delta", "bits", "share", "mean", "median"
    }  # fmt: skip
    assert re.fullmatch(r"\d+\.\d", formats["mean"]) and re.fullmatch(r"\d+\.\d", formats["median"])
