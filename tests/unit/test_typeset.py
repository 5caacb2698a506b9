"""Numbers, tables, metrics and plots come from the measurements, and the documents' keys exist."""

from __future__ import annotations

import copy
import csv
import dataclasses
import functools
import json
import re
import shutil
import statistics
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from posenc.artifacts.files import (
    CHECKSUMS,
    ArtifactError,
    DamagedError,
    read_sealed,
    verify,
    write_sealed,
)
from posenc.artifacts.numbers import NotRun, Number
from posenc.conditions.groups import GROUPS
from posenc.conditions.semantics import semantics
from posenc.figures.catalogue import DOCUMENTS, FIGURES, TABLES
from posenc.report import gathered, page_rows, typeset
from posenc.report import quantities as numbers
from posenc.report.collection import collect
from posenc.report.quantities import decimals_of, written
from posenc.report.readers import numbers_of
from posenc.report.tables import cells
from posenc.report.tables import semantics as semantics_tables
from posenc.report.tables import study as study_tables
from posenc.steps import typeset as step
from tests.budget import quick

from . import synthetic
from .damage import flip, found_and_marked

PAPER = synthetic.PROJECT / "paper"
LEADING = ("first_4", "first_12")
"""Of principal components, as in the published table: no parameter."""
VERSIONS = synthetic.PROJECT / "docs/mask-versions.json"
STUDIES = {
    "default": ("default", None),
    "local": ("local", None),
    "real": ("real", None),
    "no decoder": ("default", ["minilm"]),
    "no encoder": ("default", ["decoder"]),
    "first decoder not captured": (synthetic.EVALUATED, None),
}


def results(root, name="default", models=None):
    """The results of a made-up study."""
    written_files = synthetic.write_inputs(root, name, models)
    return read(written_files["study"], synthetic.measured(written_files))


def read(study, inputs):
    """What the step reads."""
    return gathered.read(study, PAPER / "published.yaml", VERSIONS, inputs)


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


def shown_where(document, keys):
    """A document's body without what it shows only if a study has a number that is missing."""
    text, end = "", 0
    whole = body(document)
    for match in re.finditer(r"\\ifmeasured\{([^{}]+)\}", whole):
        if match[1] in keys or match.start() < end:  # it is shown, or lies in what is not
            continue
        depth, last = 0, match.end()
        while last == match.end() or depth:
            depth += {"{": 1, "}": -1}.get(whole[last], 0)
            last += 1
        text, end = text + whole[end : match.start()], last
    return text + whole[end:]


def defined(text, command):
    """Keys that numbers.tex defines with a command."""
    return set(re.findall(rf"^\\{command}\{{([^}}]+)\}}", text, flags=re.MULTILINE))


def used(text, command, arguments=1):
    """Keys that a document gives a command."""
    calls = re.findall(rf"\\{command}" + r"\{([^{}]+)\}" * arguments, re.sub(r"\n\s*", "", text))
    return {key for keys in calls for key in ([keys] if arguments == 1 else keys)}


def asked_by(document, keys=None):
    """Numbers that a document asks for in its text, or for those of a study that has some keys."""
    shown = body(document) if keys is None else shown_where(document, keys)
    rows = ("measured", "interval", "percent", "percentinterval", "finding", "control", "guide")
    asked = {key for command in rows for key in used(shown, command)}
    asked |= {key for c in ("compare", "compared") for key in used(shown, c, arguments=2)}
    return {key for key in asked if not key.startswith("published.")}


def unknown_to(text, document):
    """Numbers that a document asks for and numbers.tex lacks, even as left out."""
    absent = defined(text, "posencnotrun")
    had = defined(text, "posencestimate") | defined(text, "posencvalue")
    without = defined(text, "posencabsent")
    asked = asked_by(document, had) - had - absent
    return {key for key in asked if not without & set(key.split("."))}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_no_value_that_a_study_varies(document):
    """A list in params.yaml may be edited: texts speak of its smallest and its largest."""
    of_conditions = {*synthetic.params_of().conditions}
    varied = {
        key
        for key in asked_by(document)
        if ".near." not in key  # of the nearest heads, the first: no parameter
        for part in key.split(".")
        if re.fullmatch(r"(\w+_)?\d+", part) and part not in {*of_conditions, *LEADING}
    }
    assert varied == set()


