"""Each column of a table that is built column by column is the number that its head says.

All numbers of a made-up measurement differ; the lists below say, by hand, what stands under
which head, with how many decimals, and where an interval is beside it.
"""

from __future__ import annotations

import itertools
import statistics
from typing import Any

import pytest

from posenc.artifacts.numbers import NotRun, Number
from posenc.report.records import Results
from posenc.report.tables import experiments, positions
from posenc.report.tables.positions import Columns

from . import synthetic_experiments, synthetic_positions
from .planted import at, distinct

RUN = {"model": "a_model", "dataset": "a_set", "condition": "intact"}
KEPT = {"layer", "head", "weight", "seed", "seeds", "hops", "confidence"}
BOTH = True
"""Whether the interval stands beside a number."""
JACOBIAN = (("Variance", "variance", 2), ("Largest", "largest", 3), ("Jacobian", "frobenius", 4))
# By table: what is planted, and by group and head the path of a number, from the measurement or
# from the part of it that a row is of.
LAYOUTS: dict[str, tuple[dict, list[str], list[tuple]]] = {
    "positions": (
        synthetic_positions.position_embeddings("a_model", "model"),
        ["Table"],
        [
            ("", "Rows", "shape.rows", 0), ("", "Width", "shape.d_model", 0),
            *(
                (title, head, f"regression.{path}", 2)
                for title, key in (
                    ("Mean absolute error of the position", "absolute"),
                    (r"Pairs mistaken, in \unit{\percent}", "relative"),
                )
                for head, path in (
                    ("Table", f"{key}.mean"), ("SD", f"{key}.sd"),
                    ("Random", f"control.{key}.mean"), ("SD", f"control.{key}.sd"),
                )
            ),
            *(
                (r"Variance in first, \unit{\percent}", head, f"percent.{part}.first_{number}", 1)
                for number in ("4", "12")
                for head, part in ((number, "table"), ("Random", "control"))
            ),
            ("Toeplitz share", "Table", "toeplitz_share.gram", 2),
            ("Toeplitz share", "Random", "geometry_control.toeplitz_share.gram", 2),
        ],
    ),
    "waves": (
        synthetic_positions.position_embeddings("a_model", "model"),
        ["Table"],
        [
            ("Median frequency", "Table", "median_frequency", 3),
            ("Median frequency", "Random", "geometry_control.median_frequency", 3),
            ("Correlation with waves", "Table", "components.correlation", 2),
            ("Correlation with waves", "Shuffled", "components.correlation_shuffled", 2, BOTH),
            # The largest is neither the first nor the last.
            ("One component, by waves", "Principal", "components.principal.1", 2),
            ("One component, by waves", "Independent", "components.independent_largest", 2),
            ("One component, by waves", "Shuffled", "components.explained_shuffled", 2),
            *(
                ("Last row", head, f"last_rows.{key}", decimals)
                for head, key, decimals in (
                    ("Norm", "norm", 2), ("Cosine", "cosine", 2), ("Others", "neighbours", 2),
                    ("Chance", "chance", 2), ("Untrained", "untouched", 0),
                )
            ),
        ],
    ),
    "position_heads": (
        synthetic_positions.position_heads("a_model", True),
        ["Weights"],
        [
            ("", "Heads", "of_heads.count", 0),
            *(
                ("Share that a mask by distance explains", head, path, 2)
                for head, path in (
                    ("Median", "of_heads.median"), ("Least", "of_heads.least"),
                    ("Most", "of_heads.most"), ("Shuffled", "near.nulls.shuffled.distance_share"),
                    ("Gaussian", "near.nulls.gaussian.distance_share"),
                )
            ),
            ("Heads that look near", "Table", "near.heads", 0),
            ("Heads that look near", "Shuffled", "near.nulls.shuffled.heads", 1),
            ("Heads that look near", "Gaussian", "near.nulls.gaussian.heads", 1),
            ("Nearest head of layer 0", "Table", "heads.2.profile.mean_offset", 2),
            ("Nearest head of layer 0", "Shuffled", "near.nulls.shuffled.nearest", 2),
            ("Nearest head of layer 0", "Gaussian", "near.nulls.gaussian.nearest", 2),
            *(
                ("Leading pair of waves", head, f"waves.{path}", decimals)
                for head, path, decimals in (
                    ("Period", "period", 1), ("Lag", "lag", 1), ("Share", "share", 2),
                    ("Shuffled", "nulls.shuffled", 2), ("Gaussian", "nulls.gaussian", 2),
                )
            ),
        ],
    ),
    "probes": (
        synthetic_positions.probes(RUN, True),
        ["Model", "Data set", "Condition"],
        [
            ("", "Chance", "chance.position", 1),
            *(
                (title, head, f"layers.{place}.{path}", decimals, with_interval and head == "Best")
                for title, path, decimals, with_interval in (
                    ("Mean error, linear", "position.ridge", 2, BOTH),
                    ("One hidden layer", "position.relu", 2, not BOTH),
                    ("Order mistaken, linear", "order.logistic", 3, not BOTH),
                )
                for head, place in (("Embedding", 0), ("Best", 2), ("Last", -1))
            ),
        ],
    ),
    "scaling": (
        synthetic_experiments.scaling(),
        [],
        [
            ("", "$d_k$", "dimensions.ROW.d_k", 0),
            *(
                (title, head, f"dimensions.ROW.{kind}.{key}", decimals)
                for title, kind in (("Raw", "raw"), ("Scaled", "scaled"))
                for head, key, decimals in JACOBIAN
            ),
        ],
    ),
    "readback": (
        synthetic_positions.readback("a_model"),
        ["Model"],
        [
            ("", "Noise", "before.ROW.noise", 1),
            *(
                (title, head, f"{place}.ROW.joint.{what}", 3, what == "both")
                for title, place in (("Sum", "before"), ("Sum after layer normalisation", "after"))
                for head, what in (("Both", "both"), ("Token", "token"), ("Position", "position"))
            ),
            ("Each by itself", "Token", "before.ROW.alone.token", 3),
            ("Each by itself", "Position", "before.ROW.alone.position", 3),
        ],
    ),
    "downstream": (
        synthetic_experiments.downstream("a_model", "a_set"),
        ["Model", "Task", "Encoder", "Positions"],
        [
            (r"\unit{\percent} of the test documents", "Accuracy", "results.ROW.accuracy", 1, BOTH),
            (r"\unit{\percent} of the test documents", "Shuffled",
             "results.ROW.accuracy_shuffled", 1),
            ("To the order of words", "Sensitivity", "results.ROW.order_sensitivity", 2, BOTH),
        ],
    ),
    "tokenizers": (
        synthetic_experiments.tokenizers(["a_set"]),
        ["Data set", "Form", "Tokenizer"],
        [
            ("", "Vocabulary", "tokenizers.ROW.vocabulary", 0),
            ("", "Tokens a byte", "tokenizers.ROW.fertility.per_byte", 3),
            ("", "Unknown bytes", "tokenizers.ROW.unknown.bytes", 3),
            ("", "Round trips", "tokenizers.ROW.round_trip", 2),
            ("Bits a byte", "All", "tokenizers.ROW.bits_per_byte.total", 3, BOTH),
            ("Bits a byte", "Spelling", "tokenizers.ROW.bits_per_byte.spelling", 3),
            ("Bits a byte", "Original", "tokenizers.ROW.bits_per_original_byte.total", 3),
        ],
    ),
    "pretraining": (
        synthetic_experiments.pretraining("a_set"),
        ["Network", "Pre-trained", "Auxiliary loss"],
        [("", r"Accuracy (\unit{\percent})", "cells.ROW.accuracy", 1, BOTH)],
    ),
}  # fmt: skip
NARROW = ("probes", "readback", "waves", "position_heads")
IN_PERCENT = ("accuracy", "accuracy_shuffled")


