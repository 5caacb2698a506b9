"""What slides show of figures: the second page of a PDF, without words, large enough to be read."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest
from matplotlib.text import Text

from posenc.drawing import common
from posenc.drawing.section import Style
from posenc.figures.catalogue import DOCUMENTS, module_of
from posenc.measurements.position_heads.result import PositionScores

from . import synthetic_positions as positions
from .synthetic import PROJECT

STYLE = Style(font_size=8, palette=["#0072B2", "#D55E00", "#009E73", "#CC79A7"] * 2)
READABLE = 9.0
"""Points."""


def module(name):
    return importlib.import_module(module_of(name))


@pytest.mark.parametrize("name", DOCUMENTS["slides"]["figures"])
def test_slides_show_the_second_page_alone(name):
    text = (PROJECT / "paper/slides.tex").read_text(encoding="utf-8")
    assert f"\\slidefigure{{{name}}}" in text
    assert text.count(r"\includegraphics") == text.count(r"\includegraphics[page=2,") == 1
    assert hasattr(module(name), "for_slides")


@pytest.mark.parametrize("name", DOCUMENTS["slides"]["figures"])
def test_nothing_measured_leaves_no_word(name):
    figure = module(name).for_slides([], STYLE)
    assert not words(figure)


def test_patterns_are_those_of_versions_in_their_order():
    figure = module("mask_semantics").for_slides([], STYLE)
    first, *_, last = [axes.images[0].get_array() for axes in figure.axes]
    assert (first == last).all(), "a mask without a zero does nothing in the newest versions"
    alone = figure.axes[2].images[0].get_array()
    assert (alone == [[row == column for column in range(8)] for row in range(8)]).all()
    assert not words(figure)


def test_curves_of_one_layer_are_drawn_as_they_were_measured():
    measurement = positions.score_parts("decoder", "sample_reviews", True)
    figure = module("head_curves").for_slides([measurement], STYLE)
    heads = [head for head in measurement["heads"] if head["layer"] == measurement["n_layers"] // 2]
    curves = [np.asarray(line.get_ydata(), float) for line in figure.axes[0].get_lines()]
    for head, key in itertools.product(heads, ("measured", "closed_form")):
        own = np.array(head[key]["past"], float)
        assert any(np.array_equal(own, curve, equal_nan=True) for curve in curves)
    assert not words(figure)


def test_the_steepest_head_is_drawn():
    measurement = positions.position_heads("decoder", True)
    figure = module("position_heads").for_slides([measurement], STYLE)
    drawn = list(figure.axes[0].get_lines()[0].get_ydata())
    (head,) = PositionScores.of(measurement).steepest(1)
    curve = [value / head.deviation for value in head.distances.bias]
    assert drawn == pytest.approx(curve[: len(drawn)])
    assert not words(figure)


def words(figure):
    """Texts with letters, or too small to be read."""
    with common.styled(STYLE):
        figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_text().strip()]
    return [
        text.get_text()
        for text in texts
        if any(map(str.isalpha, text.get_text())) or text.get_fontsize() < READABLE
    ]


def test_a_second_page_is_written_and_is_the_same_each_time(tmp_path):
    draw = module("mask_semantics").for_slides
    for name in ("one.pdf", "two.pdf"):
        common.save(draw([], STYLE), [tmp_path / name], STYLE, draw([], STYLE))
    first, second = ((tmp_path / name).read_bytes() for name in ("one.pdf", "two.pdf"))
    assert first == second and b"/Count 2" in first