def test_every_key_of_a_document_exists(any_results):
    text = typeset.numbers_tex(any_results)
    estimates = defined(text, "posencestimate")
    absent = defined(text, "posencnotrun")
    values = estimates | defined(text, "posencvalue") | absent
    published = defined(text, "posencpublished")
    studied = defined(text, "posencstudied")
    for document in DOCUMENTS:
        tables = "".join(
            typeset.table_tex(any_results, name) for name in DOCUMENTS[document]["tables"]
        )
        shown = shown_where(document, values - absent) + tables
        rows = {key for command in ("finding", "control", "guide") for key in used(shown, command)}
        measured = used(shown, "measured") | used(shown, "percent") | rows
        assert len(measured) > 5
        assert measured <= values, document
        assert used(shown, "interval") | used(shown, "percentinterval") <= estimates | absent
        assert used(shown, "published") <= published
        names = used(shown, "studied") | (used(shown, "name") - {"#1"})
        names = {f"called.{name}" for name in used(shown, "condition")} | (names - {"called.#1"})
        assert names <= studied, document
        compared = {key for c in ("compare", "compared") for key in used(shown, c, arguments=2)}
        assert compared
        assert compared <= values | {f"published.{key}" for key in published}, document


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_show_the_figures_and_tables_that_are_listed(document):
    text = body(document)
    command = r"\\(?:includegraphics|slidefigure|showfigure\*?)(?:\[[^]]*\])*\{(\w+)\}"
    figures = re.findall(command, text)
    tables = re.findall(r"\\fittable\{(\w+)\}", text)
    listed = DOCUMENTS[document]
    assert len(figures) == len(set(figures)) and set(figures) <= set(listed["figures"])
    # What the text gives no place comes at the end.
    assert set(figures) == set(listed["figures"]) or r"\furtherfigures" in text
    assert sorted(tables) == sorted(listed["tables"])
    assert r"\furtherfigures" not in text or document == "supplement"
    assert set(listed["figures"]) <= set(FIGURES)
    assert set(listed["tables"]) <= set(TABLES) == set(typeset.TABLES)


def test_a_figure_of_which_nothing_was_run_says_why_in_place_of_a_picture(default):
    assert r"\posencfurther{spectra}{}" in typeset.numbers_tex(default)
    absent = [
        {**run, "status": "not_run", "reason": "no states_here"}
        if run["measurement"] == "spectra"
        else run
        for run in default.measurements
    ]
    text = typeset.numbers_tex(dataclasses.replace(default, measurements=absent))
    assert r"\posencfurther{spectra}{no states\_here}" in text


def test_the_documents_speak_of_the_conditions_that_are_listed():
    """What a study lacks of them is marked in it, or, of the paper's sentences, said at its end."""
    parts = [body("paper"), *(shown_where(name, ()) for name in DOCUMENTS if name != "paper")]
    text = "".join(re.sub(r"\n\s*", "", part) for part in parts)
    text = re.sub(r"\\recorded\{[^{}]*\}", "", text)
    text += (PAPER / "published.yaml").read_text()
    spoken = set(re.findall(r"\.(\w+)\.conditions\.", text))
    assert spoken | set(numbers.HEADLINE_CONDITIONS) == set(numbers.SPOKEN_CONDITIONS)
    assert set(re.findall(r"\.long\.(\w+)\.", text)) == set(numbers.SPOKEN_LONG)
    assert set(re.findall(r"\.masks\.(\w+)\.", text)) == set(numbers.SPOKEN_MASKS)


def test_what_was_computed_in_bfloat16_is_said_under_every_table_and_on_the_slides(default):
    assert r"\newcommand\precisionmark{}" in typeset.numbers_tex(default)
    fast = {"mode": "fast", "tokens": 512, "nll_difference": 0.0021, "nll_sd": 0.01}
    changed = [{**default.measurements[0], "precision": fast}, *default.measurements[1:]]
    text = typeset.numbers_tex(dataclasses.replace(default, measurements=changed))
    assert "off float32 by at most 0.002 nats per token" in text
    assert r"\newcommand\precisionmark{}" not in text
    preamble = (PAPER / "preamble.tex").read_text()
    table = preamble.split(r"\newcommand\fittable[1]{%")[1].split("\n\\")[0]
    assert table.endswith("\\precisionmark}")
    assert r"\precisionmark" in body("slides")


def test_captions_are_those_of_the_catalogue(default):
    text = typeset.numbers_tex(default)
    captions = dict(
        re.findall(
            r"(?m)^\\posencfigure\{(\w+)\}\{\d+\}\{.*?\}\{((?:[^{}]|\\emph\{.*?\})+)\}\{", text
        )
    )
    assert captions.keys() == FIGURES.keys() - synthetic.OF_OTHER_STUDIES
    for name, caption in captions.items():
        assert re.sub(r"\\emph\{(.+?)\}", r"*\1*", caption) == FIGURES[name].caption
    assert r"\emph{Windows} cuts" in captions["extrapolation"]


