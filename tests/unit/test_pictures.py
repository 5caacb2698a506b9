"""The pages' pictures that are drawn from records show their numbers, under their labels."""

from __future__ import annotations

import importlib.util

import pytest

from .synthetic import PROJECT

SPEC = importlib.util.spec_from_file_location("pictures", PROJECT / "docs/pictures.py")
pictures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pictures)
AGAIN = "draw it again: python docs/pictures.py"


@pytest.fixture(scope="module")
def records():
    return pictures.comparison.all_recorded(PROJECT / pictures.comparison.RECORDS)


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_was_drawn_of_what_is_recorded(name, records):
    listed = pictures.listed(pictures.IMAGES / f"{name}.png")
    assert len(listed) >= 18
    numbers = records[pictures.PICTURES[name].study]
    assert listed == {key: numbers[key]["value"] for key in listed}, AGAIN


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_has_labels_and_marks_where_the_record_has_values(name, records):
    picture = pictures.PICTURES[name]
    numbers = records[picture.study]
    canvas, style, given = pictures.draw(picture, numbers)
    assert given == pictures.listed(pictures.IMAGES / f"{name}.png"), AGAIN
    axes = canvas.axes[0]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    marks = [
        (x, y)
        for line in axes.lines
        if line.get_marker() not in ("", "None", None)
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]
    params = pictures.schema.load(PROJECT / "params.yaml", {"study": picture.study})
    (model, dataset), *_ = dict.fromkeys(tuple(key.split(".")[:2]) for key in given)
    expected = {
        condition: numbers[key]["value"]
        for condition in params.conditions
        for key in [pictures.key_of(picture, (model, dataset, condition), picture.quantities[0])]
        if key in given
    }
    unlabelled = {condition for condition in expected if style.labels[condition] != condition}
    assert not unlabelled & set(rows), "each is called by its label"
    low, high = axes.get_xlim()
    drawn = [
        condition
        for condition, value in expected.items()
        if style.labels[condition] in rows and low < value < high
    ]
    assert len(drawn) >= 8
    for condition in drawn:
        row = rows.index(style.labels[condition])
        assert any(x == expected[condition] and abs(y - row) < 0.5 for x, y in marks), condition


def test_a_heading_is_not_taken_for_the_condition_of_the_same_name(records):
    canvas, style, _ = pictures.draw(pictures.PICTURES["rotary_rotary_masks"], records["rotary"])
    rows = [label.get_text() for label in canvas.axes[0].get_yticklabels()]
    assert "fitted" in rows and style.labels["fitted"] not in rows
