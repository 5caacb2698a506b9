"""Figures show the numbers of their inputs, readably, and in the same bytes each time."""

from __future__ import annotations

import copy
import importlib
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from posenc.artifacts.files import (
    ArtifactError,
    DamagedError,
    read_sealed,
    verify,
    write_sealed,
)
from posenc.conditions.groups import GROUPS, group_of, grouped
from posenc.conditions.semantics import semantics
from posenc.drawing import common
from posenc.drawing.command import read_measurements, say_precision
from posenc.figures import (
    cosine_histogram,
    layer_similarity,
    mask_semantics,
    recovered_share,
    rotary_masks,
    training_loss,
)
from posenc.figures.catalogue import FIGURES, module_of
from posenc.measurements.perplexity import figure as perplexity

from . import synthetic
from .damage import call, flip, found_and_marked

SECTIONS = synthetic.params_of().figures
STYLE = SECTIONS.style
INPUT = synthetic.FIGURE_INPUTS


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """The files of a study and what they hold, by kind."""
    root = tmp_path_factory.mktemp("study")
    written = synthetic.write_inputs(root)
    read = {kind: read_measurements(written[kind]) for kind in synthetic.KINDS}
    read["training"] = training_loss.read_training(written["training"])
    return root, written, read


def drawn(name, inputs):
    """A figure of the study."""
    draw = importlib.import_module(module_of(name)).draw
    read = [measurement for kind in INPUT[name] for measurement in inputs[2][kind]]
    return draw(read, getattr(SECTIONS, name), STYLE)


def texts(figure):
    """Every visible text: matplotlib also keeps labels of ticks that are out of view."""
    unseen = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
            unseen |= {tick.label1 for tick in ticks}
    seen = [text for text in figure.findobj(Text) if text not in unseen]
    return [text for text in seen if text.get_visible() and text.get_text().strip()]


def check_texts(figure):
    """Every text can be read, lies on the figure, and covers no other."""
    with common.styled(STYLE):
        figure.draw_without_rendering()
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    assert min(text.get_fontsize() for text in texts(figure)) >= common.SMALLEST_POINTS
    for (label, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), f"{label!r} and {other!r} overlap"
    for text, box in boxes:
        assert figure.bbox.padded(1).containsx(box.x0), text
        assert figure.bbox.padded(1).containsx(box.x1), text


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
    keys = {
        "zero": "cosine",
        "random pairs": "baseline",
        "other token, same document": "same_document",
        "same token, other document": "same_token",
    }
    for label, key in keys.items():
        curves = lines(figure, common.display(label))
        assert len(curves) == len(runs)
        for line, run in zip(curves, runs, strict=True):
            assert list(line.get_ydata()) == [layer[key]["value"] for layer in run["layers"]]
            assert list(line.get_xdata()) == [layer["layer"] for layer in run["layers"]]


def test_the_axis_holds_a_null_below_all_else_and_nothing_where_there_is_none(inputs):
    runs = copy.deepcopy([m for m in inputs[2]["similarity"] if m["run"]["condition"] == "zero"])
    runs[0]["layers"][1]["same_token"] = synthetic.estimate(-0.6, 0.1)
    figure = layer_similarity.draw(runs, SECTIONS.layer_similarity, STYLE)
    assert all(axes.get_ylim()[0] < -0.7 for axes in figure.axes)
    for run in runs:
        for layer in run["layers"]:
            layer["same_token"] = layer["rescaled_same_token"] = None
        for layer in ("embedding", "last"):
            del run["histograms"][layer]["same_token"]
    for module in (layer_similarity, cosine_histogram):
        name = module.__name__.rsplit(".", 1)[1]
        figure = module.draw(runs, getattr(SECTIONS, name), STYLE)
        (legend,) = figure.legends
        labels = [text.get_text() for text in legend.get_texts()]
        assert "random pairs" in labels and "same token, other document" not in labels


@pytest.mark.parametrize("layer", ["embedding", "last"])
def test_histogram_is_the_measured_density(inputs, layer):
    section = SECTIONS.cosine_histogram.model_copy(update={"layer": layer})
    figure = cosine_histogram.draw(inputs[2]["similarity"], section, STYLE)
    runs = [m for m in inputs[2]["similarity"] if m["run"]["condition"] == "zero"]
    for axes, run in zip(figure.axes, runs, strict=True):
        filled, random, inside, same = (patch.get_data() for patch in axes.patches)
        assert list(filled.values) == run["histograms"][layer]["cosine"]
        assert list(random.values) == run["histograms"][layer]["baseline"]
        assert list(inside.values) == run["histograms"][layer]["same_document"]
        assert list(same.values) == run["histograms"][layer]["same_token"]
        assert list(filled.edges) == run["histograms"]["edges"]
        (null,) = (line for line in axes.get_lines() if line.get_label() == "Gaussian null")
        assert np.trapezoid(null.get_ydata(), null.get_xdata()) == pytest.approx(1, abs=1e-4)