def test_tables_and_captions_say_what_their_own_measurements_are_of(default):
    """Measurements may be of different documents of one data set: each says its own number."""
    sizes = {
        ("conditions", "decoder", "sample_reviews"): (31, 4242),
        ("conditions", "smollm2", "sample_reviews"): (7, 808),
        ("perplexity", "decoder", "sample_reviews"): (53, 6161),
        ("reference", "decoder", "sample_reviews"): (53, 6161),
        ("similarity", "decoder", "sample_reviews"): (53, 6262),
    }

    def changed(run):
        size = sizes.get((run["measurement"], run["run"].get("model"), run["run"].get("dataset")))
        tokens = "scored_tokens" if run["measurement"] == "conditions" else "tokens"
        return {**run, "documents": size[0], tokens: size[1]} if size else run

    edited = dataclasses.replace(default, measurements=[*map(changed, default.measurements)])
    said = {(31, 4242): ("conditions", "recovery"), (53, 6161): ("reference",)}
    for (documents, tokens), tables in said.items():
        for name in tables:
            text = typeset.table_tex(edited, name)
            assert (
                rf"sample reviews: \num{{{documents}}} documents, \num{{{tokens}}} tokens" in text
            )
    for name, size in {"perplexity": ["53", "6161"], "similarity": ["53", "6262"]}.items():
        lines = typeset.table_tex(edited, name).splitlines()
        (line,) = (
            row for row in lines if row.startswith("decoder & sample reviews & no positions")
        )
        assert line.split(" & ")[3:5] == size
    key = "decoder.reviews.zero.conditions"
    collected = collect(edited)
    assert (collected[f"{key}.documents"].value, collected[f"{key}.tokens"].value) == (31, 4242)
    captions = dict(
        re.findall(
            r"(?m)^\\posencfigure\{(\w+)\}.*\{(| Documents: .*)\}$", typeset.numbers_tex(edited)
        )
    )
    # Each of the models that it shows.
    for name, reviews in (("condition_costs", 31), ("rotary_masks", 7)):
        said = rf" Documents: sample reviews \num{{{reviews}}}, sample questions \num{{120}}."
        assert captions[name] == said
    # Encoders are drawn, models with a rotation are not; long documents are counted as such.
    assert "SmolLM2" not in captions["position_layers"] and "MiniLM" in captions["position_layers"]
    (long,) = {
        run["documents"] for run in edited.of("extrapolation") if run["status"] == "measured"
    }
    assert captions["extrapolation"] == rf" Documents: long \num{{{long}}}."
    assert captions["scaling"] == "", "no documents"


def test_a_changed_value_changes_the_numbers(tmp_path):
    before = results(tmp_path)
    path = tmp_path / "data/measurements/similarity/minilm/sample_reviews/zero.json"
    measurement = read_sealed(path)
    measurement["layers"][-1]["cosine"] = {"value": 0.4321, "low": 0.4311, "high": 0.4331}
    write_sealed(path, measurement)
    written_files = sorted((tmp_path / "data/measurements").rglob("*.json"))
    study = tmp_path / "data/config/study.json"
    after = read(study, written_files)
    line = (
        r"\posencestimate{encoder.reviews.zero.similarity.last.cosine}{\num{0.4321}}"
        r"{[\num{0.4311},~\num{0.4331}]}{0.4321}{0.4311}{0.4331}"
    )
    assert line not in typeset.numbers_tex(before)
    assert line in typeset.numbers_tex(after)
    assert "0.4321" in typeset.table_tex(after, "similarity")
    metrics = typeset.metrics(after)["minilm"]["sample_reviews"]["zero"]
    assert metrics["similarity"]["last"]["cosine"] == 0.4321


def test_a_role_is_the_first_of_its_kind(default):
    collected = collect(default)
    key = "zero.similarity.last.cosine"
    assert collected[f"encoder.reviews.{key}"] == collected[f"minilm.sample_reviews.{key}"]
    assert collected[f"decoder.questions.{key}"] == collected[f"decoder.sample_questions.{key}"]
    assert collected["decoder.training.parameters"] == Number(943232)
    assert collected["minilm.training.parameters"] == NotRun("minilm is not trained here")


