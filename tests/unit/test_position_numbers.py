"""Numbers and tables of positions and heads are those of their measurements."""

from __future__ import annotations

import copy
import json
import math
import re

import pytest

from posenc.artifacts.files import unbundled
from posenc.artifacts.numbers import NotRun, Number, facts_of
from posenc.measurements.choices.quantities import ANSWERING
from posenc.measurements.induction.quantities import UNDER
from posenc.measurements.joint_order.quantities import PAIRED
from posenc.measurements.lags.quantities import lags
from posenc.measurements.lags.result import Comparison
from posenc.measurements.token_classes.quantities import PAYING
from posenc.report import typeset
from posenc.report.collection import collect
from posenc.report.gathered import read
from posenc.report.readers import QUANTITIES, numbers_of
from posenc.report.records import Results
from posenc.report.tables import positions as position_tables
from posenc.report.words import label

from . import synthetic, synthetic_experiments
from . import synthetic_positions as made

RUN = {"model": "decoder", "dataset": "sample_reviews", "condition": "intact"}
CASES = {
    "position_embeddings": made.position_embeddings("decoder", "model"),
    "readback": made.readback("decoder"),
    "position_heads": made.position_heads("decoder", True),
    "relative_attention": made.relative_attention("decoder", True),
    "probes": made.probes(RUN, True),
    "components": made.components(RUN, True),
    "spectra": made.spectra(RUN, True),
    "heads": made.heads(RUN, True),
    "layer_norm": made.layer_norm("decoder", "sample_reviews", True),
    "score_parts": made.score_parts("decoder", "sample_reviews", True),
    "savings": made.savings("smollm2", "sample_reviews", True, "rotation"),
    "induction": made.induction("smollm2", "sample_reviews", dict.fromkeys(UNDER)),
    "causal_probes": made.causal_probes("decoder", "sample_reviews", True),
    "swaps": made.swaps("smollm2", "sample_reviews", dict.fromkeys([*UNDER, "single_token"])),
    "joint_order": made.joint_order("smollm2", "sample_reviews", dict.fromkeys(PAIRED)),
    "choices": made.choices("smollm2", "sample_questions", dict.fromkeys(ANSWERING)),
    "token_classes": made.token_classes(
        "smollm2", "sample_reviews", dict.fromkeys(("intact", *PAYING))
    ),
    "random_causal": made.random_causal(),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Results:
    written = synthetic.write_inputs(tmp_path_factory.mktemp("study"))
    paper = synthetic.PROJECT / "paper"
    versions = synthetic.PROJECT / "docs/mask-versions.json"
    measured = synthetic.measured(written)
    return read(written["study"], paper / "published.yaml", versions, measured)


@pytest.mark.parametrize("kind", CASES)
def test_a_measurement_that_was_not_run_lacks_exactly_what_it_would_have(kind):
    measurement, read, names = CASES[kind], QUANTITIES[kind].read, QUANTITIES[kind].names
    facts = facts_of(measurement, read, names)
    # Of windows, which a list varies, it has the ends.
    ends = {name for name in names if re.match(r"window_(smallest|largest)\.", name)}
    assert bool(ends) == (kind == "causal_probes")
    windows = {f"window_{n}.{name.partition('.')[2]}" for n in (4, 16, 64) for name in ends}
    assert facts.keys() == set(names) - ends | windows
    lacks = {"next", "next.layer", "next.head"} if kind == "heads" else set()  # it is causal
    assert {key for key, entry in facts.items() if isinstance(entry, NotRun)} == lacks
    lacking = facts_of({**measurement, "status": "not run", "reason": "no weights"}, read, names)
    assert lacking == dict.fromkeys(names, NotRun("no weights"))


def test_a_spectrum_whose_attention_cannot_be_rebuilt_says_so():
    measurement = copy.deepcopy(CASES["spectra"])
    measurement["band_pass"] = {"status": "not run", "reason": "the condition has a mask"}
    numbers = numbers_of(measurement)
    assert numbers["uniform"] == numbers["without.low"] == NotRun("the condition has a mask")
    assert numbers["keys.low"] == Number(0.4, pytest.approx(0.39), pytest.approx(0.41))


def test_the_best_layer_is_the_one_with_the_least_error():
    measurement = copy.deepcopy(CASES["probes"])
    measurement["layers"][2]["position"]["ridge"] = made.estimate(1.5)
    numbers = numbers_of(measurement)
    assert numbers["best.ridge"].value == 1.5
    assert numbers["embedding.relu"].value == 4.0
    assert numbers["last.relu"].value == measurement["layers"][-1]["position"]["relu"]["value"]
    assert numbers["last.order"].value == measurement["layers"][-1]["order"]["logistic"]["value"]
    best = copy.deepcopy(CASES["components"])
    best["layers"][3]["canonical"]["held_out"][0] = made.estimate(0.99)
    best["layers"][3]["principal"]["position_share"] = [0.1, 0.7]
    assert numbers_of(best)["best.correlation"].value == 0.99
    assert numbers_of(best)["principal"] == Number(0.7)
    count = len(best["layers"])
    # The made-up layer 2 does not converge.
    assert numbers_of(best)["converged"].value == count - 1
    assert numbers_of(best)["layers"].value == count
    best["amari_between_halves"] = None
    assert isinstance(numbers_of(best)["halves"], NotRun)
    best["layers"][1]["independent"]["rank"] = 9
    assert numbers_of(best)["rank"] == Number(9)


def test_levels_of_noise_are_the_first_the_middle_and_the_last():
    numbers = numbers_of(CASES["readback"])
    assert numbers["noise.weak"] == Number(0.4, decimals=1)
    assert numbers["noise.strong"] == Number(1.6, decimals=1)
    assert numbers["before.exact"].value == 1
    assert numbers["before.weak"].value == pytest.approx(0.8)
    # In percent.
    assert numbers["bound.before"].value == pytest.approx(0.5)
    assert numbers["bound.after"].value == pytest.approx(2.8)
    assert numbers["angle"].value == pytest.approx(1.3 * 180 / math.pi)  # the median


def test_a_correlation_that_is_not_defined_says_why():
    comparison = copy.deepcopy(made.lags({"decoder": True}, ["sample_reviews"]))["comparisons"][0]
    nothing = {"spearman": None, "p": None, "undefined": 1.0}
    comparison["results"]["peak"] |= {"over_layers": nothing, "reason": "all are the same"}
    numbers = lags(Comparison.model_validate(comparison))
    assert numbers["peak"] == NotRun("all are the same")
    assert numbers["peak.p"] == NotRun("all are the same")
    assert numbers["profile_mean"] == Number(0.6, pytest.approx(0.3), pytest.approx(0.9))
    assert (numbers["lowest_layer"], numbers["highest_layer"]) == (Number(0.2), Number(0.8))
    assert numbers["chosen.odd"] == Number(0.5, pytest.approx(0.2), pytest.approx(0.8))


def test_a_head_without_a_null_space_says_so():
    numbers = numbers_of({**CASES["relative_attention"], "null_rotation": None})
    assert numbers["null_weights"] == NotRun("there is no null space to turn")


def test_comparisons_are_found_by_their_models(results):
    numbers = collect(results)
    (joined,) = results.of("lags")
    by_models = {
        tuple(c["run"]["models"]): c["heads"]
        for c in joined["comparisons"]
        if c["run"]["dataset"] == "sample_reviews"
    }
    assert numbers["encoder.reviews.lags.heads"].value == by_models["minilm",] == 72
    assert numbers["decoder.reviews.lags.heads"].value == by_models["decoder",] == 16
    assert numbers["lags.reviews.heads"].value == by_models["minilm", "decoder"] == 88


def test_roles_and_matrices_have_their_keys(results):
    numbers = collect(results)
    assert numbers["matrix.gaussian.positions.mae"] == Number(60.6)
    assert numbers["decoder.positions.mae"] == numbers["encoder.positions.mae"] == Number(9.7)
    assert numbers["decoder.positions.first_4"] == Number(71.7)  # percent
    zero = numbers["decoder.reviews.zero.probes.embedding.relu"]
    assert zero.value == 30 and numbers["decoder.reviews.intact.probes.embedding.relu"].value == 4
    assert isinstance(numbers["decoder.questions.intact.spectra.uniform"], NotRun)


@pytest.mark.parametrize("name", position_tables.TABLES)
def test_a_table_has_a_row_for_all_there_is_and_equal_columns(results, name):
    table = position_tables.TABLES[name](results)
    widths = {len(row) for row in table["rows"]}
    assert widths == {len(table["heads"])} == {len(table["formats"])}
    assert sum(group["count"] for group in table["groups"]) == len(table["heads"])
    rows = {
        "positions": 4 + 4,  # two models, two matrices; published of four
        "waves": 4,
        "position_heads": 2,
        "readback": 2 * 6,
        "probes": 2 * 2 * 2 + 5 * 2,
        "heads": 2 * 2,
    }
    assert len(table["rows"]) == rows[name]
    text = typeset.table_tex(results, name)
    assert all(" & ".join(row) in text for row in table["rows"])


def test_what_was_not_run_is_a_row_of_its_own(results):
    others = [
        {**measurement, "status": "not run", "reason": "no weights"}
        if measurement["run"].get("model") == "minilm"
        else measurement
        for measurement in results.measurements
    ]
    changed = Results(results.study, others, results.trainings, results.published, results.versions)
    for name in ("readback", "probes", "heads"):
        table = position_tables.TABLES[name](changed)
        assert table["others"] == [["MiniLM", "no weights"]]
        assert not any(row[0] == "MiniLM" for row in table["rows"])
        assert r"{not run: no weights}" in typeset.table_tex(changed, name)


def test_a_bundle_is_what_it_holds():
    runs = [{"run": {"condition": name}} for name in ("intact", "zero")]
    assert unbundled({"runs": runs}) == runs
    assert unbundled(runs[0]) == [runs[0]]


def test_the_part_of_a_checkpoint_says_what_it_lacks(results):
    study = {**results.study, "matrices": {"part": {"kind": "path", "n_heads": 12}}}
    changed = Results(
        study, results.measurements, results.trainings, results.published, results.versions
    )
    numbers = collect(changed)
    assert numbers["matrix.part.readback.all"] == NotRun("needs token embeddings")
    assert numbers["matrix.part.relative.all"] == NotRun("needs token embeddings")
    assert numbers["matrix.part.heads.all"] == NotRun("needs a model that runs")
    assert numbers["matrix.part.perplexity.all"] == NotRun("needs a model that runs")
    assert "matrix.part.position_heads.all" not in numbers
    assert not any(key.startswith("matrix.gaussian") and key.endswith(".all") for key in numbers)
    for name, why in (("readback", "token embeddings"), ("probes", "a model that runs")):
        text = typeset.table_tex(changed, name)
        assert re.search(rf"(?m)^part & .*not run: needs {why}", text)


def test_published_values_stand_among_the_tables_digit_for_digit(results):
    rows = {row[0]: row for row in position_tables.positions_table(results)["rows"]}
    names = ["BERT", "RoBERTa", "GPT-2", "sinusoid"]
    assert list(rows)[-4:] == [rf"{name}, \word{{published}}" for name in names]
    theirs = rows[r"RoBERTa, \word{published}"]
    assert r"{\published{roberta.positions.mae}}" in theirs
    assert r"{\published{roberta.positions.first_12}}" in theirs


FOLLOWED = ("induction", "causal_probes", "swaps", "joint_order", "choices", "token_classes")
"""Measurements under conditions that params.yaml lists."""


@pytest.mark.parametrize("kind", FOLLOWED)
def test_numbers_follow_the_conditions_that_were_measured(kind):
    """A condition that no text mentions has all the numbers of one that is mentioned."""
    measurement, read = CASES[kind], QUANTITIES[kind].read
    other = json.loads(json.dumps(measurement).replace('"placebo_heads"', '"of_mine"'))
    usual, numbers = read(measurement), read(other)
    of_placebo = {key: entry for key, entry in usual.items() if key.startswith("placebo_heads.")}
    assert any(isinstance(entry, Number) for entry in of_placebo.values())
    for key, entry in of_placebo.items():
        assert numbers[key.replace("placebo_heads", "of_mine")] == entry
        assert isinstance(numbers[key], NotRun)


def test_numbers_follow_the_counts_keys_and_windows_that_were_measured():
    heads = synthetic_experiments.unrotated_heads("smollm2", "sample_reviews")
    for entry in heads["sets"]:
        entry["count"] += 1
    for entry in heads["keys"]:
        entry["key"] += 2
    numbers = numbers_of(heads)
    assert isinstance(numbers["strongest.28.share"], Number)
    assert isinstance(numbers["only_random.82.delta_nll"], Number)
    assert isinstance(numbers["key_18"], Number)
    assert "strongest.27.share" not in numbers
    read = synthetic_experiments.effective_keys("decoder", "sample_reviews", True)
    for entry in read["reading"]:
        entry["keys"] = entry["keys"] and entry["keys"] + 1
    numbers = numbers_of(read)
    assert isinstance(numbers["nearest.17.delta_nll"], Number)
    probes = CASES["causal_probes"]
    windows = json.loads(json.dumps(probes).replace('"window_16"', '"window_24"'))
    numbers = numbers_of(windows)
    assert numbers["window_24.beyond.error"] == numbers_of(probes)["window_16.beyond.error"]
    assert label("causal_probes", "window_24.beyond.error").startswith(
        "without positions, the last 24"
    )