def test_points_are_the_perplexities(inputs):
    figure = drawn("perplexity", inputs)
    runs = [m for m in inputs[2]["perplexity"] if m["status"] == "measured"]
    for condition in ("intact", "zero"):
        shown = sorted(line.get_xdata()[0] for line in lines(figure, common.display(condition)))
        measured = [m for m in runs if m["run"]["condition"] == condition]
        assert shown == sorted(m["perplexity"]["value"] for m in measured)
    ends = {tuple(line.get_xdata()) for line in figure.axes[0].get_lines()}
    for run in runs:
        assert (run["perplexity"]["low"], run["perplexity"]["high"]) in ends


def test_curves_are_the_losses(inputs):
    figure = drawn("training_loss", inputs)
    (training,) = inputs[2]["training"]
    (points,) = lines(figure, "decoder")
    (curve,) = (line for line in figure.axes[0].lines
                if line is not points and line.get_color() == points.get_color())  # fmt: skip
    assert list(curve.get_ydata()) == [row["training_loss"] for row in training["loss"]]
    validated = [row for row in training["loss"] if row["validation_loss"] is not None]
    assert 0 < len(validated) < len(training["loss"])
    assert list(points.get_ydata()) == [row["validation_loss"] for row in validated]


def conditions_of(inputs, model="decoder", dataset="sample_reviews"):
    """Entries of a measurement of conditions, by name."""
    (measurement,) = (
        m for m in inputs[2]["conditions"] if m["run"] == {"model": model, "dataset": dataset}
    )
    return {entry["condition"]: entry for entry in measurement["conditions"]}


def row_labels(axes):
    """Row of each label on the vertical axis."""
    return {text.get_text(): row for row, text in enumerate(axes.get_yticklabels())}


def test_every_condition_s_cost_stands_in_its_row(inputs):
    figure = drawn("condition_costs", inputs)
    reviews, questions = figure.axes
    rows = row_labels(reviews)
    assert [name for name in GROUPS.values() if name in rows] == list(GROUPS.values())
    for axes, dataset in ((reviews, "sample_reviews"), (questions, "sample_questions")):
        entries = conditions_of(inputs, dataset=dataset)
        points = {
            (line.get_xdata()[0], line.get_ydata()[0])
            for line in axes.get_lines()
            if line.get_marker() == "o"
        }
        expected = {
            (entry["delta_nll"]["value"], rows[common.display(name)])
            for name, entry in entries.items()
            if name != "intact"
        }
        assert points == expected
        ends = {tuple(line.get_xdata()) for line in axes.get_lines() if len(line.get_xdata()) == 2}
        change = entries["shuffle"]["delta_nll"]
        assert (change["low"], change["high"]) in ends