def test_a_model_that_is_not_captured_has_what_is_evaluated_and_nothing_else(tmp_path):
    made_up = results(tmp_path, synthetic.EVALUATED)
    every = collect(made_up)
    own = {place.measurement for place in every.places.values() if place.called[0] == "gpt2"}
    with_numbers = {*synthetic.OF_MODELS} - {"sample_scores"}  # which is for looking at
    assert own == {
        *with_numbers,
        "adaptation",
        "categories",
        "coverage",
        "extrapolation",
        "training",
    }
    key = "sample_reviews.mean.conditions.delta_nll"
    assert isinstance(every[f"gpt2.{key}"], Number)
    # The text of the documents speaks of the first decoder, and of what it would have.
    assert every["decoder.reviews.mean.conditions.delta_nll"] == every[f"gpt2.{key}"]
    why = NotRun("activations of gpt2 are not kept")
    for quantity in ("zero.similarity.last.cosine", "lags.profile_mean", "intact.probes.chance"):
        assert every[f"decoder.reviews.{quantity}"] == why
    assert every["decoder.positions.mae"] == why
    assert isinstance(every["encoder.reviews.zero.similarity.last.cosine"], Number)
    # Of the first decoder, though the role has the name of the second: they are no two seeds.
    first = entry_of(made_up, "sample_reviews", "mean", "gpt2")["recovered"]["value"]
    assert every["decoders.reviews.mean.conditions.recovered.mean"].value == first
    assert every["decoders.count"] == Number(1)
    # The heads of several models together are those of captured ones.
    assert isinstance(every["lags.sample_reviews.profile_mean"], Number)
    assert "positions" not in typeset.metrics(made_up)["gpt2"]


def test_a_model_has_its_title_where_documents_say_what_it_is(tmp_path):
    made_up, title = results(tmp_path), "SmolLM2-135M-Instruct (Q4_1)"
    escaped = cells.escape(title)
    (row,) = (row for row in study_tables.models_table(made_up)["rows"] if row[0] == "SmolLM2")
    assert row[-1] == rf"{escaped}, package: llm\_smollm2" and row[3] == "--"
    (entry,) = (
        condition
        for run in made_up.of("conditions")
        if run["run"] == {"model": "smollm2", "dataset": made_up.study["study"]["datasets"][0]}
        for condition in run["conditions"]
        if condition["condition"] == "intact"
    )
    assert row[4] == rf"\num{{{len(entry['layers']) - 1}}}"
    words = typeset.studied(made_up)
    assert words["models"] == f"MiniLM, decoder, {escaped}"


def test_what_was_not_run_is_marked(tmp_path):
    made_up = results(tmp_path, models=["minilm"])
    text = typeset.numbers_tex(made_up)
    key = "decoder.questions.zero.perplexity.perplexity"
    assert rf"\posencnotrun{{{key}}}{{no decoder in this study}}" in text
    key = "minilm.sample_reviews.zero.perplexity.perplexity"
    assert rf"\posencnotrun{{{key}}}{{minilm has no language-model head}}" in text
    assert r"\notrunword: no decoder in this study" in text
    assert "not run: minilm has no language-model head" in typeset.table_tex(made_up, "perplexity")
    assert "no decoder in this study" in typeset.table_tex(made_up, "published")
    assert "perplexity" not in typeset.metrics(made_up)["minilm"]["sample_reviews"]["zero"]
    assert typeset.plots(made_up)["perplexity.csv"] == ("run,perplexity,low,high\n")


def test_a_condition_that_the_study_lacks_is_marked(default):
    study = {**default.study, "study": {**default.study["study"], "conditions": ["intact"]}}
    intact = [m for m in default.measurements if m["run"].get("condition") == "intact"]
    collected = collect(dataclasses.replace(default, study=study, measurements=intact))
    key = "encoder.reviews.zero.similarity.last.cosine"
    assert collected[key] == NotRun("no condition zero in this study")


def test_the_published_table_tells_the_same_model_from_another(default, tmp_path):
    other = typeset.table_tex(default, "published")
    assert r"\word{other model}" in other and r"\word{same model}" not in other
    assert r"\compared" not in other
    same = typeset.table_tex(results(tmp_path, "real"), "published")
    assert r"\word{same model}" in same and r"\word{other model}" not in same
    assert r"\compared" in same


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
    lines = plots["perplexity.csv"].splitlines()
    assert lines[1].startswith("decoder sample_reviews intact,")