def narrow(value: Any) -> Any:
    """A copy whose intervals ask for more decimals than any column has."""
    if isinstance(value, dict) and {"mean", "least", "most"} <= value.keys():
        return {**value, "least": value["mean"] - 0.0002, "most": value["mean"] + 0.0001}
    if isinstance(value, dict) and {"value", "low", "high"} <= value.keys():
        return {**value, "low": value["value"] - 0.0002, "high": value["value"] + 0.0001}
    if isinstance(value, dict):
        return {key: narrow(part) for key, part in value.items()}
    return [*map(narrow, value)] if isinstance(value, list) else value


def planted(kind: str) -> dict:
    measurement = distinct(LAYOUTS[kind][0], kept=KEPT)
    measurement = narrow(measurement) if kind in NARROW else measurement
    if kind == "positions":
        measurement["shape"] |= {"rows": 512, "d_model": 64}
    if kind == "waves":
        measurement["components"]["principal"][1] = 1001.5
        measurement["last_rows"]["untouched"] = 17
    if kind == "position_heads":
        measurement["near"]["heads"] = 1003
        measurement["heads"][2]["profile"]["mean_offset"] = -0.25
    for key, name in (("tokenizers", "vocabulary"), ("dimensions", "d_k")):
        for place, entry in enumerate(measurement.get(key, ())):
            entry[name] = 900 + 17 * place
    if kind == "probes":
        measurement["layers"][2]["position"]["ridge"] = {"value": 0.25, "low": 0.125, "high": 0.375}
    return measurement


