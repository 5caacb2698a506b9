"""Each printed number of an experiment is the one its key names, in the unit of its text.

All numbers of a made-up measurement differ; the table below, written by hand, says where each key
takes its number from. A wrong entry, a missing factor of 100 or a swap shows.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from posenc.artifacts.numbers import NotRun, Number
from posenc.artifacts.printing import Printed, number
from posenc.artifacts.results import Interval
from posenc.experiments.downstream import quantities as downstream_quantities
from posenc.experiments.memory_networks import quantities as memory_networks_quantities
from posenc.experiments.tokenizers import quantities as tokenizers_quantities
from posenc.experiments.tokenizers.result import Comparison
from posenc.measurements.embedding_sums import quantities as embedding_sums_quantities
from posenc.measurements.hard_attention import quantities as hard_attention_quantities
from posenc.measurements.scaling import quantities as scaling_quantities
from posenc.report.readers import QUANTITIES
from posenc.report.records import Results
from posenc.report.tables import experiments as tables

from . import synthetic_experiments as made_up
from .planted import at, distinct, expected

DOWNSTREAM = "results[task={task},method={method},positions={positions}]"
CELL = "cells[pretrained={pretrained},auxiliary={auxiliary},architecture={architecture}]"
OLD, LOSS = {True: "pretrained", False: "new"}, {True: "auxiliary", False: "plain"}
PERCENT, PLAIN = 100, 1
EXPECTED: dict[str, dict[str, tuple[str, int]]] = {
    "downstream": {
        "chance": ("chance", PERCENT),
        "documents.training": ("documents.training", PLAIN),
        "documents.validation": ("documents.validation", PLAIN),
        "documents.test": ("documents.test", PLAIN),
        **{
            f"{task}.{method}.{positions}.{key}": (
                DOWNSTREAM.format(task=task, method=method, positions=positions) + f".{key}",
                PLAIN if key == "order_sensitivity" else PERCENT,
            )
            for task in ("sentiment", "word_swap")
            for method in ("frozen", "fine_tuned")
            for positions in ("intact", "zero")
            for key in ("accuracy", "accuracy_shuffled", "changed", "order_sensitivity")
            if (task, positions, key) != ("word_swap", "zero", "order_sensitivity")
        },
        **{
            f"{task}.{method}.gain": (f"gains[task={task},method={method}].gain", PERCENT)
            for task in ("sentiment", "word_swap")
            for method in ("frozen", "fine_tuned")
        },
        **{
            f"shuffled.{positions}.mean_change": (f"shuffling[positions={positions}].mean", PERCENT)
            for positions in ("intact", "zero")
        },
        "control.frozen.accuracy": ("control[method=frozen].accuracy", PERCENT),
        "control.fine_tuned.p_value": ("control[method=fine_tuned].p_value", PLAIN),
    },
    "superposition": {
        "chance": ("chance.both", PERCENT),
        "pairs": ("images.pairs", PLAIN),
        "affine_gap": ("affine_gap", PLAIN),
        **{
            f"{name}.{key}": (f"classifiers[name={name}].{path}", factor)
            for name in ("relu", "affine", "logistic_regression")
            for key, path, factor in (
                ("accuracy", "accuracy", PERCENT),
                ("both", "mixtures[weight=0.5].inputs.both", PERCENT),
                ("outputs", "mixtures[weight=0.5].outputs.both", PERCENT),
                ("gap", "mixtures[weight=0.5].gap.logits", PLAIN),
                ("numbers", "numbers", PLAIN),
            )
        },
        "difference.logistic_regression": (
            "differences[weight=0.5].logistic_regression", PERCENT,
        ),
        "difference.outputs": ("differences[weight=0.5].outputs", PERCENT),
    },
    "mixed_images": {
        "recognised": ("recognised", PLAIN),
        "pairs": ("pairs", PLAIN),
        "classes": ("network.classes", PLAIN),
        "chance": ("chance.both", PERCENT),
        "published": ("published.both", PERCENT),
        **{f"faded.{top}": (f"mixtures[weight=0.5].faded[top={top}].share", PERCENT)
           for top in (2, 5)},
        **{
            f"{among}.{top}.{key}": (
                f"mixtures[weight=0.5].found[among={among},top={top}].{key}", PERCENT
            )
            for among in ("all", "pictures") for top in (2, 5)
            for key in ("both", "either", "outputs", "lost", "others", "absent", "beyond_absent")
        },
        **{
            f"{stage.replace(' ', '_')}.{key}": (f"stages[stage={stage}].{path}", factor)
            for stage in ("stem", "stage 4", "pooled", "logits")
            for key, path, factor in (
                ("difference", "difference", PERCENT),
                *(
                    (f"{network}.{key}", f"{network}.{path}", factor)
                    for network in ("trained", "untrained")
                    for key, path, factor in (
                        ("both", "inputs", PERCENT), ("outputs", "outputs", PERCENT),
                        ("gap", "gap", PLAIN),
                    )
                ),
            )
        },
    },
    "tokenizers": {
        f"english.none.{kind}.{key}": (
            f"{entries}[dataset=english,normalization=none,kind={kind}].{path}", PLAIN,
        )
        for kind in ("whitespace", "character", "bpe", "unigram")
        for key, entries, path in (
            ("bits_per_byte", "tokenizers", "bits_per_byte.total"),
            ("bits_per_original_byte", "tokenizers", "bits_per_original_byte.total"),
            ("spelling", "tokenizers", "bits_per_byte.spelling"),
            ("vocabulary", "tokenizers", "vocabulary"),
            ("tokens_per_byte", "tokenizers", "fertility.per_byte"),
            ("unknown", "tokenizers", "unknown.bytes"),
            ("round_trip", "tokenizers", "round_trip"),
            ("against_bpe", "differences", "bits_per_byte"),
        )
        if not (kind == "bpe" and key == "against_bpe")
    }
    | {
        f"my_japanese.NFKC.{kind}.change": (
            f"normalizations[dataset=my_japanese,kind={kind}].bits_per_original_byte", PLAIN,
        )
        for kind in ("whitespace", "bpe")
    },
    "scaling": {
        "keys": ("keys", PLAIN),
        "queries": ("queries", PLAIN),
        "narrow.d_k": ("dimensions.1.d_k", PLAIN),
        "wide.d_k": ("dimensions.-1.d_k", PLAIN),
    }
    | {
        f"{name}.{kind}.{key}": (f"dimensions.{place}.{kind}.{path}", PLAIN)
        for name, place in (("narrow", "1"), ("wide", "-1"))
        for kind in ("raw", "scaled")
        for key, path in (
            ("variance", "variance"), ("largest", "largest"), ("frobenius", "frobenius"),
            ("median", "median.frobenius"),
        )
    },
    "pretraining": {
        "chance": ("chance", PERCENT),
        "auxiliary_weight": ("auxiliary_weight", PLAIN),
        "difference": ("parameters.relative_difference", PERCENT),
        "parameters.lstm": ("parameters.lstm", PLAIN),
        "parameters.transformer": ("parameters.transformer", PLAIN),
        "transfer.1": ("transfer.1.gain", PERCENT),
        **{
            f"language_model.{name}.{key}": (
                f"language_models[architecture={name}].test.{key}", PLAIN,
            )
            for name in ("transformer", "lstm")
            for key in ("perplexity", "bits_per_byte")
        },
        **{
            f"{OLD[old]}.{LOSS[loss]}.{name}.accuracy": (
                CELL.format(pretrained=old, auxiliary=loss, architecture=name) + ".accuracy",
                PERCENT,
            )
            for old in (True, False)
            for loss in (True, False)
            for name in ("transformer", "lstm")
        },
        **{
            f"effect.{factor}": (f"effects[factor={factor}].average", PERCENT)
            for factor in ("pretrained", "auxiliary", "architecture")
        },
        **{
            f"ablation.{factor}": (f"effects[factor={factor}].settings.0.difference", PERCENT)
            for factor in ("pretrained", "auxiliary", "architecture")
        },
        "transfer.embeddings": ("transfer.0.gain", PERCENT),
        "transfer.all": ("transfer.-1.gain", PERCENT),
    },
    "memory_networks": {
        "training_stories": ("training_stories", PLAIN),
        "test_stories": ("test_stories", PLAIN),
        **{
            f"{task}.guess.{key}": (f"tasks[task={task}].guess.{key}", PERCENT)
            for task in ("one_fact", "order")
            for key in ("nothing", "story", "sentences")
        },
        **{
            f"{task}.end_to_end.{hops}.{'words' if sees else 'bag'}.error": (
                f"cells[task={task},network=end_to_end,hops={hops},positions={sees}].error",
                PERCENT,
            )
            for task in ("one_fact", "two_facts", "order")
            for hops in (1, 2, 3)
            for sees in (True, False)
        },
        **{
            f"{task}.dynamic.error": (f"cells[task={task},network=dynamic].error", PERCENT)
            for task in ("one_fact", "order")
        },
        **{
            f"two_facts.dynamic.fact.{number + 1}": (
                f"cells[task=two_facts,network=dynamic].facts_in_order.{number}", PERCENT
            )
            for number in range(2)
        },
    },
}  # fmt: skip
MEASURED: dict[str, Callable[[], dict]] = {
    "downstream": lambda: made_up.downstream("minilm", "reviews"),
    "superposition": made_up.superposition,
    "mixed_images": made_up.mixed_images,
    "tokenizers": lambda: made_up.tokenizers(["english", "my_japanese"]),
    "scaling": made_up.scaling,
    "pretraining": lambda: made_up.pretraining("reviews"),
    "memory_networks": made_up.memory_networks,
}


def read(kind: str) -> Callable[[dict], dict]:
    """How a kind of result is read; tokenizers have their numbers by data set."""
    return QUANTITIES[kind].read or (
        lambda measurement: tokenizers_quantities.tokenizers(Comparison.of(measurement))
    )


@pytest.mark.parametrize("kind", EXPECTED)
def test_each_key_names_its_own_number(kind):
    measurement = distinct(MEASURED[kind]())
    quantities = read(kind)(measurement)
    if kind == "tokenizers":
        quantities = {".".join(place): entry for place, entry in quantities.items()}
    for key, (path, factor) in EXPECTED[kind].items():
        assert quantities[key] == expected(at(measurement, path), factor), key


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_table_above_is_worth_something(kind):
    """Numbers differ, so a number in the wrong place shows."""
    measurement = distinct(MEASURED[kind]())
    values = [at(measurement, path) for path, _ in EXPECTED[kind].values()]
    plain = [value["value"] if isinstance(value, dict) else value for value in values]
    assert len(set(plain)) == len(plain) > 5


@pytest.mark.parametrize("kind", sorted({*EXPECTED} - {"scaling", "mixed_images"}))
def test_seeds_are_counted(kind):
    quantities = read(kind)({**MEASURED[kind](), "seeds": [3, 1, 4, 1, 5]})
    assert quantities["seeds" if kind != "tokenizers" else ("", "seeds")] == Number(5)


def test_a_table_without_what_the_text_speaks_of_has_the_last_of_what_there_is():
    measurement = distinct(made_up.scaling())
    measurement["dimensions"] = measurement["dimensions"][:1]
    quantities = scaling_quantities.QUANTITIES.read(measurement)
    assert (
        quantities["narrow.d_k"]
        == quantities["wide.d_k"]
        == expected(measurement["dimensions"][0]["d_k"])
    )


def test_percent_is_of_a_share_with_or_without_an_interval():
    percent = Printed(percent=True, absent="no seed")
    assert number(None, percent) == NotRun("no seed")
    assert number(0.25, percent) == Number(25.0)
    assert number(Interval(value=0.25, low=0.125, high=0.5), percent) == Number(25.0, 12.5, 50.0)


@pytest.mark.parametrize("kind", ["superposition", "mixed_images", "embedding_sums"])
def test_numbers_at_equal_weights_are_of_no_other_weight(kind):
    """A study may mix at other weights alone."""
    made = {**MEASURED, "embedding_sums": lambda: made_up.embedding_sums("m", True)}[kind]()
    before = QUANTITIES[kind].read(made)
    after = QUANTITIES[kind].read(without_half(made))
    assert after.keys() == before.keys()
    changed = {key: entry for key, entry in after.items() if entry != before[key]}
    assert len(changed) >= 5
    assert all("at equal weights" in entry.reason for entry in changed.values()), changed


def without_half(value):
    """A measurement of the same in which nothing is mixed at equal weights."""
    if isinstance(value, dict):
        return {key: without_half(part) for key, part in value.items()}
    if not isinstance(value, list):
        return value
    is_half = [isinstance(part, dict) and part.get("weight") == 0.5 for part in value]
    return [without_half(p) for p, half in zip(value, is_half, strict=True) if not half]


def test_what_networks_are_called():
    name = memory_networks_quantities.network_name
    assert name("end_to_end", 3, True) == "end_to_end.3.words"
    assert name("strongly_supervised", 2, False) == "strongly_supervised.bag"
    assert name("majority", None, None) == "majority"


def test_what_was_not_run_says_why():
    measurement = made_up.downstream("minilm", "reviews")
    quantities = downstream_quantities.QUANTITIES.read(measurement)
    assert quantities["word_swap.frozen.zero.order_sensitivity"] == NotRun(
        "1 of 3 classifiers give all documents one label"
    )
    measurement["results"] = measurement["results"][:1]
    assert downstream_quantities.QUANTITIES.read(measurement)[
        "word_swap.frozen.zero.accuracy"
    ] == NotRun("the experiment has no such task")


def test_hard_attention_compares_each_baseline_with_none():
    measurement = distinct(made_up.hard_attention({"model": "m", "dataset": "d"}, True))
    quantities = hard_attention_quantities.QUANTITIES.read(measurement)
    for key, path in {
        "queries": "tokens", "entropy": "entropy", "uniform": "uniform", "soft": "soft",
        "hard": "hard", "mean": "baselines[name=mean].ratio",
        "optimal": "baselines[name=optimal].ratio",
        "mean_over_optimal": "baselines[name=mean].over_optimal",
        "worse": "baselines[name=mean].worse",
        "samples": "baselines[name=none].samples_to_signal",
        "samples_optimal": "baselines[name=optimal].samples_to_signal",
        "noise": "noise", "noise_anywhere": "noise_anywhere", "values.soft": "values.soft",
        "values.hard": "values.hard", "values.noise": "values.noise",
        "values.noise_anywhere": "values.noise_anywhere", "values.mean": "values.ratio.mean",
        "values.optimal": "values.ratio.optimal",
        "values.samples": "values.samples_to_signal.none",
        "values.samples_optimal": "values.samples_to_signal.optimal",
    }.items():  # fmt: skip
        assert quantities[key] == expected(at(measurement, path), PLAIN), key
    assert set(quantities) == set(hard_attention_quantities.QUANTITIES.names)


def test_sums_of_embeddings_are_those_of_the_whole_width_at_equal_weights():
    measurement = distinct(made_up.embedding_sums("m", True))
    quantities = embedding_sums_quantities.QUANTITIES.read(measurement)
    for key, path in {
        "both": "model.-1.weights[weight=0.5].cosine.both",
        "both_centred": "centred.-1.weights[weight=0.5].cosine.both",
        "gaussian": "gaussian.-1.weights[weight=0.5].cosine.both",
        "inner_product": "model.-1.weights[weight=0.5].inner_product.both",
        "pairs": "pairs",
        "rows": "rows",
        "needed": "needed_dimensions[weight=0.5].dimensions",
    }.items():
        assert quantities[key] == expected(at(measurement, path), PLAIN), key
    assert set(quantities) == set(embedding_sums_quantities.QUANTITIES.names)


# --- Tables ---------------------------------------------------------------------------------------


def table(kind: str, measurement: dict) -> list[list[str]]:
    """The cells of a table, row by row, without LaTeX's separators."""
    results = Results({}, [measurement], [], {}, {})
    return tables.TABLES[kind](results)["rows"]