def test_the_order_of_the_inputs_does_not_matter(tmp_path):
    expected = results(tmp_path)
    files = sorted((tmp_path / "data/measurements").rglob("*.json"), reverse=True)
    files += sorted((tmp_path / "data/training").rglob("*"))[::-1]
    files = [path for path in files if path.is_file()]
    study = tmp_path / "data/config/study.json"
    assert read(study, files) == expected


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
        versions=VERSIONS,
        inputs=synthetic.measured(written_files),
    )
    tables = {f"{name}.tex" for name in TABLES}
    assert {path.name for path in (outputs / "tables").iterdir()} == {*tables, CHECKSUMS}
    assert read_sealed(outputs / "tables" / CHECKSUMS)["files"].keys() == tables
    for path in (outputs / "numbers.tex", *(outputs / "tables" / name for name in tables)):
        assert verify(path) == path
    assert json.loads((tmp_path / "data/metrics.json").read_text())
    numbers = json.loads((tmp_path / "data/numbers.json").read_text())
    key = "decoder.sample_reviews.zero.perplexity.perplexity"
    (measured,) = tmp_path.glob("data/measurements/perplexity/decoder/sample_reviews/zero.json")
    estimate = read_sealed(measured)["perplexity"]
    assert {part: numbers[key][part] for part in estimate} == estimate
    assert float(numbers[key]["shown"]) == pytest.approx(estimate["value"], rel=1e-2)
    assert not any(key.startswith("decoder.reviews.") for key in numbers), "a role, not a name"
    # These are 0 but for float64 rounding: identities of weights, and maps without ReLUs.
    assert {key for key, entry in numbers.items() if "rounding" in entry} == {
        *(f"{name}.relative.{part}" for name in ("minilm", "decoder")
          for part in ("scores", "trace", "null_weights", "null_spectra")),
        "superposition.affine_gap",
        *(f"superposition.{name}.gap" for name in ("relu", "affine", "logistic_regression")),
    }  # fmt: skip
    assert {path.name for path in (tmp_path / "data/plots").iterdir()} == {
        "layers",
        "perplexity.csv",
    }
    assert not stale.exists()


def json_of(files: dict, kind: str) -> Path:
    return next(path for path in files[kind] if path.suffix == ".json")


MADE_UP = sorted({*synthetic.KINDS, "training"} - synthetic.OF_OTHER_STUDIES)
"""Kinds of files that the default study has."""


def test_an_altered_measurement_of_each_kind_is_named(tmp_path):
    files = synthetic.write_inputs(tmp_path)
    for kind in MADE_UP:
        path = json_of(files, kind)
        content = path.read_bytes()
        flip(path)
        with pytest.raises(DamagedError) as caught:
            read(files["study"], [path])
        assert caught.value.path == path
        path.write_bytes(content)


@pytest.mark.parametrize("kind", quick("similarity", of=MADE_UP))
def test_an_altered_measurement_is_not_typeset(tmp_path, kind):
    files = synthetic.write_inputs(tmp_path)
    measured = synthetic.measured(files)
    damaged = flip(json_of(files, kind))
    with pytest.raises(DamagedError) as caught:
        read(files["study"], measured)
    assert caught.value.path == damaged
    options = {
        "study": files["study"],
        "published": PAPER / "published.yaml",
        "versions": VERSIONS,
        "output_numbers": tmp_path / "generated/numbers.tex",
        "output_tables": tmp_path / "generated/tables",
        "metrics": tmp_path / "metrics.json",
        "plots": tmp_path / "plots",
    }
    found_and_marked(damaged, "posenc.steps.typeset", *measured, **options)
    assert not (tmp_path / "generated").exists() and not (tmp_path / "metrics.json").exists()


def test_wrong_inputs_are_refused(tmp_path):
    files = synthetic.write_inputs(tmp_path)
    write_sealed(tmp_path / "other.json", {"a": 1})
    with pytest.raises(ArtifactError, match=r"other\.json is not a measurement"):
        read(files["study"], [tmp_path / "other.json"])
    stranger = synthetic.similarity("bert", "sample_reviews", "zero", 8, 2)
    write_sealed(tmp_path / "stranger.json", stranger)
    with pytest.raises(ArtifactError, match="not a run of the study"):
        read(files["study"], [tmp_path / "stranger.json"])
    shutil.copy(PAPER / "published.yaml", tmp_path / "published.yaml")
    text = (tmp_path / "published.yaml").read_text()
    (tmp_path / "published.yaml").write_text(text.replace('"0.7702"', "0.7702"))
    with pytest.raises(ArtifactError, match="quotation marks"):
        gathered.read_published(tmp_path / "published.yaml")
    text = text.replace('"0.7702"', r"'\input{/etc/passwd}'")
    (tmp_path / "published.yaml").write_text(text)
    with pytest.raises(ArtifactError, match=r"bert\.zero\.cosine\.value is .*: write digits and a"):
        gathered.read_published(tmp_path / "published.yaml")


def row_of(table, name):
    """The cells of a table's row."""
    (line,) = (line for line in table.splitlines() if line.startswith(f"{name} &"))
    return [cell.strip() for cell in line.removesuffix("\\\\").split("&")]


def entry_of(results, dataset, condition, model="decoder"):
    """What was measured of a condition."""
    (run,) = (
        m for m in results.of("conditions") if m["run"] == {"model": model, "dataset": dataset}
    )
    (entry,) = (entry for entry in run["conditions"] if entry["condition"] == condition)
    return entry


