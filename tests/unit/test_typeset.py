"""Numbers, tables, metrics and plots come from the measurements, and the documents' keys exist."""

from __future__ import annotations

import csv
import json
import re
import shutil

import pytest

from posenc import numbers, typeset
from posenc.documents import DOCUMENTS, FIGURES, TABLES
from posenc.files import (
    CHECKSUMS,
    ArtifactError,
    DamagedError,
    read_sealed,
    verify,
    write_sealed,
)
from posenc.numbers import NotRun, Number, decimals_of, written
from posenc.steps import typeset as step

from . import synthetic
from .damage import flip, found_and_removed

PAPER = synthetic.PROJECT / "paper"
STUDIES = {
    "default": ("default", None),
    "local": ("local", None),
    "real": ("real", None),
    "no decoder": ("default", ["minilm"]),
    "no encoder": ("default", ["decoder"]),
}


def results(root, name="default", models=None):
    """The results of a made-up study."""
    written_files = synthetic.write_inputs(root, name, models)
    inputs = [p for kind in ("similarity", "perplexity", "training") for p in written_files[kind]]
    return step.read(written_files["study"], PAPER / "published.yaml", inputs)


@pytest.fixture(scope="module", params=STUDIES)
def any_results(request, tmp_path_factory):
    """The results of each kind of study."""
    return results(tmp_path_factory.mktemp("study"), *STUDIES[request.param])


@pytest.fixture(scope="module")
def default(tmp_path_factory):
    """The results of the default study."""
    return results(tmp_path_factory.mktemp("default"))


def body(document):
    """A document without comments, from its beginning on."""
    text = (PAPER / f"{document}.tex").read_text(encoding="utf-8")
    return re.sub(r"(?<!\\)%.*", "", text.split(r"\begin{document}")[1])


def defined(text, command):
    """Keys that numbers.tex defines with a command."""
    return set(re.findall(rf"^\\{command}\{{([^}}]+)\}}", text, flags=re.MULTILINE))


