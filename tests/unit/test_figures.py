"""Figures show the numbers of their inputs, readably, and in the same bytes each time."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.text import Text

from posenc.config.params import load
from posenc.documents import FIGURES
from posenc.figures import common, cosine_histogram, layer_similarity, perplexity, training_loss
from posenc.files import ArtifactError, DamagedError, read_sealed, verify, write_sealed

from . import synthetic
from .damage import call, flip, found_and_removed

SECTIONS = load(synthetic.PROJECT / "params.yaml").figures
STYLE = SECTIONS.style
INPUT = {
    "layer_similarity": "similarity",
    "cosine_histogram": "similarity",
    "perplexity": "perplexity",
    "training_loss": "training",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """The files of a study and what they hold, by kind."""
    root = tmp_path_factory.mktemp("study")
    written = synthetic.write_inputs(root)
    read = {kind: common.read_measurements(written[kind]) for kind in ("similarity", "perplexity")}
    read["training"] = training_loss.read_training(written["training"])
    return root, written, read


def drawn(name, inputs):
    """A figure of the study."""
    draw = importlib.import_module(f"posenc.figures.{name}").draw
    return draw(inputs[2][INPUT[name]], getattr(SECTIONS, name), STYLE)


def texts(figure):
    """Every text that is seen: matplotlib keeps the labels of ticks that are out of view."""
    unseen = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
            unseen |= {tick.label1 for tick in ticks}
    found = [text for text in figure.findobj(Text) if text not in unseen]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def lines(figure, label):
    """Lines with a label, over all axes."""
    return [line for a in figure.axes for line in a.get_lines() if line.get_label() == label]


def test_every_figure_of_the_documents_has_a_module_and_a_section():
    assert set(FIGURES) <= set(INPUT)
    for name in FIGURES:
        assert hasattr(SECTIONS, name)


def test_lines_are_the_layers_cosines(inputs):
    figure = drawn("layer_similarity", inputs)
    runs = [m for m in inputs[2]["similarity"] if m["run"]["condition"] == "zero"]
    for label, key in (("zero", "cosine"), ("random pairs", "baseline")):
        found = lines(figure, label)
        assert len(found) == len(runs)
        for line, run in zip(found, runs, strict=True):
            assert list(line.get_ydata()) == [layer[key]["value"] for layer in run["layers"]]
            assert list(line.get_xdata()) == [layer["layer"] for layer in run["layers"]]


@pytest.mark.parametrize("layer", ["embedding", "last"])
def test_histogram_is_the_measured_density(inputs, layer):
    section = SECTIONS.cosine_histogram.model_copy(update={"layer": layer})
    figure = cosine_histogram.draw(inputs[2]["similarity"], section, STYLE)
    runs = [m for m in inputs[2]["similarity"] if m["run"]["condition"] == "zero"]
    for axes, run in zip(figure.axes, runs, strict=True):
        filled, outline = (patch.get_data() for patch in axes.patches)
        assert list(filled.values) == run["histograms"][layer]["cosine"]
        assert list(outline.values) == run["histograms"][layer]["baseline"]
        assert list(filled.edges) == run["histograms"]["edges"]
        (null,) = (line for line in axes.get_lines() if line.get_label() == "Gaussian null")
        assert np.trapezoid(null.get_ydata(), null.get_xdata()) == pytest.approx(1, abs=1e-4)


def test_points_are_the_perplexities(inputs):
    figure = drawn("perplexity", inputs)
    runs = [m for m in inputs[2]["perplexity"] if m["status"] == "measured"]
    for condition in ("intact", "zero"):
        shown = sorted(line.get_xdata()[0] for line in lines(figure, condition))
        measured = [m for m in runs if m["run"]["condition"] == condition]
        assert shown == sorted(m["perplexity"]["value"] for m in measured)
    ends = {tuple(line.get_xdata()) for line in figure.axes[0].get_lines()}
    for run in runs:
        assert (run["perplexity"]["low"], run["perplexity"]["high"]) in ends


def test_curves_are_the_losses(inputs):
    figure = drawn("training_loss", inputs)
    (training,) = inputs[2]["training"]
    (curve,) = lines(figure, "decoder, training")
    (points,) = lines(figure, "decoder, validation")
    assert list(curve.get_ydata()) == [row["training_loss"] for row in training["loss"]]
    validated = [row for row in training["loss"] if row["validation_loss"] is not None]
    assert 0 < len(validated) < len(training["loss"])
    assert list(points.get_ydata()) == [row["validation_loss"] for row in validated]


@pytest.mark.parametrize("name", FIGURES)
def test_text_is_readable_and_does_not_overlap(inputs, name):
    figure = drawn(name, inputs)
    with common.styled(STYLE):
        figure.draw_without_rendering()
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    assert min(text.get_fontsize() for text in texts(figure)) >= common.SMALLEST_POINTS
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), f"{one!r} and {other!r} overlap"
    for text, box in boxes:
        assert figure.bbox.padded(1).containsx(box.x0), text
        assert figure.bbox.padded(1).containsx(box.x1), text


@pytest.mark.parametrize("name", FIGURES)
def test_same_bytes_each_time(inputs, name, tmp_path):
    for folder in ("first", "second"):
        outputs = [tmp_path / folder / f"figure.{form}" for form in ("pdf", "png")]
        common.save(drawn(name, inputs), outputs, STYLE)
    for form in ("pdf", "png"):
        first = (tmp_path / "first" / f"figure.{form}").read_bytes()
        assert first == (tmp_path / "second" / f"figure.{form}").read_bytes()
    pdf = (tmp_path / "first/figure.pdf").read_bytes()
    assert b"CreationDate" not in pdf
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf


def test_command_writes_both_files_whatever_the_hash_seed(inputs, tmp_path):
    _, written, _ = inputs
    (tmp_path / "style.json").write_text(STYLE.model_dump_json())
    (tmp_path / "figure.json").write_text(SECTIONS.layer_similarity.model_dump_json())
    found = set()
    for seed in ("1", "2"):
        command = [
            sys.executable, "-m", "posenc.figures.layer_similarity", "--config",
            tmp_path / "figure.json", "--style", tmp_path / "style.json", "--output",
            tmp_path / seed / "a.pdf", "--output", tmp_path / seed / "a.png",
            *written["similarity"],
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, env=environment, cwd=tmp_path)
        forms = ("pdf", "png", "json")
        found.add(tuple((tmp_path / seed / f"a.{form}").read_bytes() for form in forms))
    assert len(found) == 1


def configured(name, folder):
    """Options of a figure's command."""
    (folder / "style.json").write_text(STYLE.model_dump_json())
    (folder / "figure.json").write_text(getattr(SECTIONS, name).model_dump_json())
    return {
        "config": folder / "figure.json",
        "style": folder / "style.json",
        "output": [folder / "out/a.pdf", folder / "out/a.png"],
    }