def test_numbers_of_evaluated_conditions(default):
    collected = collect(default)
    entry = entry_of(default, "sample_reviews", "zero_log_mask")
    for key in ("perplexity", "delta_nll", "recovered", "bits_per_byte"):
        assert collected[f"decoder.reviews.zero_log_mask.conditions.{key}"] == Number(**entry[key])
    last = collected["encoder.questions.shuffle.conditions.last.cosine"]
    layer = entry_of(default, "sample_questions", "shuffle", "minilm")["layers"][-1]
    assert last == Number(layer["value"], layer["low"], layer["high"])
    key = "encoder.reviews.shuffle.conditions.perplexity"
    assert collected[key] == NotRun("minilm has no language-model head")
    key = "decoder.questions.zero_slope.conditions.recovered"
    assert collected[key] == NotRun("nothing is lost without positions")
    key = "encoder.reviews.fitted.conditions.last.cosine"
    assert collected[key] == NotRun("fitted is not for minilm")
    share = entry_of(default, "sample_reviews", "fitted")["recovered"]["value"]
    assert collected["decoders.count"] == Number(1)
    assert collected["decoders.reviews.fitted.conditions.recovered.mean"] == Number(share)
    key = "decoders.reviews.fitted.conditions.recovered.sd"
    assert collected[key] == NotRun("one decoder in this study")


def test_numbers_that_belong_to_no_condition(default):
    collected = collect(default)
    assert collected["decoder.reviews.norms.r2.sum.flexible"] == Number(0.31)
    assert collected["decoder.reviews.reference.bigram.perplexity"].value == 72.5
    assert collected["encoder.reviews.reference.bigram.perplexity"] == NotRun(
        "no language-model head"
    )
    assert collected["decoder.masks.slope_zero.slope"] == Number(0.1, decimals=1)
    assert collected["decoder.masks.fitted.parameters"] == Number(368)
    assert collected["decoder.masks.fitted.slope"] == NotRun("the mask fitted has no slope")
    (long,) = (m for m in default.of("extrapolation") if m["run"]["model"] == "decoder")
    intact = next(entry for entry in long["conditions"] if entry["condition"] == "intact")
    ends = {bucket["to"]: bucket["nll_per_token"] for bucket in intact["buckets"]}
    assert collected["decoder.long.intact.within"] == Number(**ends[129])
    assert collected["decoder.long.intact.beyond"] == Number(**ends[160])
    assert collected["decoder.long.trained"] == Number(128)
    assert collected["encoder.long.intact.beyond"] == NotRun("no language-model head")


def test_several_decoders_have_a_mean_and_a_spread(tmp_path):
    made_up = results(tmp_path, "local")
    shares = [
        entry_of(made_up, "imdb_local", "fitted", model)["recovered"]["value"]
        for model in ("decoder_imdb", "decoder_imdb_1", "decoder_imdb_2")
    ]
    collected = collect(made_up)
    key = "decoders.reviews.fitted.conditions.recovered"
    assert collected["decoders.count"] == Number(3)
    assert collected[f"{key}.mean"].value == pytest.approx(statistics.fmean(shares))
    assert collected[f"{key}.sd"].value == pytest.approx(statistics.stdev(shares))
    assert collected[f"{key}.least"] == Number(min(shares))
    row = row_of(
        typeset.table_tex(made_up, "recovery").split("TruthfulQA")[0], cells.display("fitted")
    )
    assert row[2::2][:3] == [f"{share:.3f}" for share in shares]
    aligned = entry_of(made_up, "imdb_local", "fitted", "decoder_imdb_aligned")["recovered"]
    assert row[8] == f"{aligned['value']:.3f}"
    assert row[-2:] == [f"{statistics.fmean(shares):.3f}", f"{statistics.stdev(shares):.3f}"]


def test_what_is_measured_and_absent_has_no_key(default):
    """So that a document that speaks of it fails to build."""
    kept = [m for m in default.measurements if m["measurement"] not in ("conditions", "norms")]
    collected = collect(dataclasses.replace(default, measurements=kept))
    for key in (
        "decoder.reviews.mean.conditions.perplexity",
        "decoders.reviews.mean.conditions.recovered.mean",
        "decoder.reviews.norms.r2.sum.linear",
        "decoder.masks.slope_zero.slope",
    ):
        assert key not in collected
    assert "decoder.reviews.reference.bigram.perplexity" in collected


def test_conditions_that_the_study_lacks_are_named_together(default):
    kept = {name: spec for name, spec in default.study["conditions"].items() if name != "mean"}
    study = {**default.study, "conditions": kept}
    assert numbers.missing_roles(study) == ["no conditions mean in this study"]
    collected = collect(dataclasses.replace(default, study=study))
    key = "decoder.reviews.mean.conditions.perplexity"
    assert collected[key] == NotRun("no condition mean in this study")


