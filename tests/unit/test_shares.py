"""The pages' pictures of recovered shares show the numbers of the records, under their labels."""

from __future__ import annotations

import importlib.util

import pytest

from .synthetic import PROJECT

SPEC = importlib.util.spec_from_file_location("shares", PROJECT / "docs/shares.py")
shares = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(shares)
AGAIN = "draw it again: python docs/shares.py"


@pytest.fixture(scope="module")
def records():
    return shares.comparison.all_recorded(PROJECT / shares.comparison.RECORDS)


@pytest.mark.parametrize("picture", shares.PICTURES)
def test_a_picture_was_drawn_of_what_is_recorded(picture, records):
    study, _ = shares.PICTURES[picture]
    listed = shares.listed(shares.IMAGES / f"{picture}.png")
    assert len(listed) > 20
    recorded = {key: records[study][f"{key}.conditions.recovered"]["value"] for key in listed}
    assert listed == recorded, AGAIN


@pytest.mark.parametrize("picture", shares.PICTURES)
def test_a_picture_has_labels_and_marks_where_the_record_has_values(picture, records):
    study, _ = shares.PICTURES[picture]
    canvas, style, given = shares.draw(picture, records[study])
    assert given == shares.listed(shares.IMAGES / f"{picture}.png"), AGAIN
    axes = canvas.axes[0]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    marks = [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if len(line.get_xdata()) == 1
    ]
    model, dataset = next(iter(given)).split(".")[:2]
    expected = {
        key.split(".")[2]: share
        for key, share in given.items()
        if key.startswith(f"{model}.{dataset}.")
    }
    assert not expected.keys() & set(rows), "each is called by its label"
    low, high = axes.get_xlim()
    drawn = [
        name for name in expected if style.labels[name] in rows and low < expected[name] < high
    ]
    assert len(drawn) > 10
    for name in drawn:
        row = rows.index(style.labels[name])
        assert any(share == expected[name] and abs(at - row) < 0.5 for share, at in marks), name


def test_a_heading_is_not_taken_for_the_condition_of_the_same_name(records):
    canvas, style, _ = shares.draw("rotary_rotary_masks", records["rotary"])
    rows = [label.get_text() for label in canvas.axes[0].get_yticklabels()]
    assert "fitted" in rows and style.labels["fitted"] not in rows