def test_shares_are_those_of_every_decoder(inputs, tmp_path):
    inputs = copy.deepcopy(inputs)
    entries = conditions_of(inputs)
    entries["zero_alibi"]["recovered"] = {"value": -2.5, "low": -2.6, "high": -2.4}
    figure = drawn("recovered_share", inputs)
    reviews, questions = figure.axes
    rows = row_labels(reviews)
    shown = {
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in reviews.get_lines()
        if line.get_label() == "decoder"
    }
    shares = {
        (entries[name]["recovered"]["value"], row)
        for name, row in ((n, rows.get(common.display(n))) for n in entries)
        if row is not None
    }
    low, high = recovered_share.LOWEST, recovered_share.HIGHEST
    assert shown == {pair for pair in shares if low <= pair[0] <= high}
    beyond = {"<": [p for p in shares if p[0] < low], ">": [p for p in shares if p[0] > high]}
    for marker, pairs in beyond.items():
        assert pairs
        arrows = [line for line in reviews.get_lines() if line.get_marker() == marker]
        assert sorted(line.get_ydata()[0] for line in arrows) == sorted(row for _, row in pairs)
    assert "beyond the axis" in [text.get_text() for text in figure.legends[0].get_texts()]
    written = {text.get_text().replace("−", "-") for text in reviews.texts}
    assert written == {f"{share:.2f}" for pairs in beyond.values() for share, _ in pairs}
    assert "shuffle" not in rows, "it puts nothing in the place of positions"
    assert "nothing is lost" in questions.texts[0].get_text()
    local = synthetic.write_inputs(tmp_path, "local")
    read = read_measurements(local["conditions"])
    high = next(
        entry
        for measurement in read
        if measurement.get("is_decoder")
        for entry in measurement["conditions"]
        if entry["condition"] == "fitted"
    )
    high["recovered"] = {"value": 1.78, "low": 1.5, "high": 2.1}
    figure = recovered_share.draw(read, SECTIONS.recovered_share, STYLE)
    for name in ("decoder_imdb", "decoder_imdb_1", "decoder_imdb_2"):
        assert len(lines(figure, common.display(name))) > 12
    panel = figure.axes[0]
    arrows = [line for line in panel.get_lines() if line.get_marker() == ">"]
    assert {line.get_xdata()[0] for line in arrows} == {recovered_share.HIGHEST}
    assert "1.78" in {text.get_text() for text in panel.texts}


def test_what_is_still_lost_has_equal_steps():
    """From nothing recovered to nine tenths is as far as from there to ninety-nine hundredths."""
    shares = [-9, 0, 0.9, 0.99]
    np.testing.assert_allclose(recovered_share.steps(shares), [-1, 0, 1, 2], atol=1e-12)
    np.testing.assert_allclose(recovered_share.shares_of([-1, 0, 1, 2]), shares, atol=1e-12)
    assert np.all(np.isfinite(recovered_share.steps([1.0, 1.78, np.inf])))


def test_a_rotary_decoder_has_a_ladder_of_its_own(inputs):
    figure = drawn("rotary_masks", inputs)
    reviews, questions = figure.axes
    rows = {label.get_text(): row for row, label in enumerate(reviews.get_yticklabels())}
    entries = conditions_of(inputs, "smollm2")
    display = common.display
    named = map(display, ("bands_high_16", "zero_closed", "placebo_heads"))
    assert {*named} <= set(rows)
    assert not {*map(display, ("intact", "zero", "mean", "fitted"))} & set(rows)
    headings = [name for name in rows if name in rotary_masks.HEADINGS.values()]
    shown = ("rotation", "fixed", "closed_form", "placebo", "means", "means placebo", "distilled")
    assert headings == [rotary_masks.HEADINGS[name] for name in shown]
    assert rows[display("zero_closed")] < rows["placebos of it"] < rows[display("placebo_heads")]
    assert rows[display("placebo_heads")] < rows["distilled"]
    shown = {
        (line.get_xdata()[0], line.get_ydata()[0]): line.get_color()
        for line in reviews.get_lines()
        if line.get_marker() == "o"
    }
    for name in (n for n in entries if display(n) in rows):
        share = entries[name]["recovered"]
        if share["value"] >= rotary_masks.LOWEST:
            colour = shown.pop((min(share["value"], rotary_masks.HIGHEST), rows[display(name)]))
            assert (colour == common.GREY) == name.startswith(("placebo", "first_order_heads"))
    assert not shown
    losses = {text.get_text() for text in reviews.texts}
    assert f"{entries['zero_closed']['nll_per_token']['value']:.2f}" in losses
    assert not [line for line in questions.get_lines() if line.get_marker() == "o"]
    beyond = any(line.get_marker() == "<" for line in reviews.get_lines())
    said = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert beyond and said == ["beyond the axis"]
    inside = copy.deepcopy(inputs[2]["conditions"])
    for entry in (
        entry for one in inside for entry in one.get("conditions", []) if entry.get("recovered")
    ):
        entry["recovered"] = {"value": 0.5, "low": 0.4, "high": 0.6}
    for module in (rotary_masks, recovered_share):
        section = getattr(SECTIONS, module.__name__.rpartition(".")[2])
        assert not module.draw(inside, section, STYLE).legends
    without = [one for one in inputs[2]["conditions"] if one["run"]["model"] != "smollm2"]
    said = rotary_masks.draw(without, SECTIONS.rotary_masks, STYLE).axes[0].texts[0].get_text()
    assert "positions of decoder are a table" in said.replace("\n", " ")