def estimates(cells: list) -> list[str]:
    """The numbers of a row, without their intervals."""
    return [str(cell) for cell in cells if not str(cell).startswith("[")]


def words(cells: list, count: int) -> tuple[str, ...]:
    return tuple(str(cell) for cell in cells[:count])


def test_rows_of_the_pretraining_table_say_what_their_cell_is():
    measurement = distinct(made_up.pretraining("reviews"))
    rows = table("pretraining", measurement)
    assert len(rows) == len(measurement["cells"]) == 8
    for row, cell in zip(rows, measurement["cells"], strict=True):
        assert words(row, 3) == (
            "LSTM" if cell["architecture"] == "lstm" else "Transformer",
            "yes" if cell["pretrained"] else "no",
            "yes" if cell["auxiliary"] else "no",
        )
        assert f"{100 * cell['accuracy']['value']:.1f}" in estimates(row)[3]


def test_rows_of_the_downstream_table_say_what_their_result_is():
    measurement = distinct(made_up.downstream("minilm", "reviews"))
    rows = table("downstream", measurement)
    for row, result in zip(rows, measurement["results"], strict=True):
        assert words(row, 4)[2:] == (
            {"frozen": "frozen", "fine_tuned": "fine-tuned"}[result["method"]],
            {"intact": "with", "zero": "without"}[result["positions"]],
        )
        printed = estimates(row)[4:]
        for cell, key in zip(printed, ("accuracy", "accuracy_shuffled"), strict=False):
            assert f"{100 * result[key]['value']:.1f}" in cell