def used(text, command, arguments=1):
    """Keys that a document gives a command."""
    found = re.findall(rf"\\{command}" + r"\{([^{}]+)\}" * arguments, re.sub(r"\n\s*", "", text))
    return {key for keys in found for key in ([keys] if arguments == 1 else keys)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_key_of_a_document_exists(any_results, document):
    text = typeset.numbers_tex(any_results)
    tables = "".join(
        typeset.table_tex(any_results, name) for name in DOCUMENTS[document]["tables"]
    )  # fmt: skip
    shown = body(document) + tables
    estimates = defined(text, "posencestimate")
    absent = defined(text, "posencnotrun")
    values = estimates | defined(text, "posencvalue") | absent
    measured = used(shown, "measured")
    assert len(measured) > 5
    assert measured <= values
    assert used(shown, "interval") <= estimates | absent
    published = defined(text, "posencpublished")
    assert used(shown, "published") <= published
    names = used(shown, "studied") | (used(shown, "name") - {"#1"})
    assert names <= defined(text, "posencstudied")
    compared = {
        key for c in ("compare", "compared", "comparedwords") for key in used(shown, c, arguments=2)
    }
    assert compared
    assert compared <= values | {f"published.{key}" for key in published}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_show_the_figures_and_tables_that_are_listed(document):
    text = body(document)
    figures = re.findall(r"\\includegraphics(?:\[[^]]*\])?\{(\w+)\}|\\fitfigure\{(\w+)\}", text)
    tables = re.findall(r"\\fittable\{(\w+)\}", text)
    listed = DOCUMENTS[document]
    assert sorted(a or b for a, b in figures) == sorted(listed["figures"])
    assert sorted(tables) == sorted(listed["tables"])
    assert set(listed["figures"]) <= set(FIGURES)
    assert set(listed["tables"]) <= set(TABLES) == set(typeset.TABLES)


def test_a_changed_value_changes_the_numbers(tmp_path):
    before = results(tmp_path)
    path = tmp_path / "data/measurements/similarity/minilm/sample_reviews/zero.json"
    measurement = read_sealed(path)
    measurement["layers"][-1]["cosine"] = {"value": 0.4321, "low": 0.4311, "high": 0.4331}
    write_sealed(path, measurement)
    written_files = sorted((tmp_path / "data/measurements").rglob("*.json"))
    study = tmp_path / "data/config/study.json"
    after = step.read(study, PAPER / "published.yaml", written_files)
    line = (
        r"\posencestimate{encoder.reviews.zero.similarity.last.cosine}{\num{0.4321}}"
        r"{[\num{0.4311},~\num{0.4331}]}{0.4311}{0.4331}"
    )
    assert line not in typeset.numbers_tex(before)
    assert line in typeset.numbers_tex(after)
    assert "0.4321" in typeset.table_tex(after, "similarity")
    found = typeset.metrics(after)["minilm"]["sample_reviews"]["zero"]
    assert found["similarity"]["last"]["cosine"] == 0.4321


def test_a_role_is_the_first_of_its_kind(default):
    found = numbers.collect(default.study, default.measurements, default.trainings)
    key = "zero.similarity.last.cosine"
    assert found[f"encoder.reviews.{key}"] == found[f"minilm.sample_reviews.{key}"]
    assert found[f"decoder.questions.{key}"] == found[f"decoder.sample_questions.{key}"]
    assert found["decoder.training.parameters"] == Number(943232)
    assert found["minilm.training.parameters"] == NotRun("minilm is not trained here")


def test_what_was_not_run_is_marked(tmp_path):
    found = results(tmp_path, models=["minilm"])
    text = typeset.numbers_tex(found)
    key = "decoder.questions.zero.perplexity.perplexity"
    assert rf"\posencnotrun{{{key}}}{{no decoder in this study}}" in text
    key = "minilm.sample_reviews.zero.perplexity.perplexity"
    assert rf"\posencnotrun{{{key}}}{{minilm has no language-model head}}" in text
    assert r"\notrunword: no decoder in this study" in text
    assert "not run: minilm has no language-model head" in typeset.table_tex(found, "perplexity")
    assert "no decoder in this study" in typeset.table_tex(found, "published")
    assert "perplexity" not in typeset.metrics(found)["minilm"]["sample_reviews"]["zero"]
    assert typeset.plots(found)["perplexity.csv"] == ("run,perplexity,low,high\n")


def test_a_condition_that_the_study_lacks_is_marked(default):
    study = {**default.study, "study": {**default.study["study"], "conditions": ["intact"]}}
    intact = [m for m in default.measurements if m["run"]["condition"] == "intact"]
    found = numbers.collect(study, intact, default.trainings)
    key = "encoder.reviews.zero.similarity.last.cosine"
    assert found[key] == NotRun("no condition zero in this study")


def test_the_published_table_tells_the_same_model_from_another(default, tmp_path):
    other = typeset.table_tex(default, "published")
    assert r"\word{other model}" in other and r"\word{same model}" not in other
    same = typeset.table_tex(results(tmp_path, "real"), "published")
    assert r"\word{same model}" in same and r"\word{other model}" not in same


def test_plots_hold_every_layer(default):
    plots = typeset.plots(default)
    assert len(plots) == 1 + len(default.of("similarity"))
    for run in default.of("similarity"):
        name = "-".join(run["run"][part] for part in ("model", "dataset", "condition"))
        rows = list(csv.DictReader(plots[f"layers/{name}.csv"].splitlines()))
        assert [float(row["cosine"]) for row in rows] == [
            layer["cosine"]["value"] for layer in run["layers"]
        ]
        assert [float(row["baseline"]) for row in rows] == [
            layer["baseline"]["value"] for layer in run["layers"]
        ]
    found = plots["perplexity.csv"].splitlines()
    assert found[1].startswith("decoder sample_reviews intact,")


def test_the_order_of_the_inputs_does_not_matter(tmp_path):
    expected = results(tmp_path)
    files = sorted((tmp_path / "data/measurements").rglob("*.json"), reverse=True)
    files += sorted((tmp_path / "data/training").rglob("*"))[::-1]
    files = [path for path in files if path.is_file()]
    study = tmp_path / "data/config/study.json"
    assert step.read(study, PAPER / "published.yaml", files) == expected


def test_the_step_writes_all_files(tmp_path):
    written_files = synthetic.write_inputs(tmp_path)
    stale = tmp_path / "data/plots/layers/bert-imdb-zero.csv"
    stale.parent.mkdir(parents=True)
    stale.touch()
    outputs = tmp_path / "paper/generated"
    step.main(
        study=written_files["study"],
        published=PAPER / "published.yaml",
        output_numbers=outputs / "numbers.tex",
        output_tables=outputs / "tables",
        metrics=tmp_path / "data/metrics.json",
        plots=tmp_path / "data/plots",
        inputs=[*written_files["similarity"], *written_files["perplexity"]],
    )
    tables = {f"{name}.tex" for name in TABLES}
    assert {path.name for path in (outputs / "tables").iterdir()} == {*tables, CHECKSUMS}
    assert read_sealed(outputs / "tables" / CHECKSUMS)["files"].keys() == tables
    for path in (outputs / "numbers.tex", *(outputs / "tables" / name for name in tables)):
        assert verify(path) == path
    assert json.loads((tmp_path / "data/metrics.json").read_text())
    assert {path.name for path in (tmp_path / "data/plots").iterdir()} == {
        "layers",
        "perplexity.csv",
    }
    assert not stale.exists()


@pytest.mark.parametrize("kind", ["similarity", "perplexity", "training"])
def test_an_altered_measurement_is_not_typeset(tmp_path, kind):
    files = synthetic.write_inputs(tmp_path)
    measured = [path for one in ("similarity", "perplexity", "training") for path in files[one]]
    damaged = flip(next(path for path in files[kind] if path.suffix == ".json"))
    with pytest.raises(DamagedError) as caught:
        step.read(files["study"], PAPER / "published.yaml", measured)
    assert caught.value.path == damaged
    options = {
        "study": files["study"],
        "published": PAPER / "published.yaml",
        "output_numbers": tmp_path / "generated/numbers.tex",
        "output_tables": tmp_path / "generated/tables",
        "metrics": tmp_path / "metrics.json",
        "plots": tmp_path / "plots",
    }
    found_and_removed(damaged, "posenc.steps.typeset", *measured, **options)
    assert not (tmp_path / "generated").exists() and not (tmp_path / "metrics.json").exists()


def test_wrong_inputs_are_refused(tmp_path):
    files = synthetic.write_inputs(tmp_path)
    write_sealed(tmp_path / "other.json", {"a": 1})
    with pytest.raises(ArtifactError, match=r"other\.json is not a measurement"):
        step.read(files["study"], PAPER / "published.yaml", [tmp_path / "other.json"])
    stranger = synthetic.similarity("bert", "sample_reviews", "zero", 8, 2)
    write_sealed(tmp_path / "stranger.json", stranger)
    with pytest.raises(ArtifactError, match="not a run of the study"):
        step.read(files["study"], PAPER / "published.yaml", [tmp_path / "stranger.json"])
    shutil.copy(PAPER / "published.yaml", tmp_path / "published.yaml")
    text = (tmp_path / "published.yaml").read_text()
    (tmp_path / "published.yaml").write_text(text.replace('"0.7702"', "0.7702"))
    with pytest.raises(ArtifactError, match="quotation marks"):
        step.read_published(tmp_path / "published.yaml")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(0.77018, 0.7689, 0.7714), "0.7702"),
        (Number(712014.3, 700000.0, 724000.0), "712000"),
        (Number(39.71234, 38.1, 41.3), "39.7"),
        (Number(0.0, 0.0, 0.0), "0.000"),
        (Number(-0.0004, -0.02, 0.02), "-0.0004"),
        (Number(-1e-6, -0.02, 0.02), "0.0000"),
        (Number(0.5, 0.1, 0.9), "0.500"),
        (Number(0.0510310), "0.05103"),
        (Number(2048000), "2048000"),
        (Number(1.23456e9), "1.235e+09"),
        (Number(1.0, 1.0, 1.0), "1.000"),
    ],
)
def test_digits_that_mean_something(number, text):
    assert written(number.value, decimals_of(number)) == text


def test_a_name_cannot_break_latex():
    assert typeset.escape(r"50 % of a_b & {c} \d $#~^") == (
        r"50 \% of a\_b \& \{c\} \textbackslash{}d \$\#\textasciitilde{}\textasciicircum{}"
    )
    assert typeset.display("sample_reviews") == "sample reviews"


def test_columns_leave_room_for_every_number():
    cells, form = typeset.column([Number(-1.25), None, Number(1234.5)])
    assert cells == ["-1.250", typeset.ABSENT, "1234"]
    assert form == "-4.3"
