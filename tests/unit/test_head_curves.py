"""Figures of the mask in closed form: each line is a measured curve or share, readably."""

from __future__ import annotations

import numpy as np
import pytest

from posenc.config.labels import display
from posenc.drawing.command import read_measurements
from posenc.figures import head_curves
from posenc.measurements.score_parts import figure as score_parts
from posenc.measurements.score_parts.result import Decomposition, LayerTerms

from . import synthetic
from .test_figures import SECTIONS, STYLE, check_texts, lines


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> list[dict]:
    written = synthetic.write_inputs(tmp_path_factory.mktemp("study"))
    return read_measurements(written["score_parts"])


def deep(measurement: dict, layers: int) -> dict:
    """A measurement of so many layers, each like the first."""
    first = [head for head in measurement["heads"] if head["layer"] == 0]
    heads = [{**head, "layer": layer} for layer in range(layers) for head in first]
    r2 = {**measurement["r2"], "layers": [measurement["r2"]["layers"][0]] * layers}
    return {**measurement, "n_layers": layers, "heads": heads, "r2": r2}


def test_lines_are_the_curves_of_all_heads(measured):
    figure = head_curves.draw(measured, SECTIONS.head_curves, STYLE)
    # On the first data set.
    of_models = {measurement["run"]["model"]: measurement for measurement in measured[::2]}
    heads = [head for model in of_models for head in of_models[model]["heads"]]
    for label, key in ((head_curves.MEASURED, "measured"), (head_curves.CLOSED, "closed_form")):
        drawn = lines(figure, label)
        assert len(drawn) == len(heads) == 6 * 12 + 2 * 4 * 4
        for line, head in zip(drawn, heads, strict=True):
            curve = dict(zip(line.get_xdata().tolist(), line.get_ydata().tolist(), strict=True))
            for distance, value in enumerate(head[key]["past"][:-1]):
                assert curve[distance] == value
            for distance, value in enumerate(head[key].get("future", [])[1:], start=1):
                assert curve[-distance] == value
            assert np.isnan(curve[63])  # only the first key is so far away


def test_medians_stand_over_the_panels(measured):
    figure = head_curves.draw(measured, SECTIONS.head_curves, STYLE)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles[:2] == ["layer 0, 0.97", "layer 1, 0.96"] and len(titles) == 6 + 4 + 4


@pytest.mark.parametrize("depths", [(4,), (6, 4, 4, 4, 30), (6, 12, 12, 30)])
def test_deep_models_are_readable(measured, depths):
    models = []
    for place, layers in enumerate(depths):
        measurement = deep(measured[-1], layers)
        models.append(
            {**measurement, "run": {"model": f"model_{place}", "dataset": "sample_reviews"}}
        )
    figure = head_curves.draw(models, SECTIONS.head_curves, STYLE)
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert len(panels) == sum(depths)
    assert figure.get_figheight() <= SECTIONS.head_curves.height
    check_texts(figure)


def test_heads_to_which_position_adds_nothing_have_no_r2(measured):
    measurement = deep(measured[-1], 2)
    measurement["r2"] = {**measurement["r2"], "median": None, "layers": [None, None]}
    figure = head_curves.draw([measurement], SECTIONS.head_curves, STYLE)
    assert [axes.get_title() for axes in figure.axes[:2]] == ["layer 0", "layer 1"]


def test_points_are_the_shares_over_all_pairs(measured):
    for measurement in measured:
        for entry in measurement["shares"]:  # which of the four is drawn
            if (entry["weights"], entry["within_query"]) != ("pairs", False):
                entry["layers"] = []
    figure = score_parts.draw(measured, SECTIONS.score_parts, STYLE)
    shown = [
        measurement for measurement in measured if measurement["run"]["dataset"] == "sample_reviews"
    ]
    assert [axes.get_title() for axes in figure.axes] == [
        *map(display, ("minilm", "decoder", "smollm2"))
    ]
    for name, label in score_parts.SERIES.items():
        for measurement, line in zip(shown, lines(figure, label), strict=True):
            rows = score_parts.of_layers(Decomposition.of(measurement))
            assert list(line.get_ydata()) == [getattr(row, name).value for row in rows]
    for measurement, line in zip(shown, lines(figure, score_parts.COVARIANCES), strict=True):
        rows = score_parts.of_layers(Decomposition.of(measurement))
        pairs = [name for name in LayerTerms.model_fields if "_" in name]
        sums = [sum(getattr(row, name).value for name in pairs) for row in rows]
        assert line.get_ydata() == pytest.approx(sums)


@pytest.mark.parametrize("module", [head_curves, score_parts])
def test_without_a_measurement_figures_say_so(module):
    section = getattr(SECTIONS, module.__name__.removesuffix(".figure").rpartition(".")[2])
    figure = module.draw([], section, STYLE)
    assert "no scores were measured" in figure.axes[0].texts[0].get_text()