def test_sweeps_are_curves_with_levels(inputs):
    figure = drawn("slope_sweep", inputs)
    (run,) = (m for m in inputs[2]["conditions"]
              if m["run"] == {"model": "decoder", "dataset": "sample_reviews"})  # fmt: skip
    rows = [row for row in run["sweeps"]["slope"]["rows"] if row["condition"] == "mean_alibi"]
    curve = lines(figure, common.display("mean_alibi"))[0]
    assert list(curve.get_ydata()) == [row["perplexity"]["value"] for row in rows]
    assert list(curve.get_xdata()) == [row["value"] for row in rows]
    levels = {line.get_label(): line.get_ydata()[0] for line in figure.axes[0].get_lines()}
    assert levels["Kneser-Ney bigram"] == 72.5
    assert levels["intact"] == conditions_of(inputs)["intact"]["perplexity"]["value"]
    assert [axes.get_xlabel() for axes in figure.axes][-2:] == ["slope", "floor"]


def test_lengths_are_those_of_the_sweep(inputs):
    figure = drawn("length_sweep", inputs)
    (run,) = (m for m in inputs[2]["conditions"]
              if m["run"] == {"model": "decoder", "dataset": "sample_questions"})  # fmt: skip
    rows = [row for row in run["sweeps"]["length"]["rows"] if row["condition"] == "zero_slope"]
    curve = lines(figure, common.display("zero_slope"))[1]
    assert curve.axes is figure.axes[3], "a row for each data set, masks on the right"
    assert {line.axes for line in lines(figure, common.display("mean"))} == {*figure.axes[::2]}
    assert {line.axes for line in lines(figure, common.display("zero"))} == {*figure.axes}
    assert list(curve.get_xdata()) == [row["value"] for row in rows]
    assert list(curve.get_ydata()) == [row["perplexity"]["value"] for row in rows]


def test_the_trained_length_is_marked_in_the_loss_by_position(inputs):
    figure = drawn("extrapolation", inputs)
    (line,) = lines(figure, "trained length")
    assert set(line.get_xdata()) == {128}
    (run,) = (
        m for m in inputs[2]["conditions"] if m["run"] == {"model": "decoder", "dataset": "long"}
    )
    for entry in run["conditions"]:
        (curve,) = lines(figure, common.display(entry["condition"]))
        values = [bucket["nll_per_token"]["value"] for bucket in entry["buckets"]]
        assert list(curve.get_ydata()) == values
    assert any("no language-model head" in t.get_text().replace("\n", " ") for t in texts(figure))


def test_layers_are_shown_of_what_changes_positions_alone(inputs):
    figure = drawn("position_layers", inputs)
    assert len(figure.axes) == 4
    entries = conditions_of(inputs, "minilm")
    shown = {line.get_label(): line for line in figure.axes[0].get_lines()}
    positions = ["zero", "mean", "keep_first", "keep_first_mean", "shuffle", "shift_1", "shift_8"]
    positions = [name for name in positions if name in entries]
    assert len(positions) > 3
    assert list(shown) == [common.display(name) for name in positions]
    for name in positions:
        values = [layer["value"] for layer in entries[name]["layers"]]
        assert list(shown[common.display(name)].get_ydata()) == values


def test_every_semantics_has_its_pattern(inputs):
    """Patterns against written-out ones: what a mask leaves of scores that are all equal."""
    n, floor = 7, 0.1
    changes = mask_semantics.changes(n, floor, slope=0.5)
    assert set(semantics.functions) < set(changes)
    zeros = {name: mask_semantics.pattern(np.zeros((n, n)), c) for name, c in changes.items()}
    past = np.tril(np.ones((n, n)))
    uniform = past / past.sum(axis=1, keepdims=True)
    m = np.linspace(floor, 1, n)
    for name in ("none", "hf_bool", "logit_mul", "emb_mul"):
        np.testing.assert_allclose(zeros[name], uniform, atol=1e-12)
    np.testing.assert_allclose(zeros["prob_mul"], uniform * m, atol=1e-12)
    weighted = past * m
    expected = weighted / weighted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(zeros["log_mask"], expected, atol=1e-6)
    for name in ("hf_le420", "hf_finfo"):
        np.testing.assert_allclose(zeros[name], np.eye(n), atol=1e-12)
    for name in ("hf_sdpa_cpu", "hf_sdpa_cuda"):
        np.testing.assert_allclose(zeros[name][:-1], 1 / n, atol=1e-12)
        np.testing.assert_allclose(zeros[name][-1], np.eye(n)[-1], atol=1e-12)
    z = np.random.default_rng(0).normal(size=(n, n))
    alone = mask_semantics.pattern(z, changes["hf_sdpa_cuda"])
    everything = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(alone[:-1], everything[:-1], atol=1e-6)
    uniform_cpu = mask_semantics.pattern(z, changes["hf_sdpa_cpu"])[:-1]
    np.testing.assert_allclose(uniform_cpu, 1 / n, atol=1e-12)
    distance = np.subtract.outer(np.arange(n), np.arange(n))
    decay = np.exp(z - 0.5 * distance) * past
    np.testing.assert_allclose(
        mask_semantics.pattern(z, changes["alibi"]),
        decay / decay.sum(axis=1, keepdims=True),
        atol=1e-6,
    )
    figure = drawn("mask_semantics", inputs)
    shown = [axes.images[0].get_array().data for axes in figure.axes if axes.images]
    assert len(shown) == 2 * len(changes)
    titles = {axes.get_title().replace("\n", " ") for axes in figure.axes} - {""}
    assert titles == {common.display(mask_semantics.TITLES.get(name, name)) for name in changes}