def with_derived(kind: str, measurement: dict) -> dict:
    """A measurement beside what its table computes of it."""
    if kind == "positions":
        parts = {"table": measurement, "control": measurement["geometry_control"]}
        percent = {
            name: {key: 100 * part["pca"][key] for key in ("first_4", "first_12")}
            for name, part in parts.items()
        }
        return {**measurement, "percent": percent}
    if kind == "position_heads":
        shares = [head["distance_share"] for head in measurement["heads"]]
        of_heads = {
            "count": len(shares), "median": statistics.median(shares), "least": min(shares),
            "most": max(shares),
        }  # fmt: skip
        return {**measurement, "of_heads": of_heads}
    return measurement


STUDY: dict[str, Any] = {"matrices": {}, "measurements": {}, "measured": []}


def made_table(
    kind: str, *measurements: dict, study: dict = STUDY, published: dict | None = None
) -> dict[str, Any]:
    tables = {**positions.TABLES, **experiments.TABLES}
    return tables[kind](Results(study, measurements, [], {"values": published or {}}, {}))


def cells(measurement: dict, path: str, decimals: int, with_interval: bool = False) -> list[str]:
    """What is printed of a number, and beside it."""
    value = at(measurement, path)
    factor = 100 if path.rpartition(".")[2] in IN_PERCENT else 1
    if not isinstance(value, dict):
        return [f"{factor * value:.{decimals}f}"]
    if value.get("status", "measured") != "measured":
        return ["{--}", "--"]
    parts = ("mean", "least", "most") if "mean" in value else ("value", "low", "high")
    number, low, high = (f"{factor * value[key]:.{decimals}f}" for key in parts)
    return [number, rf"[\num{{{low}}},~\num{{{high}}}]"] if with_interval else [number]


@pytest.mark.parametrize("kind", LAYOUTS)
def test_columns_stand_under_their_heads(kind):
    measurement, (_, words, columns) = planted(kind), LAYOUTS[kind]
    table = made_table(kind, measurement)
    heads, groups = list(words), [""] * len(words)
    for group, head, *rest in columns:
        with_interval = len(rest) == 3 and rest[2]
        heads += [f"{{{head}}}", "Interval"] if with_interval else [f"{{{head}}}"]
        groups += [group] * (2 if with_interval else 1)
    assert table["heads"] == heads
    spanned = [group["title"] for group in table["groups"] for _ in range(group["count"])]
    assert spanned == groups
    starts = [group["from"] for group in table["groups"]]
    assert starts == [1, *(group["to"] + 1 for group in table["groups"][:-1])]
    assert table["groups"][-1]["to"] == len(heads)
    shown = with_derived(kind, measurement)
    for row, line in enumerate(table["rows"]):
        printed = [
            cell
            for _, _, path, *rest in columns
            for cell in cells(shown, path.replace("ROW", str(row)), *rest)
        ]
        assert line[len(words) :] == printed
    texts = itertools.count()
    for form, column in zip(table["formats"], zip(*table["rows"], strict=True), strict=True):
        if form == "l":
            next(texts)
            continue
        parts = [cell.split(".") for cell in column if cell != "{--}"]
        widest = [
            max(len(part[place].strip("-")) if len(part) > place else 0 for part in parts)
            for place in (0, 1)
        ]
        sign = "-" if any(cell.startswith("-") for cell in column) else ""
        assert form == f"S[table-format={sign}{widest[0]}.{widest[1]}]"
    assert next(texts) == heads.count("Interval") + len(words)