def test_the_table_of_conditions_has_every_condition_in_its_group(default):
    text = typeset.table_tex(default, "conditions")
    study = default.study["study"]
    for name in [*study["conditions"], *study["evaluated"]]:
        assert row_of(text, cells.display(name))
    titles = re.findall(r"\\emph\{([^}]*)\}", text)
    assert titles == list(GROUPS.values())
    row = row_of(text, cells.display("zero_log_mask"))
    entry = entry_of(default, "sample_reviews", "zero_log_mask")
    assert float(row[1]) == pytest.approx(entry["perplexity"]["value"], rel=1e-2)
    assert float(row[5]) == pytest.approx(entry["recovered"]["value"], abs=5e-4)
    assert row[-1] == cells.ABSENT, "nothing is lost on the questions"


def test_the_table_of_semantics_has_every_semantics_and_what_versions_did(default):
    text = typeset.table_tex(default, "semantics")
    for name in semantics.functions:
        assert row_of(text, cells.display(f"zero_{name}"))
    finfo = row_of(text, cells.display("zero_hf_finfo"))
    assert "4.21.0 to 4.51.3, eager" in finfo[3]
    assert "each token run alone" in finfo[2]
    assert row_of(text, cells.display("zero_prob_mul"))[3] == "--", "no version does that"
    without = typeset.table_tex(
        dataclasses.replace(default, versions={"versions": []}), "semantics"
    )
    assert row_of(without, cells.display("zero_hf_finfo"))[3] == "--"


def test_ranges_of_versions_end_where_a_version_does_otherwise():
    def version(number, agrees):
        case = {"model": "gpt2", "implementation": "eager", "mask": "linear 0.1",
                "agrees_with": agrees}  # fmt: skip
        return {"version": number, "status": "run", "cases": [case]}

    record = {
        "versions": [
            version("1", ["hf_bool"]), version("2", ["hf_bool", "hf_finfo"]), version("3", []),
            {"version": "4", "status": "not run", "cases": []}, version("5", ["hf_bool"]),
        ]
    }  # fmt: skip
    ranges = semantics_tables.ranges(record, "hf_bool")
    assert [(span["first"], span["last"]) for span in ranges] == [("1", "2"), ("5", "5")]


def test_reference_levels_and_norms_are_those_of_the_measurements(default, tmp_path):
    text = typeset.table_tex(default, "reference")
    assert row_of(text, "Kneser-Ney bigram")[1] == "72.5"
    assert row_of(text, "uniform")[1:3] == ["1024", "--"], "what is exact has no interval"
    assert row_of(text, "decoder, intact")
    real = typeset.table_tex(results(tmp_path, "real"), "reference")
    assert "n-grams not run: what the model learned from is not here" in real
    lines = [line for line in typeset.table_tex(default, "norms").splitlines() if "-0.06" in line]
    assert len(lines) == len(default.of("norms"))
    assert "{--} & --" in lines[0], "an encoder has no loss"


def test_a_null_of_the_same_token_that_is_none_says_why(default):
    (run,) = (
        copy.deepcopy(m)
        for m in default.of("similarity")
        if tuple(m["run"].values()) == ("decoder", "sample_reviews", "zero")
    )
    first, last = run["layers"][0], run["layers"][-1]
    first["rescaled_same_token"] = None
    of_run = numbers_of(run)
    assert of_run["embedding.rescaled_same_token"] == NotRun("tokens of one id are all alike")
    assert of_run["last.rescaled_same_token"] == Number(**last["rescaled_same_token"])
    assert of_run["same_token_share"] == Number(run["same_token_share"])
    run["same_token_share"], last["same_token"], last["same_document"] = 0.0, None, None
    of_run = numbers_of(run)
    assert of_run["last.same_token"] == NotRun("no token is in two documents")
    assert of_run["last.same_document"] == NotRun("no document has two different tokens")


def test_the_table_of_anisotropy_is_of_the_last_layer(default):
    text = typeset.table_tex(default, "anisotropy")
    (run,) = (
        m
        for m in default.of("similarity")
        if tuple(m["run"].values()) == ("decoder", "sample_reviews", "zero")
    )
    (line,) = (line for line in text.splitlines() if line.startswith("decoder & sample reviews"))
    last = run["layers"][-1]
    for value in (last["cosine"], last["centred"], last["standardised"], last["retrieval"]):
        assert f"{value['value']:.3f}" in line
    assert f"{last['cka']:.3f}" in line