@pytest.mark.parametrize(
    "name",
    ["condition_costs", "recovered_share", "slope_sweep", "length_sweep", "extrapolation"],
)
def test_a_study_without_decoder_has_figures_that_say_so(tmp_path, name):
    files = synthetic.write_inputs(tmp_path, models=["minilm"])
    read = read_measurements(synthetic.inputs_of(name, files))
    draw = importlib.import_module(module_of(name)).draw
    figure = draw(read, getattr(SECTIONS, name), STYLE)
    assert "no language-model head" in texts(figure)[0].get_text().replace("\n", " ")


@pytest.mark.parametrize("study", ["local", "real", synthetic.EVALUATED])
@pytest.mark.parametrize("name", [name for name in FIGURES if "conditions" in INPUT[name]])
def test_figures_of_other_studies_are_readable(tmp_path, name, study):
    files = synthetic.write_inputs(tmp_path, study)
    read = read_measurements(synthetic.inputs_of(name, files))
    draw = importlib.import_module(module_of(name)).draw
    check_texts(draw(read, getattr(SECTIONS, name), STYLE))


def test_a_model_that_is_not_captured_is_in_figures_of_conditions_alone(tmp_path):
    files = synthetic.write_inputs(tmp_path, synthetic.EVALUATED)
    shown = set()
    for name in FIGURES:
        if INPUT[name] and INPUT[name] != ("training",):
            read = read_measurements(synthetic.inputs_of(name, files))
            draw = importlib.import_module(module_of(name)).draw
            seen = "\n".join(
                t.get_text() for t in texts(draw(read, getattr(SECTIONS, name), STYLE))
            )
            shown |= {name} if common.display("gpt2") in seen else set()
    of_models = {"conditions", "score_parts", "effective_keys", "token_classes"}
    expected = {name for name in FIGURES if of_models & {*INPUT[name]}}
    # The figure of sweeps names no model; that of rotation has no table.
    assert shown == expected - {"slope_sweep", "rotary_masks"}


@pytest.mark.parametrize(
    ("spec", "group"),
    [
        ({"position": {"kind": "shift", "by": 1}}, "positions"),
        ({"position": "intact", "segments": 64}, "positions"),
        ({"embeddings": "unit_norm"}, "norms"),
        ({"position": "zero", "segments": 1}, "versions"),
        ({"mask": {"semantics": "hf_bool", "profile": {"kind": "linear"}}}, "versions"),
        ({"mask": {"semantics": "prob_mul", "profile": {"kind": "linear"}}}, "semantics"),
        ({"mask": {"semantics": "log_mask", "profile": {"kind": "power"}}}, "profiles"),
        ({"mask": {"semantics": "additive", "profile": {"kind": "alibi"}}}, "profiles"),
        (
            {"position": "zero", "mask": {"semantics": "additive", "profile": {"kind": "learned"}}},
            "learned",
        ),
        ({"mask": {"semantics": "additive", "profile": {"kind": "learned"}}}, "adaptation"),
        (
            {"mask": {"semantics": "additive", "profile": {"kind": "learned", "scale": -1}}},
            "learned",
        ),
        ({"position": {"kind": "learned", "mask": "vectors"}}, "learned"),
    ],
)
def test_a_condition_s_group_follows_from_what_it_does(spec, group):
    assert group_of(spec) == group
    assert grouped({"intact": {}, "it": spec}) == {group: ["it"]}


