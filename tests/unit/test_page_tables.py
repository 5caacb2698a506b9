"""The page's tables pack into few bytes, from which every cell comes back."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc.artifacts.numbers import NotRun, Number
from posenc.report.page_tables import TEXTS, VALUES, embedded_json, packed, table
from posenc.report.records import Place


def unpacked(data: dict) -> dict[str, list[dict]]:
    """Rows by table, as a browser reads them: written from what the docstring says of the data."""
    texts = data["texts"]
    columns = {**data["columns"], "run": list(itertools.accumulate(data["columns"]["run"]))}
    names = {
        "run": ["model", "data_set", "condition", "measurement", "file"],
        "what": ["quantity", "label", "reason"],
    }
    rows = []
    for at in range(len(columns["run"])):
        row = {name: columns[name][at] for name in ("value", "low", "high")}
        row |= {n: texts[columns[n][at]] for n in ("shown", "shown_low", "shown_high")}
        for group, members in names.items():
            cells = data["groups"][group][columns[group][at]]
            row |= dict(zip(members, (texts[index] for index in cells), strict=True))
        rows.append(row)
    return {
        name: [rows[at] for at in itertools.accumulate(steps)]
        for name, steps in data["tables"].items()
    }


texts = st.sampled_from(["", "a", "b", "</script>", "日本語", "a|b", "1.0"])
values = st.none() | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False)
rows = st.fixed_dictionaries(
    {**dict.fromkeys(TEXTS, texts), **dict.fromkeys(VALUES, values)}  # many are alike
)


@given(st.dictionaries(st.sampled_from(["loss", "heads", "further"]), st.lists(rows, max_size=6)))
def test_every_cell_comes_back_from_the_text_of_the_page(tables):
    assert unpacked(json.loads(embedded_json(packed(tables)))) == tables


def test_a_row_and_a_text_are_held_once():
    places = [Place("gpt2", "imdb", "zero", "lags", f"lag.{n}", ("f.json",)) for n in range(3)]
    table_rows = table({place: Number(2.5, 2.0, 3.0) for place in places}, ".")
    result = packed({"first": table_rows, "second": table_rows[1:]})
    assert result["tables"] == {"first": [0, 1, 1], "second": [1, 1]}
    assert len(result["texts"]) == len(set(result["texts"]))
    assert len(result["groups"]["run"]) == 1 and len(result["groups"]["what"]) == 3


def test_all_digits_are_held_beside_those_that_are_shown():
    value = 0.1 + 0.2  # 17 digits
    (row,) = table({Place("m", "d", "c", "k", "q", ("data/f.json",)): Number(value)}, "data")
    assert (row["value"], row["low"], row["high"]) == (value, None, None)
    assert row["shown_low"] == row["shown_high"] == row["reason"] == ""
    assert float(row["shown"]) == pytest.approx(value, abs=0.05) and len(row["shown"]) < 8
    assert repr(value) in embedded_json(packed({"t": [row]}))
    assert row["file"] == "f.json"


def test_a_row_that_was_not_run_has_one_line_a_reason():
    places = {Place("m", "d", "c", "k", f"q{index}"): NotRun("no head") for index in range(3)}
    (line,) = table(places, ".")
    assert (line["label"], line["quantity"], line["reason"]) == ("k · 3 quantities", "*", "no head")
    assert line["value"] is None and line["shown"] == ""


def test_nothing_in_the_data_ends_its_element():
    assert "<" not in embedded_json(["</script>"])
    assert json.loads(embedded_json(["</script>"])) == ["</script>"]
    with pytest.raises(ValueError, match="Out of range"):
        embedded_json([float("nan")])