def test_what_was_published_of_a_table_stands_under_the_head_of_its_quantity():
    # By column what is published there; the others have nothing.
    columns = {
        3: "mae", 4: "mae_sd", 5: "mae_control", 6: "mae_sd_control", 7: "order_error",
        8: "order_error_sd", 9: "order_error_control", 10: "order_error_sd_control",
        11: "first_4", 12: "first_4_control", 13: "first_12", 14: "first_12_control",
        15: "toeplitz", 16: "toeplitz_control",
    }  # fmt: skip
    values = {
        f"{place}.{name}": {
            "model": model,
            "table": "positions",
            "ours": [f"own.positions.{name}", "another.one"],
        }
        for place, model in (("a", "B&B"), ("c", "C_2"))
        for name in columns.values()
        if (place, name) != ("c", "mae")
    }
    others = {"model": "D", "ours": ["own.positions.mae"]}
    values |= {"d": others, "e": {**others, "table": "experiments"}}
    ours, *theirs = made_table("positions", planted("positions"), published=values)["rows"]
    assert ours == made_table("positions", planted("positions"))["rows"][0]
    assert len(theirs) == 2
    for row, (place, name) in zip(theirs, (("a", r"B\&B"), ("c", r"C\_2")), strict=True):
        assert row[:3] == [rf"{name}, \word{{published}}", "{--}", "{--}"]
        for column, quantity in columns.items():
            is_there = (place, quantity) != ("c", "mae")
            cell = rf"{{\published{{{place}.{quantity}}}}}" if is_there else "{--}"
            assert row[column] == cell
        assert len(row) == 17


def test_heads_that_were_not_measured_and_parts_of_checkpoints_say_why():
    measurement = planted("position_heads")
    lacking = {**measurement, "status": "not run", "reason": "50 % known", "subject": "a_table"}
    table = made_table("position_heads", lacking, measurement)
    assert [row[0] for row in table["rows"]] == ["a model"]
    assert table["others"] == [["a table", r"50 \% known"]]
    facts = {"of": ["model"]}
    study = {
        "matrices": {"a_part": {"n_heads": 12}, "a_table": {"n_heads": None}, "sinusoid": {}},
        "measurements": {
            "readback": facts, "probes": {"of": ["model", "dataset"]}, "heads": facts,
            "norms": {"of": ["dataset"]}, "position_heads": {**facts, "of_matrices": True},
        },
        "measured": ["readback", "probes", "position_heads"],
    }  # fmt: skip
    for kind, why in (("readback", "token embeddings"), ("probes", "a model that runs")):
        assert made_table(kind, planted(kind), study=study)["others"] == [
            ["a part", f"needs {why}"]
        ]
    joined = synthetic_positions.lags({"a_model": False}, ["a_set"])
    of_all = {**study, "measured": [*study["measured"], "heads"]}
    for has, others in ((study, []), (of_all, [["a part", "needs a model that runs"]])):
        assert made_table("heads", planted_heads(), joined, study=has)["others"] == others


def test_rows_of_a_table_are_of_all_measurements_and_say_which():
    first, second = planted("readback"), planted("readback")
    second["run"]["model"] = "b_model"
    lacking = {**second, "status": "not run", "reason": "50 % known", "run": {"model": "c_model"}}
    table = made_table("readback", first, lacking, second, lacking)
    assert [row[0] for row in table["rows"]] == ["a model"] * 6 + ["b model"] * 6
    assert table["others"] == [["c model", r"50 \% known"]], "each reason once"
    scheme = {**synthetic_positions.probes({**RUN, "model": "b_model"}, True, "rotary")}
    table = made_table("probes", scheme, planted("probes"))
    assert [row[:3] for row in table["rows"]] == [
        ["a model", "a set", "intact"],
        ["b model", "a set", "intact"],
    ]


def test_heads_that_look_most_at_a_place_are_named():
    measurement = planted_heads()
    joined = synthetic_positions.lags({"a_model": False}, ["a_set"])
    comparison = joined["comparisons"][0]
    comparison["results"] = narrow(distinct(comparison["results"]))
    joined["comparisons"].insert(0, {**comparison, "run": {**comparison["run"], "models": ["b"]}})
    table = made_table(
        "heads", measurement, {**measurement, "run": {**RUN, "condition": "zero"}}, joined
    )
    (row,) = table["rows"]
    expected = ["a model", "a set"]
    for name in ("previous", "next", "self", "first"):
        place = measurement["strongest"][name]
        expected += [f"{place['value']:.3f}", f"{place['layer']}.{place['head']}"]
    for key in ("profile_mean", "peak"):
        correlation = comparison["results"][key]["over_layers"]["spearman"]
        expected += cells({"x": correlation}, "x", 2, BOTH)
    for key in ("share", "chance"):
        expected += cells(comparison["results"]["peak"]["agreement"], key, 2)
    assert row == expected
    assert table["heads"][2:10:2] == ["{Previous}", "{Next}", "{Self}", "{First}"]
    assert table["heads"][3:10:2] == ["Head"] * 4
    assert table["heads"][10:] == ["{Mean}", "Interval", "{Peak}", "Interval", "{Same}", "{Chance}"]
    titles = [(group["title"], group["count"]) for group in table["groups"]]
    assert titles == [
        ("", 2),
        ("Largest mean mass on one place", 8),
        ("Offset: predicted against found", 6),
    ]
    causal = made_table("heads", {**measurement, "is_causal": True}, joined)["rows"][0]
    assert causal[4:6] == ["{--}", "--"] and causal[6:] == row[6:]