@pytest.mark.parametrize("name", FIGURES)
def test_text_is_readable_and_does_not_overlap(inputs, name):
    check_texts(drawn(name, inputs))


@pytest.mark.parametrize("name", FIGURES)
def test_what_was_computed_in_bfloat16_is_said_below_and_overlaps_nothing(inputs, name):
    fast = {"mode": "fast", "tokens": 512, "nll_difference": 0.0021, "relative_error": [0.0, 0.01]}
    figure = drawn(name, inputs)
    before, label = len(texts(figure)), figure.get_supxlabel()
    say_precision(figure, [{"precision": {"mode": "exact"}}], STYLE)
    assert len(texts(figure)) == before
    say_precision(figure, [{"precision": fast}], STYLE)
    said = [text.get_text() for text in texts(figure) if "bfloat16" in text.get_text()]
    assert len(said) == 1 and said[0].startswith(label)
    assert "0.002 nats" in " ".join(said[0].split())  # lines are broken where a figure is narrow
    check_texts(figure)


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_same_bytes_each_time(inputs, name, tmp_path):
    for folder in ("first", "second"):
        outputs = [tmp_path / folder / f"figure.{form}" for form in ("pdf", "svg")]
        common.save(drawn(name, inputs), outputs, STYLE)
    for form in ("pdf", "svg"):
        first = (tmp_path / "first" / f"figure.{form}").read_bytes()
        assert first == (tmp_path / "second" / f"figure.{form}").read_bytes()
    pdf = (tmp_path / "first/figure.pdf").read_bytes()
    assert b"CreationDate" not in pdf
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf


def test_command_writes_both_files_whatever_the_hash_seed(inputs, tmp_path):
    _, written, _ = inputs
    (tmp_path / "style.json").write_text(STYLE.model_dump_json())
    (tmp_path / "figure.json").write_text(SECTIONS.layer_similarity.model_dump_json())
    contents = set()
    for seed in ("1", "2"):
        command = [
            sys.executable, "-m", "posenc.figures.layer_similarity", "--config",
            tmp_path / "figure.json", "--style", tmp_path / "style.json", "--output",
            tmp_path / seed / "a.pdf", "--output", tmp_path / seed / "a.svg",
            *written["similarity"],
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, env=environment, cwd=tmp_path)
        forms = ("pdf", "svg", "json")
        contents.add(tuple((tmp_path / seed / f"a.{form}").read_bytes() for form in forms))
    assert len(contents) == 1


def configured(name, folder):
    """Options of a figure's command."""
    (folder / "style.json").write_text(STYLE.model_dump_json())
    (folder / "figure.json").write_text(getattr(SECTIONS, name).model_dump_json())
    return {
        "config": folder / "figure.json",
        "style": folder / "style.json",
        "output": [folder / "out/a.pdf", folder / "out/a.svg"],
    }


def test_a_figure_says_what_it_is_made_of_and_what_its_files_are(inputs, tmp_path):
    options = configured("perplexity", tmp_path)
    measured = inputs[1]["perplexity"]
    perplexity.main(**options, inputs=measured)
    written = read_sealed(tmp_path / "out/a.json")
    assert written["files"].keys() == {"a.pdf", "a.svg"}
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
    *others, last = synthetic.inputs_of(name, inputs[1])
    damaged.write_bytes(last.read_bytes())
    flip(damaged)
    found_and_marked(damaged, module_of(name), *others, damaged, **options)
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
    found_and_marked(damaged, "posenc.figures.training_loss", *trained, **options)
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
    result = call("posenc.measurements.perplexity.figure", path, **options)
    assert result.returncode == 1
    assert "input.json is not a measurement" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert path.exists(), "it is whole"
    path.write_text("[]")
    found_and_marked(path, "posenc.measurements.perplexity.figure", path, **options)
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


def test_a_legend_is_as_wide_as_the_figure():
    figure = Figure(figsize=(3.3, 2.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    assert common.columns_that_fit(figure, ["a", "b", "c"], 3) == 3
    long = ["a decoder with a long name, seed 1"] * 4
    assert common.columns_that_fit(figure, long, 4) == 1
    for number, label in enumerate([*"abcdefgh", *(f"decoder, seed {n}" for n in range(5))]):
        axes.plot([0, 1], [number, 0], label=label)
    common.legend_above(figure, [axes], columns=6)
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
