"""Each cell of a table is the number that its row and its column say, in the right digits.

Every estimate of the made-up measurements is another one, between 1 and 10, with an interval that
asks for five decimals: a column that has fewer says so.
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
from posenc.report.tables import evaluation, positions, study
from posenc.report.tables.cells import display

from . import synthetic

ABSENT = ["{--}", "--"]


def planted(value: Any, numbers: Iterator[float]) -> Any:
    """A copy in which every estimate is another one."""
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
    made = synthetic.study_file()
    made["models"]["decoder_1"] = made["models"]["decoder"]
    for models in (made["study"]["models"], made["study"]["captured"]):
        models.append("decoder_1")
    made["study"]["trained"]["decoder_1"] = "sample_reviews"
    numbers = (1 + 0.00259 * place for place in itertools.count())
    found: list[dict] = []
    for model in made["study"]["models"]:
        for dataset in made["study"]["datasets"]:
            found.append(synthetic.conditions(made, {}, model, dataset))
            found.append(synthetic.reference(made, model, dataset))
            if model not in made["study"]["captured"]:
                continue
            found.append(synthetic.norms(model, dataset))
            is_decoder = made["models"][model]["is_decoder"]
            for condition in made["study"]["conditions"]:
                run = (model, dataset, condition)
                found.append(synthetic.similarity(*run, 128, 4))
                found.append(synthetic.perplexity(*run, is_decoder))
    found = [planted(one, numbers) for one in found]
    assert next(numbers) < 10
    for place, one in enumerate(found):
        one["documents"], one["tokens"] = 1000 + place, 20000 + place
        one["file"] = f"{place}.json"
    return Results(made, found, [], {"values": {}}, {"versions": []})


def of(results: Results, kind: str, *run: str) -> dict:
    (one,) = (one for one in results.of(kind) if tuple(one["run"].values()) == run)
    return one


def entry(one: dict, condition: str) -> dict:
    (found,) = (entry for entry in one["conditions"] if entry["condition"] == condition)
    return found


def changed(results: Results, kind: str, *run: str) -> tuple[Results, dict]:
    """Results with a copy of one of their measurements, and that copy."""
    one = of(results, kind, *run)
    own = copy.deepcopy(one)
    rest = [own if other is one else other for other in results.measurements]
    return Results(results.study, rest, [], results.published, results.versions), own


def titled(one: dict, scored: bool = False) -> str:
    tokens = one["scored_tokens" if scored else "tokens"]
    name = display(one["run"]["dataset"])
    return rf"{name}: \num{{{one['documents']}}} documents, \num{{{tokens}}} tokens"


def test_conditions_have_their_perplexity_change_and_share(results):
    found, questions = changed(results, "conditions", "decoder", "sample_questions")
    reviews = of(found, "conditions", "decoder", "sample_reviews")
    questions["conditions"] = [e for e in questions["conditions"] if e["condition"] != "mean"]
    made = evaluation.conditions_table(found)
    assert made["datasets"] == [titled(reviews, True), titled(questions, True)]
    assert made["formats"] == [["1.5", "1.3", "1.3"], ["1.5", "1.3", "1.0"]], "no share of nothing"
    assert made["reason"] is None
    assert [row[0] for row in made["blocks"][0]["rows"]] == ["intact"]
    assert made["blocks"][0]["title"] == "" and made["blocks"][1]["title"] == "positions"
    rows = {row[0]: row[1:] for block in made["blocks"] for row in block["rows"]}
    assert rows.keys() == {display(one["condition"]) for one in reviews["conditions"]}
    for run, start in ((reviews, 0), (questions, 5)):
        for one in run["conditions"]:
            name = one["condition"]
            change = ABSENT if name == "intact" else both(one["delta_nll"], 3)
            has_share = name not in ("intact", "zero") and one["recovered"]
            share = text(one["recovered"], 3) if has_share else "{--}"
            cells = rows[display(name)][start : start + 5]
            assert cells == [*both(one["perplexity"]), *change, share], name
    assert rows[display("mean")][5:] == [*ABSENT, *ABSENT, "{--}"]


def test_changes_of_few_digits_are_printed_with_as_many(results):
    found, reviews = changed(results, "conditions", "decoder", "sample_reviews")
    for one in reviews["conditions"]:
        one["delta_nll"] = {"value": 2.34567, "low": 2.2, "high": 2.5}  # half of 0.15: 2 decimals
    rows = evaluation.conditions_table(found)["blocks"][1]["rows"]
    assert rows[0][3:5] == both({"value": 2.34567, "low": 2.2, "high": 2.5}, 2)


def test_the_share_that_masks_recover_is_of_each_decoder_with_mean_and_deviation(results):
    made = evaluation.recovery_table(results)
    assert made["decoders"] == ["decoder", "decoder 1"] and made["reason"] is None
    assert made["formats"] == ["1.3"] * 4
    for dataset, block in zip(results.study["study"]["datasets"], made["blocks"], strict=True):
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
    made = evaluation.semantics_table(results)
    reviews = of(results, "conditions", "decoder", "sample_reviews")
    names = {
        "hf_finfo": "zero_hf_finfo", "single_token": "single_token", "alibi": "zero_alibi",
        "per_query": "zero_per_query", "prob_mul": "zero_prob_mul", "log_mask": "zero_log_mask",
    }  # fmt: skip
    rows = {row["key"]: row for row in made["rows"]}
    assert names.keys() <= rows.keys() and len(rows) == len(made["rows"]) == 12
    for key, name in names.items():
        one = entry(reviews, name)
        without = both(one["delta_nll_without"], 3)
        assert rows[key]["name"] == display(name)
        assert rows[key]["cells"] == [text(one["perplexity"]), *without]
    assert made["formats"] == ["1.5", "1.3"] and made["reason"] is None
    found, own = changed(results, "conditions", "decoder", "sample_reviews")
    own["conditions"] = [e for e in own["conditions"] if e["condition"] != "zero_prob_mul"]
    rows = {row["key"]: row for row in evaluation.semantics_table(found)["rows"]}
    assert rows["prob_mul"]["cells"] == ["{--}", "{--}", "--"]


def test_anisotropy_is_of_the_last_state_without_positions(results):
    made = evaluation.anisotropy_table(results)
    runs = [one for one in results.of("similarity") if one["run"]["condition"] == "zero"]
    assert len(made["rows"]) == len(runs) == 6 and made["formats"] == ["1.3"] * 6
    for row, run in zip(made["rows"], runs, strict=True):
        last = run["layers"][-1]
        numbers = [text(last["cosine"], 3), text(last["rescaled"], 3), *both(last["centred"], 3)]
        numbers += [*both(last["standardised"], 3), text(last["cka"], 3)]
        assert row == [*map(display, run["run"].values()), *numbers, *both(last["retrieval"], 3)]
    found, own = changed(results, "similarity", *runs[0]["run"].values())
    own["status"] = "not run"
    assert evaluation.anisotropy_table(found)["rows"] == made["rows"][1:]


def test_norms_have_what_they_tell_and_what_they_cost(results):
    found, own = changed(results, "norms", "decoder", "sample_reviews")
    names = ("position_embeddings", "token_embeddings", "sum")
    own["r2"] = {
        of_: {"linear": 0.1 + place, "flexible": 0.25 + place} for place, of_ in enumerate(names)
    }
    made = evaluation.norms_table(found)
    (row,) = (row for row in made["rows"] if row[:2] == ["decoder", "sample reviews"])
    assert row[2:8] == ["0.10", "0.25", "1.10", "1.25", "2.10", "2.25"]
    reviews = of(found, "conditions", "decoder", "sample_reviews")
    costs = [entry(reviews, name) for name in ("unit_norm", "scaled")]
    assert row[8:] == [
        cell for one in costs for cell in (text(one["layers"][-1], 3), *both(one["delta_nll"], 3))
    ]
    (encoder,) = (row for row in made["rows"] if row[:2] == [display("minilm"), "sample questions"])
    questions = of(found, "conditions", "minilm", "sample_questions")
    last = [entry(questions, name)["layers"][-1] for name in ("unit_norm", "scaled")]
    assert encoder[8:] == [text(last[0], 3), *ABSENT, text(last[1], 3), *ABSENT]
    assert made["formats"][0] == "-1.2" and made["formats"][6:] == ["1.3"] * 4


def test_reference_levels_stand_before_the_model(results):
    made = evaluation.reference_table(results)
    runs = [of(results, "reference", "decoder", name) for name in results.study["datasets"]]
    assert made["datasets"] == [titled(run) for run in runs]
    assert made["formats"] == [["1.5", "1.3"]] * 2
    assert made["model"] == "decoder" and made["reason"] == ""
    levels = [level["level"] for level in runs[0]["levels"]]
    assert [row[0] for row in made["levels"]] == levels and len(levels) == 4
    for row, name in zip(made["levels"], levels, strict=True):
        cells: list[str] = []
        for run in runs:
            (one,) = (one for one in run["levels"] if one["level"] == name)
            cells += [*both(one["perplexity"]), text(one["bits_per_byte"], 3)]
        assert row[1:] == cells
    assert [row[0] for row in made["conditions"]] == [*map(display, ("intact", "zero"))]
    for row, name in zip(made["conditions"], ("intact", "zero"), strict=True):
        cells = []
        for run in runs:
            one = of(results, "perplexity", "decoder", run["run"]["dataset"], name)
            cells += [*both(one["perplexity"]), text(one["bits_per_byte"], 3)]
        assert row[1:] == cells


def test_reference_levels_that_were_not_run_leave_gaps_and_say_why(results):
    found, own = changed(results, "reference", "decoder", "sample_questions")
    own["levels"], own["reason"] = own["levels"][:1], "what it learned from is 100 % unknown"
    level = own["levels"][0]["perplexity"]
    level["low"] = level["high"] = level["value"]  # exact
    made = evaluation.reference_table(found)
    bits = text(own["levels"][0]["bits_per_byte"], 3)
    digits = f"{level['value']:.3f}"  # four of a number without interval
    assert made["levels"][0][4:] == [digits, "--", bits]
    assert all(row[4:] == [*ABSENT, "{--}"] for row in made["levels"][1:])
    assert made["reason"] == r"what it learned from is 100 \% unknown"
    own |= {"status": "not run", "levels": []}
    made = evaluation.reference_table(found)
    assert made["datasets"][1] == "sample questions" and ":" in made["datasets"][0]


def test_models_have_their_shape_and_their_weights(results):
    rows = {row[0]: row[1:] for row in study.models_table(results)["rows"]}
    assert list(rows) == [display(name) for name in results.study["study"]["models"]]
    decoder = ["decoder", "gpt2", r"\num{128}", r"\num{4}", r"\num{128}"]
    assert rows["decoder"] == [*decoder, "trained here on sample reviews"]
    encoder = rows[display("minilm")]
    assert encoder[:2] == ["encoder", "bert"] and encoder[4] == r"\num{256}"
    assert encoder[5] == r"package: gt\_all\_minilm\_l6\_v2"

    def depth(found: Results, model: str) -> str:
        """Of the hidden states that a model is evaluated on: one more than its layers."""
        (one, *_) = (one for one in found.of("conditions") if one["run"]["model"] == model)
        return rf"\num{{{len(one['conditions'][0]['layers']) - 1}}}"

    assert rows[display("smollm2")][2:4] == ["--", depth(results, "smollm2")]
    found, _ = changed(results, "similarity", "minilm", "sample_reviews", "zero")
    for one in found.of("similarity"):
        if one["run"]["model"] == "minilm":
            found.measurements[found.measurements.index(one)] = {**one, "status": "not run"}
    rows = {row[0]: row[1:] for row in study.models_table(found)["rows"]}
    assert rows[display("minilm")][2:4] == ["--", depth(found, "minilm")]


def test_a_model_without_activations_has_the_shape_that_was_verified(results):
    verified = {"smollm2": {"d_model": 576, "n_layers": 30}}
    changed_results = dataclasses.replace(results, verifications=verified)
    rows = {row[0]: row[1:] for row in study.models_table(changed_results)["rows"]}
    assert rows[display("smollm2")][2:4] == [r"\num{576}", r"\num{30}"]


def test_data_sets_have_the_most_documents_and_where_they_come_from(results):
    made = {row[0]: row[1:] for row in study.datasets_table(results)["rows"]}
    for dataset in ("sample_reviews", "sample_questions"):
        runs = [r for r in results.of("similarity") if r["run"]["dataset"] == dataset]
        most = max(one["documents"] for one in runs)
        split, form, seed = {
            "sample_reviews": ("test", "imdb", 20),
            "sample_questions": ("validation", "truthfulqa", 21),
        }[dataset]
        row = [form, split, rf"\num{{{most}}}", f"generated, seed {seed}"]
        assert made[display(dataset)] == row
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
    made = study.similarity_table(results)
    runs = [one for one in results.of("similarity") if one["run"]["condition"] == "zero"]
    assert [row["names"] for row in made["rows"]] == [
        [display(name) for name in run["run"].values()] for run in runs
    ]
    for row, run in zip(made["rows"], runs, strict=True):
        first, last = run["layers"][0], run["layers"][-1]
        numbers = [*both(first["cosine"], 4), *both(last["cosine"], 4)]
        numbers += [text(last[name], 4) for name in ("baseline", "rescaled")]
        assert list(row["cells"]) == [str(run["documents"]), str(run["tokens"]), *numbers]
        assert row["reason"] is None
    assert made["formats"] == {"tokens": "5.0", "cosine": "1.4"}
    found, own = changed(results, "similarity", *runs[0]["run"].values())
    own |= {"status": "not run", "reason": "100 %"}
    of_others = study.similarity_table(found)["rows"][-1]
    model = display(own["run"]["model"])
    assert of_others == {"names": [model, "--", "--"], "reason": r"100 \%", "cells": []}


def test_perplexities_are_in_their_columns(results):
    made = study.perplexity_table(results)
    runs = [one for one in results.of("perplexity") if one["status"] == "measured"]
    *rows, encoder = made["rows"]
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
    formats = [made["formats"][kind] for kind in kinds]
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
    found = published(
        Results(facts, results.measurements, [], {}, {}),
        both={"ours": [similar, other, "nothing.at.all"]},
        none={},
        lacking={"ours": ["minilm.sample_reviews.zero.conditions.perplexity", "constant.one"]},
        elsewhere={"table": "positions", "ours": ["minilm.positions.order_error"]},
        trained={"table": "experiments", "ours": [other, similar]},
    )
    made = study.published_table(found)
    assert made["template"] == "published"

    def theirs(key: str) -> list[str]:
        return [rf"\word{{{key} of all}}", r"no\_mask", r"B\&B", rf"\published{{{key}}}"]

    def compared(ours: str, word: str, key: str) -> str:
        return rf"\word{{{word} model}}\word{{, }}\compare{{{ours}}}{{published.{key}}}"

    names, empty = [display("sample_reviews"), display("zero")], [""] * 4
    minilm = display("minilm")
    no_head = "minilm.sample_reviews.zero.conditions.perplexity"
    assert made["rows"] == [
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
    assert study.published_experiments_table(found)["rows"] == [
        [*theirs("trained"), "decoder", *names, rf"\measured{{{other}}}",
         compared(other, "other", "trained")],
        [*empty, minilm, *names, rf"\measured{{{similar}}}",
         compared(similar, "same", "trained")],
    ]  # fmt: skip
    # Of a table of positions, it stands among our tables, in the first column of mistaken pairs.
    table = positions.positions_table(found)
    (row,) = [row for row in table["rows"] if row[0] == r"B\&B, \word{published}"]
    group = next(group for group in table["groups"] if group["title"].startswith("Pairs mistaken"))
    cells = {place: cell for place, cell in enumerate(row[1:], 2) if cell != "{--}"}
    assert cells == {group["from"]: r"{\published{elsewhere}}"}


def test_a_study_without_a_decoder_says_so(results):
    facts = copy.deepcopy(results.study)
    facts["study"]["models"] = ["minilm"]
    found = Results(facts, results.of("reference"), [], {}, {"versions": []})
    for name in ("conditions", "recovery", "semantics", "reference"):
        assert evaluation.TABLES[name](found)["reason"] == "no decoder in this study"
    assert evaluation.reference_table(found)["model"] == ""


def test_perplexities_of_documents_have_their_formats(results):
    formats = study.perplexity_table(results)["formats"]
    assert formats.keys() == {
        "documents", "tokens", "perplexity", "delta", "bits", "share", "mean", "median"
    }  # fmt: skip
    assert re.fullmatch(r"\d+\.\d", formats["mean"]) and re.fullmatch(r"\d+\.\d", formats["median"])
