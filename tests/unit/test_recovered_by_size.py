"""The survey's figure: recovered shares stand at the size of their model."""

from __future__ import annotations

import copy

import pytest
from matplotlib.colors import to_rgba

from posenc.config.labels import display, labelled
from posenc.drawing.command import read_measurements
from posenc.figures import recovered_by_size

from . import synthetic, synthetic_positions

SECTIONS = synthetic.params_of().figures
STYLE = SECTIONS.style
SIZES = {"small": 10_000_000, "large": 1_000_000_000, "middle": 100_000_000}
SHARES = {"small": 0.5, "large": 0.9, "middle": -3.0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    files = synthetic.write_inputs(tmp_path_factory.mktemp("study"))
    read = read_measurements(synthetic.inputs_of("recovered_by_size", files))
    run = next(
        measurement
        for measurement in read
        if measurement["measurement"] == "conditions" and measurement["run"]["model"] == "smollm2"
    )
    measurements = []
    for model, share in SHARES.items():
        measurement = copy.deepcopy(run)
        measurement["run"]["model"] = model
        for entry in measurement["conditions"]:
            if entry["recovered"] is not None:
                entry["recovered"] = {"value": share, "low": share - 0.1, "high": share + 0.1}
        size = synthetic_positions.savings(model, measurement["run"]["dataset"], True, "rotation")
        size["parameters"]["all"] = SIZES[model]
        measurements += [measurement, size]
    return measurements


def points(figure, condition: str) -> dict[float, float]:
    with labelled(STYLE.labels):
        label = display(condition)
    (line,) = [
        line for axes in figure.axes for line in axes.get_lines() if line.get_label() == label
    ]
    return dict(zip(line.get_xdata(), line.get_ydata(), strict=True))


def names(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_xticklabels()]


def test_a_share_stands_at_the_size_of_its_model(runs):
    figure = recovered_by_size.draw(runs, SECTIONS.recovered_by_size, STYLE)
    expected = {SIZES[name]: SHARES[name] for name in ("small", "large")}
    expected[SIZES["middle"]] = recovered_by_size.LOWEST  # beyond the axis
    assert points(figure, "zero_closed") == expected
    assert names(figure) == ["small, 10 M", "middle, 100 M", "large, 1,000 M"]


def test_conditions_have_colours_of_their_own_and_no_other_is_drawn(runs):
    figure = recovered_by_size.draw(runs, SECTIONS.recovered_by_size, STYLE)
    named = [line for line in figure.axes[0].get_lines() if not line.get_label().startswith("_")]
    looks = {(to_rgba(line.get_color()), line.get_marker()) for line in named}
    assert len(looks) == len(named) > 5
    with labelled(STYLE.labels):
        assert not {display("zero"), display("intact")} & {line.get_label() for line in named}


def test_a_condition_of_one_model_alone_is_not_compared(runs):
    alone = copy.deepcopy(runs)
    for measurement in alone[2:]:
        for entry in measurement.get("conditions", ()):
            if entry["condition"] == "zero_closed":
                entry["recovered"] = None
    figure = recovered_by_size.draw(alone, SECTIONS.recovered_by_size, STYLE)
    with pytest.raises(ValueError, match="not enough values"):
        points(figure, "zero_closed")
    assert points(figure, "placebo_heads")


def test_a_single_model_is_no_comparison(runs):
    figure = recovered_by_size.draw(runs[:2], SECTIONS.recovered_by_size, STYLE)
    said = " ".join(text.get_text() for axes in figure.axes for text in axes.texts)
    assert "fewer than 2 decoders" in said.replace("\n", " ")


def test_models_of_one_size_share_a_name(runs):
    alike = copy.deepcopy(runs)
    alike[3]["parameters"]["all"] = SIZES["small"] + 1000
    figure = recovered_by_size.draw(alike, SECTIONS.recovered_by_size, STYLE)
    assert names(figure) == ["small and 1 more, 10 M", "middle, 100 M"]
