"""Labels: what readers see of a name, in figures, in tables and on the page, and nothing more."""

from __future__ import annotations

import json
import re

import pytest

from posenc.config.labels import display, labelled
from posenc.drawing import common, evaluated
from posenc.drawing.section import Style
from posenc.report.tables import cells
from posenc.study import configs
from posenc.study.params import ParamsError, validate

from .synthetic import PROJECT, params_of
from .test_params import changed, raw  # noqa: F401

STUDIES = tuple(params_of("default").studies)
LABELS = params_of("default").figures.style.labels


def conditions_of(study: str) -> set[str]:
    """All conditions that a figure of a study can draw."""
    params = params_of(study)
    beyond = params.study.extrapolation
    return {
        *params.study.all_conditions,
        *(beyond.conditions if beyond else ()),
        *(name for sweep in params.study.all_sweeps for name in params.sweeps[sweep].conditions),
    }


@pytest.mark.parametrize("study", STUDIES)
def test_what_figures_draw_has_a_label(study):
    assert conditions_of(study) - LABELS.keys() == set()


@pytest.mark.parametrize("study", STUDIES)
def test_what_figures_draw_of_a_checkpoint_or_a_table_has_a_label(study):
    assert set(params_of(study).study.matrices) - LABELS.keys() == set()


def test_labels_are_short_and_no_two_conditions_are_called_alike():
    conditions = [LABELS[name] for name in params_of("default").conditions if name in LABELS]
    assert len(set(conditions)) == len(conditions) > 60
    assert max(map(len, LABELS.values())) <= 28


def test_a_label_has_no_name_and_no_number_of_something_else():
    """Its numbers are those of the definition, or of the versions that its semantics had."""
    params = params_of("default")
    said = (PROJECT / "docs/conditions.md").read_text(encoding="utf-8")
    for name, label in LABELS.items():
        assert "_" not in label
        if name not in params.conditions:
            continue
        condition = params.conditions[name]
        definition = f"{name} {json.dumps(condition.model_dump())}"
        if condition.mask and condition.mask.semantics.startswith("hf_"):
            (row,) = re.findall(rf"(?m)^\| `{condition.mask.semantics}` .*$", said)
            definition += row
        known = set(re.findall(r"\d+\.\d+|\d+", definition.replace(".0", "")))
        known |= set(re.findall(r"\d+", name))
        assert set(re.findall(r"\d+\.\d+|\d+", label)) <= known, name


def test_without_a_label_a_name_is_shown():
    with labelled({}):
        assert display("zero_closed") == "zero closed"
    with labelled({"zero_closed": "50 % & more"}):
        assert display("zero_closed") == "50 % & more"
        assert cells.display("zero_closed") == r"50 \% \& more"
        assert display("zero_slope") == "zero slope"


def test_a_figure_shows_the_labels_of_its_style():
    style = params_of("default").figures.style.model_copy(
        update={"labels": {"zero": "nothing at all"}}
    )
    drawn = common.drawing(
        lambda canvas, names, figure, style: evaluated.label_rows(canvas.add_subplot(), names)
    )([("zero", False), ("zero_slope", False)], params_of("default").figures.perplexity, style)
    shown = [text.get_text() for text in drawn.axes[0].get_yticklabels()]
    assert shown == ["nothing at all", "zero slope"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"zero_closd": "a mask"}, r"figures\.style\.labels names 'zero_closd', which is not "
         r"defined in .*did you mean 'zero_closed'"),
        ({"zero": "one", "mean": "one"}, r"the conditions zero and mean are both shown as 'one'"),
        ({"zero": "zero slope"}, r"the conditions zero and zero_slope are both shown as"),
        ({"zero": "x" * 29}, r"figures\.style\.labels\.zero"),
        ({"zero": " zero"}, r"figures\.style\.labels\.zero"),
        ({"zero": ""}, r"figures\.style\.labels\.zero"),
    ],
)  # fmt: skip
def test_a_wrong_label_is_refused(raw, labels, message):  # noqa: F811
    raw["figures"]["style"]["labels"] = labels
    with pytest.raises(ParamsError, match=message):
        validate(raw)


def test_the_same_words_may_stand_for_a_data_set_and_a_condition(raw):  # noqa: F811
    raw["figures"]["style"]["labels"] = {"zero": "same", "imdb": "same"}
    assert validate(raw).figures.style.labels["imdb"] == "same"


def test_a_label_changes_what_figures_and_documents_read_alone(raw):  # noqa: F811
    before = {str(p): v for p, v in configs.sections(validate(raw))}
    renamed = changed(raw, "figures.style.labels.zero", "other words")
    after = {str(p): v for p, v in configs.sections(validate(renamed))}
    differing = {path for path in before if before[path] != after[path]}
    documents = {"data/config/numbers/study.json", "data/config/page/study.json"}
    assert differing == {"data/config/figures/style.json", *documents}
    study = [by_path["data/config/page/study.json"] for by_path in (before, after)]
    assert study[0]["parameters"] == study[1]["parameters"], "the digest is of measurements"


def test_labels_may_be_left_out():
    style = params_of("default").figures.style.model_dump(exclude={"labels"})
    assert Style.model_validate(style).labels == {}
