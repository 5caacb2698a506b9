"""What a figure's SVG says it shows is what was drawn."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from posenc.drawing import common, svg, values
from posenc.report import page_pictures

from .synthetic import params_of

STYLE = params_of().figures.style


def panel(**limits) -> tuple[Canvas, object]:
    """Axes from 20 to 80 % of 200 by 100 points, 0 to 10 both ways."""
    figure = Canvas(figsize=(200 / 72, 100 / 72))
    axes = figure.add_axes((0.2, 0.2, 0.6, 0.6))
    axes.set(xlim=(0, 10), ylim=(0, 10), xlabel="depth", ylabel="loss", title="one\nmodel")
    axes.set(**limits)
    return figure, axes


def shown(figure: Canvas) -> dict:
    """What its SVG holds."""
    with common.styled(STYLE):
        text = svg.written(figure, 100)
    metadata = ElementTree.fromstring(text).find("{*}metadata").text
    return json.loads(metadata, parse_float=str, parse_int=str)


def test_a_line_has_its_label_its_values_and_the_interval_of_its_own_band():
    figure, axes = panel()
    # Another band of this colour also holds some of the points.
    axes.fill_between([0, 5, 10], [2.4, 2.4, 2.4], [2.6, 2.6, 2.6], color="C0", alpha=0.2)
    axes.plot([0, 5, 10], [1, 2.5, 9], color="C0", label="ours")
    axes.fill_between([0, 5, 10], [0.5, 2, 8], [2, 3, 9.5], color="C0", alpha=0.2)
    content = shown(figure)
    assert content["panels"] == [["one model", "depth", "loss", ""]]
    ((number, name, points),) = content["series"]
    assert (number, name) == ("0", "ours")
    # 20 % of 200 points from the left; 20 % and a tenth of 60 % of 100 from below.
    assert points[0] == ["400", "740", "0", "1", "1", "0.5", "2"]
    assert points[1] == ["1000", "650", "5", "2.5", "1", "2", "3"]
    assert points[2][2:] == ["10", "9", "1", "8", "9.5"]


def test_places_in_a_part_of_a_figure_are_those_of_the_whole():
    figure = Canvas(figsize=(200 / 72, 100 / 72))
    lower = figure.subfigures(2, 1)[1]
    axes = lower.add_axes((0.2, 0.2, 0.6, 0.6))
    axes.set(xlim=(0, 10), ylim=(0, 10))
    axes.plot([5], [5], marker="o", label="ours")
    ((_, name, points),) = shown(figure)["series"]
    # The middle of the lower half: 75 of 100 points from above.
    assert name == "ours" and points[0][:2] == ["1000", "750"]


def test_intervals_across_error_bars_and_segments_are_those_of_their_points():
    figure, axes = panel(yticks=[2, 4], yticklabels=["first", "second"])
    axes.plot([1, 3], [2, 2], color="C1")
    axes.plot([2], [2], color="C1", marker="o", ls="none")
    axes.errorbar([6], [4], xerr=[[1], [2]], color="C2", marker="s", label="with bars")
    axes.plot([4, 12], [8, 8], color="C3")
    axes.plot([5], [8], color="C3", marker="o", label="cut off")
    series = {name: points[0][2:] for _, name, points in shown(figure)["series"]}
    assert series[""] == ["2", "first", "0", "1", "3"]
    assert series["with bars"] == ["6", "second", "0", "5", "8"]
    assert series["cut off"][2:] == ["0", "4", "…"]


def test_bars_points_and_steps_have_values_and_legends_give_names():
    figure, axes = panel()
    axes.bar([1, 3], [4, 7], color="C0", label="bars")
    axes.scatter([2.5], [6.25], color="C1")
    axes.stairs([1, 0, 3], [5, 6, 6.5, 8], color="C2", label="steps")
    axes.axhline(0.5, color="0.5", label="chance")
    axes.axhline(0.7, color="0.5")
    axes.plot([10], [9], color="C4", marker=">", clip_on=False, label="beyond")
    axes.legend(handles=[Line2D([], [], color="C1", marker="o", ls="none", label="points")])
    series = {name: [p[2:4] for p in points] for _, name, points in shown(figure)["series"]}
    assert series == {
        "bars": [["1", "4"], ["3", "7"]],
        "points": [["2.5", "6.25"]],
        "steps": [["5.5", "1"], ["7.25", "3"]],
        "chance": [["", "0.5"]],
        "beyond": [["> 10", "9"]],
    }


def test_cells_of_a_small_heat_map_have_values_and_lines_of_many_points_are_a_picture():
    figure, axes = panel()
    image = axes.imshow([[1.0, 2.0], [3.0, np.nan]], extent=(0, 10, 10, 0))
    figure.colorbar(image, label="weight", ax=axes)
    content = shown(figure)
    assert [entry[3] for entry in content["panels"]] == ["weight"]
    ((_, _, cells),) = content["series"]
    assert [cell[2:] for cell in cells] == [
        ["2.5", "2.5", "2", "1"],
        ["7.5", "2.5", "2", "2"],
        ["2.5", "7.5", "2", "3"],
    ]
    figure, axes = panel()
    axes.plot(np.linspace(0, 10, values.MOST_POINTS + 1), np.full(values.MOST_POINTS + 1, 5))
    assert shown(figure)["series"] == []
    root = ElementTree.fromstring(svg.written(figure, 100))
    assert root.get("class") == "dense" and root.find(".//{*}image") is not None


def test_text_is_text_and_stands_right_in_any_font():
    figure, _ = panel()
    root = ElementTree.fromstring(svg.written(figure, 100))
    texts = {text.text: text for text in root.findall(".//{*}text")}
    assert {"depth", "loss", "one", "model", "10"} <= texts.keys()
    # The middle of the panel's width, for each line of the title by itself.
    for line in ("one", "model"):
        assert "text-anchor:middle" in texts[line].get("style")
        assert float(texts[line].get("x")) == pytest.approx(100, abs=0.6)


def test_figures_have_the_same_bytes_and_names_of_their_own_on_a_page():
    def made() -> str:
        figure, axes = panel()
        axes.plot(range(10), range(10), marker="o")
        with common.styled(STYLE):
            return svg.written(figure, 100)

    text = made()
    assert text == made()
    both = page_pictures.Pictures()
    bodies = [both.picture(text, "alike")["svg"] for _ in range(2)]
    names = [name for body in bodies for name in re.findall(r' id="(\w+)"', body)]
    assert len(names) == len(set(names)) >= 4
    for body in bodies:
        used = set(re.findall(r'href="#(\w+)"|url\(#(\w+)\)', body))
        assert {a or b for a, b in used} == set(re.findall(r' id="(\w+)"', body))
        assert "style=" not in body and "xmlns" not in body


def test_colours_stand_out_on_dark_paper_and_ink_follows_the_page():
    css = (Path(page_pictures.__file__).parent / "templates/page.css").read_text("utf-8")
    assert f"--paper: {page_pictures.DARK_PAPER};" in css
    for colour in (*STYLE.palette, "#440154", "#053061"):
        lighter = page_pictures.on_dark(colour)
        assert page_pictures.contrast(lighter, page_pictures.DARK_PAPER) >= page_pictures.CONTRAST
    # W3C's examples: black on white, and #777777 on white just below AA.
    assert page_pictures.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert page_pictures.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert page_pictures.themed("#000000") == "var(--ink)"
    assert page_pictures.themed("#ffffff") == "var(--paper)"
    assert page_pictures.themed("#0072b2") == "#0072b2"
    assert page_pictures.themed("#440154").startswith("light-dark(#440154,")


def test_marks_of_many_sizes_are_circles_where_they_were_and_an_ellipse_is_none():
    figure, axes = panel()
    axes.add_patch(Ellipse((5, 5), 4, 4))  # in these axes twice as wide as high
    axes.scatter([0, 5, 10], [0, 2.5, 10], s=[1, 16, 81])  # the squares of their diameters
    drawn = ElementTree.fromstring(svg.written(figure, 100))
    circles = [
        tuple(float(circle.get(name)) for name in ("cx", "cy", "r"))
        for circle in drawn.findall(".//{*}circle")
    ]
    # 20 % of 200 points from the left; 80 % of 100 from above, less a tenth of 60.
    assert circles == [(40, 80, 0.5), (100, 65, 2), (160, 20, 4.5)]
    curved = [path for path in drawn.findall(".//{*}path") if "C" in path.get("d")]
    assert len(curved) == 1