@pytest.mark.parametrize("name", ["conditions", "recovery", "reference", "semantics"])
def test_a_study_without_decoder_says_so_in_its_tables(tmp_path, name):
    text = typeset.table_tex(results(tmp_path, models=["minilm"]), name)
    assert "not run: no decoder in this study" in text


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
        (Number(0.05, decimals=2), "0.05"),
    ],
)
def test_digits_that_mean_something(number, text):
    assert written(number.value, decimals_of(number)) == text


def test_a_name_cannot_break_latex():
    assert cells.escape(r"50 % of a_b & {c} \d $#~^") == (
        r"50 \% of a\_b \& \{c\} \textbackslash{}d \$\#\textasciitilde{}\textasciicircum{}"
    )
    assert cells.display("sample_reviews") == "sample reviews"


def test_columns_leave_room_for_every_number():
    column, form = cells.column([Number(-1.25), None, Number(1234.5)])
    assert column == ["-1.250", cells.ABSENT, "1234"]
    assert form == "-4.3"


# --- Sources ------------------------------------------------------------------------------------


@pytest.fixture
def read_once(monkeypatch):
    """A file that is read again and again is checked once."""
    monkeypatch.setattr(gathered, "read_sealed", functools.cache(gathered.read_sealed))


@pytest.mark.parametrize("of_each_kind", quick("one", of=["one", "all"]))
def test_each_number_is_of_the_file_that_is_named(tmp_path, read_once, of_each_kind):
    """Without a file, exactly the numbers whose source it is are missing or differ."""
    files = synthetic.write_inputs(tmp_path)
    inputs = synthetic.measured(files)
    whole = read(files["study"], inputs)
    collected = collect(whole)
    named = {
        key: collected.places[key].files for key, e in collected.items() if isinstance(e, Number)
    }
    assert {key for key, files in named.items() if not files} == {"constant.zero", "constant.one"}
    several = {key for key, files in named.items() if len(files) > 1}
    assert several == {"decoders.count"}
    assert len({path for files in named.values() for path in files}) > 30
    of_kinds = [json_of(files, kind) for kind in MADE_UP]
    every = [path for path in inputs if path.suffix == ".json"]
    for path in of_kinds if of_each_kind == "one" else every:
        rest = read(files["study"], [other for other in inputs if other != path])
        less = collect(rest)
        gone = {key for key in named if less.get(key) != collected[key]} - several
        assert gone == {key for key in named if str(path) in named[key]} - several, path


def test_each_table_is_of_the_files_that_are_named(tmp_path, read_once):
    """Without the files of a kind, the tables that name them change, and no others."""
    files = synthetic.write_inputs(tmp_path)
    inputs = synthetic.measured(files)
    whole = read(files["study"], inputs)
    kinds_of = {name: table.measurements for name, table in TABLES.items() if table.measurements}
    assert {*kinds_of} == {name for name in typeset.TABLES if "published" not in name}
    text = {name: typeset.table_tex(whole, name) for name in kinds_of}
    for kind in (*synthetic.KINDS, "training"):
        rest = read(files["study"], [path for path in inputs if path not in files[kind]])
        changed = set()
        for name in kinds_of:
            try:
                without = typeset.table_tex(rest, name)
            except (KeyError, StopIteration, TypeError, ValueError):
                without = None  # cannot be made without them
            if without != text[name]:
                changed.add(name)
        assert changed == {name for name, kinds in kinds_of.items() if kind in kinds}, kind


def test_each_number_leads_to_its_row_on_the_page(default):
    """The page filters as page.js does: names are one of those chosen, a search is a part."""
    collected, rows = collect(default), {}
    for place, entry in page_rows.rows_of(default).items():
        rows.setdefault(place.files, []).append((place, entry))
    led = 0
    for key, place in collected.places.items():
        entry = collected[key]
        if not isinstance(entry, Number) or not place.files:
            continue
        wanted = {name: values[0] for name, values in parse_qs(typeset.on_page(place)).items()}
        left = [
            row
            for row, other in rows[place.files]
            if other == entry
            and wanted.get("models", row.model) == row.model
            and wanted.get("data-sets", row.dataset) == row.dataset
            and wanted.get("conditions", row.condition) == row.condition
            and all(
                word in f"{row.measurement}.{row.quantity}" for word in wanted["search"].split()
            )
        ]
        assert left, f"{key}: {wanted}"
        led += 1
    assert led > 1000


def test_keys_of_published_values_are_of_numbers(default, tmp_path):
    """What no number has would be taken for what the study lacks."""
    collected = collect(default)
    ours = {key for value in default.published["values"].values() for key in value["ours"]}
    # Tables that a study may lack are in another.
    matrices = collect(results(tmp_path, "local"))
    assert ours and ours <= collected.keys() | matrices.keys()
    assert all(collected.places[key].key == key for key in collected)