def test_a_figure_says_what_it_is_made_of_and_what_its_files_are(inputs, tmp_path):
    options = configured("perplexity", tmp_path)
    measured = inputs[1]["perplexity"]
    perplexity.main(**options, inputs=measured)
    written = read_sealed(tmp_path / "out/a.json")
    assert written["files"].keys() == {"a.pdf", "a.png"}
    for output in options["output"]:
        assert verify(output, "a.json") == output
    read = measured
    assert written["inputs"] == [str(path) for path in read]
    for output in options["output"]:
        flip(output)
        with pytest.raises(DamagedError, match=r"does not match its checksum") as caught:
            verify(output, "a.json")
        assert caught.value.path == output


@pytest.mark.parametrize("name", ["perplexity", "layer_similarity"])
def test_an_altered_measurement_is_not_drawn(inputs, tmp_path, name):
    options, damaged = configured(name, tmp_path), tmp_path / "zero.json"
    *others, last = inputs[1][INPUT[name]]
    damaged.write_bytes(last.read_bytes())
    flip(damaged)
    found_and_removed(damaged, f"posenc.figures.{name}", *others, damaged, **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["loss.csv", "summary.json"])
def test_an_altered_training_is_not_drawn(tmp_path, file):
    trained = synthetic.write_training(tmp_path, "decoder", "sample_reviews")
    assert len(training_loss.read_training(trained)) == 1
    (damaged,) = (path for path in trained if path.name == file)
    flip(damaged)
    with pytest.raises(DamagedError) as caught:
        training_loss.read_training(trained)
    assert caught.value.path == damaged
    options = configured("training_loss", tmp_path)
    found_and_removed(damaged, "posenc.figures.training_loss", *trained, **options)
    assert not (tmp_path / "out").exists()


def test_a_loss_curve_of_another_training_is_not_drawn(tmp_path):
    loss, summary = synthetic.write_training(tmp_path / "one", "decoder", "sample_reviews")
    loss.write_text(loss.read_text().replace("\n10,", "\n11,"))
    with pytest.raises(DamagedError, match=r"loss\.csv does not match its checksum in .*summary"):
        training_loss.read_training([loss, summary])
    with pytest.raises(ArtifactError, match=r"give both summary\.json and loss\.csv"):
        training_loss.read_training([summary])


def test_a_wrong_input_is_one_line(tmp_path):
    options, path = configured("perplexity", tmp_path), tmp_path / "input.json"
    write_sealed(path, {"a": 1})
    result = call("posenc.figures.perplexity", path, **options)
    assert result.returncode == 1
    assert "input.json is not a measurement" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert path.exists(), "it is whole"
    path.write_text("[]")
    found_and_removed(path, "posenc.figures.perplexity", path, **options)
    assert not (tmp_path / "out").exists()


def test_what_was_not_run_says_why(inputs):
    absent = [m for m in inputs[2]["perplexity"] if m["status"] == "not run"]
    figure = perplexity.draw(absent, SECTIONS.perplexity, STYLE)
    (text,) = texts(figure)
    assert "not run: minilm has no language-model head" in text.get_text().replace("\n", " ")
    figure = training_loss.draw([], SECTIONS.training_loss, STYLE)
    assert "not run" in texts(figure)[0].get_text()
    runs = [{**m, "status": "not run", "reason": "too large"} for m in inputs[2]["similarity"]]
    figure = layer_similarity.draw(runs, SECTIONS.layer_similarity, STYLE)
    assert any("too large" in text.get_text() for text in texts(figure))


def test_many_panels_stand_in_a_column_for_each_model(inputs):
    runs = [
        synthetic.similarity(model, data, "zero", 128, 4)
        for model in ("a", "b", "c")
        for data in ("reviews", "questions")
    ]
    figure = layer_similarity.draw(runs, SECTIONS.layer_similarity, STYLE)
    places = [axes.get_subplotspec() for axes in figure.axes]
    assert [(p.rowspan.start, p.colspan.start) for p in places] == [
        (row, column) for column in range(3) for row in range(2)
    ]


@pytest.mark.parametrize(("low", "high"), [(30, 1700), (39, 58), (1, 1e6), (0.004, 20)])
def test_logarithmic_ticks_are_few_and_inside(low, high):
    ticks = common.logarithmic_ticks(low, high, 4)
    assert 1 <= len(ticks) <= 4
    assert all(low <= tick <= high for tick in ticks)