def test_rows_of_the_memory_networks_table_say_what_their_network_sees():
    measurement = distinct(made_up.memory_networks())
    rows = table("memory_networks", measurement)
    tasks = [entry["task"] for entry in measurement["tasks"]]
    by_words = {words(row, 3): row for row in rows}
    assert len(by_words) == len(rows)
    for cell in measurement["cells"]:
        if cell["network"] != "end_to_end":
            continue
        seen = "yes" if cell["positions"] else "no"
        (row,) = [
            row
            for (name, hops, order), row in by_words.items()
            if hops == str(cell["hops"]) and order == seen
        ]
        printed = estimates(row)[3 + tasks.index(cell["task"])]
        assert f"{100 * cell['error']['value']:.1f}" in printed


def test_columns_of_the_tokenizers_table_are_in_their_order():
    measurement = distinct(made_up.tokenizers(["english"]))
    rows = table("tokenizers", measurement)
    for row, entry in zip(rows, measurement["tokenizers"], strict=True):
        printed = estimates(row)[3:]
        expected_columns = [
            entry["vocabulary"], entry["fertility"]["per_byte"], entry["unknown"]["bytes"],
            entry["round_trip"], entry["bits_per_byte"]["total"]["value"],
            entry["bits_per_byte"]["spelling"]["value"],
            entry["bits_per_original_byte"]["total"]["value"],
        ]  # fmt: skip
        for cell, shown in zip(printed, expected_columns, strict=True):
            assert str(shown) in cell, (cell, shown)


def test_columns_of_the_scaling_table_are_raw_then_scaled():
    measurement = distinct(made_up.scaling())
    for row, entry in zip(table("scaling", measurement), measurement["dimensions"], strict=True):
        printed = estimates(row)
        values = [entry["d_k"]]
        for kind in ("raw", "scaled"):
            for key in ("variance", "largest", "frobenius"):
                value = entry[kind][key]
                values.append(value["value"] if isinstance(value, dict) else value)
        for cell, shown in zip(printed, values, strict=True):
            assert str(shown) in cell, (cell, shown)