def planted_heads() -> dict:
    measurement = distinct(synthetic_positions.heads(RUN, False), kept=KEPT)
    for place, name in enumerate(("previous", "self", "next", "first")):
        measurement["strongest"][name] |= {"layer": place, "head": 10 + place}
    return measurement


def test_errors_of_memory_networks_are_by_task_in_the_row_of_their_network():
    measurement = distinct(synthetic_experiments.memory_networks(), kept=KEPT)
    table = made_table("memory_networks", measurement)
    tasks = [entry["task"] for entry in measurement["tasks"]]
    assert table["heads"][:3] == ["Network", "Hops", "Word order"]
    assert table["heads"][3:] == [
        head for task in tasks for head in (f"{{{task.replace('_', ' ')}}}", "Interval")
    ]
    assert [group["title"] for group in table["groups"]] == ["", r"Error, \unit{\percent}"]
    seen = {True: "yes", False: "no", None: "--"}
    rows = {tuple(row[:3]): row[3:] for row in table["rows"]}
    assert len(rows) == len(table["rows"])
    for row, printed in rows.items():
        expected: list[str] = []
        for task in tasks:
            errors = [
                cell["error"]
                for cell in measurement["cells"]
                if cell["task"] == task
                and (
                    cell["network"].replace("_", " "),
                    str(cell["hops"] or "--"),
                    seen[cell["positions"]],
                )
                == row
            ]
            expected += cells({"accuracy": errors[0]}, "accuracy", 1, BOTH) if errors else ABSENT
        assert printed == expected


ABSENT = ["{--}", "--"]


@pytest.mark.parametrize("kind", ["downstream", "tokenizers", "pretraining", "scaling"])
def test_an_experiment_that_was_not_run_says_so(kind):
    lacking = {"measurement": kind, "run": {}, "status": "not run", "reason": "no weights_of it"}
    table = made_table(kind, lacking)
    assert table["rows"] == []
    assert table["others"] == [[kind, r"no weights\_of it"]]
    if kind == "downstream":
        none = made_table(kind)["others"]
        assert none == [[kind, "no such measurement in this study"]]


def test_words_of_a_row_are_those_of_its_entry():
    measurement = planted("downstream")
    for row, entry in zip(
        made_table("downstream", measurement)["rows"], measurement["results"], strict=True
    ):
        method = {"frozen": "frozen", "fine_tuned": "fine-tuned"}[entry["method"]]
        positions_ = {"intact": "with", "zero": "without"}[entry["positions"]]
        assert row[:4] == ["a model", entry["task"].replace("_", " "), method, positions_]
    measurement = planted("tokenizers")
    kinds = {"bpe": "BPE", "unigram": "Unigram", "character": "characters", "whitespace": "words"}
    for row, entry in zip(
        made_table("tokenizers", measurement)["rows"], measurement["tokenizers"], strict=True
    ):
        assert row[:3] == ["a set", entry["normalization"], kinds[entry["kind"]]]


def test_a_column_has_the_numbers_and_their_intervals_in_rows():
    table = Columns()
    table.words("Name", ["a", "b"])
    table.group("", 0)
    table.numbers("N", [Number(1.5, 1.0, 2.0), NotRun("none")], 2, True)
    table.group("All", 1)
    result = table.made([("a_name", "50 %")])
    assert result["rows"] == [["a", "1.50", r"[\num{1.00},~\num{2.00}]"], ["b", "{--}", "--"]]
    assert result["formats"] == ["l", "S[table-format=1.2]", "l"]
    assert result["heads"] == ["Name", "{N}", "Interval"] and result["template"] == "columns"
    assert result["groups"] == [
        {"title": "", "count": 1, "from": 1, "to": 1},
        {"title": "All", "count": 2, "from": 2, "to": 3},
    ]
    assert result["others"] == [["a name", r"50 \%"]]
