"""Commands that people look for: versions, lists, a number traced back, a study removed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posenc.artifacts.numbers import NotRun, Number
from posenc.artifacts.receipts import Receipt
from posenc.cli import app
from posenc.figures.catalogue import FIGURES
from posenc.frontends.leftovers import set_aside, tidy
from posenc.report.collection import collect
from posenc.report.gathered import read
from posenc.report.showing import UnknownKeyError, described, measurements_of
from posenc.study.params import load
from posenc.study.remove import take_out
from posenc.study.shown import is_parameter
from posenc.study.switch import StudyError, activate
from tests.copies import ROOT, copy_params

from . import synthetic


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the shipped parameters."""
    copy_params(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(*arguments, code=0, **options):
    """What a command prints, after it ended as it should."""
    done = CliRunner().invoke(app, list(map(str, arguments)), **options)
    assert done.exit_code == code, done.output
    return done.output


# --- posenc --version and list --------------------------------------------------------------------


def test_the_version_names_the_commit(project):
    assert re.fullmatch(
        r"posenc \d+\.\d+\.\d+, commit none, there is no git .+\n", said("--version")
    )


def test_the_list_has_every_name_once(project):
    params = load(Path("params.yaml"))
    text = said("list")
    names = re.findall(r"\*?\b\w+\b", text.partition("* is")[0])
    for kind in ("studies", "models", "datasets", "conditions"):
        for name in getattr(params, kind):
            assert name in names or f"*{name}" in names
    assert "*default" in names and len(set(FIGURES) - set(names)) == 0


@pytest.mark.parametrize("kind", ["studies", "models", "datasets", "conditions", "figures"])
def test_a_list_of_a_kind_has_a_line_for_each(project, kind):
    params = load(Path("params.yaml"))
    names = list(FIGURES) if kind == "figures" else list(getattr(params, kind))
    lines = said("list", kind).splitlines()
    assert [line.strip(" *").split()[0] for line in lines] == names
    assert [line for line in lines if line.startswith(" *")] == lines[:1] * (kind == "studies")


def test_a_list_says_where_each_comes_from(project):
    models, datasets = said("list", "models"), said("list", "datasets")
    sources = load(Path("params.yaml")).models
    assert re.search(rf"(?m)^ +minilm .*package {sources['minilm'].source.package}$", models)
    assert re.search(rf"(?m)^ +bert .*{re.escape(sources['bert'].source.id)} of the hub$", models)
    assert re.search(r"(?m)^ +sample_reviews +imdb, generated, seed \d+$", datasets)


def test_an_unknown_list_is_corrected(project):
    assert "did you mean 'models'?" in said("list", "model", code=1)


# --- posenc remove --------------------------------------------------------------------------------


def begun(path):
    """A study of one's own that is no longer active."""
    Path("notes.txt").write_text("One document.\nAnother one.\n")
    said("new", "mine", "--text", "notes.txt")
    activate(path, "default")


def test_a_study_is_removed_and_nothing_else(project):
    begun(Path("params.yaml"))
    written, params = Path("studies/mine.yaml").read_text(), Path("params.yaml").read_bytes()
    file = Path("data/studies/mine/measurements/similarity.json")
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    output = said("remove", "mine", "--yes")
    assert Path("data/set_aside/_studies/mine.yaml").read_text() == written
    assert Path("params.yaml").read_bytes() == params and not Path("studies/mine.yaml").exists()
    assert not file.exists()
    assert Path("data/set_aside/mine/measurements/similarity.json").read_text() == "{}"
    now = load(Path("params.yaml"))
    assert "mine" not in now.studies and "mine" not in now.datasets
    assert "mine was removed; its file is now data/set_aside/_studies/mine.yaml" in output


def test_the_file_of_another_study_of_that_name_stays_aside(project):
    for number, place in enumerate(("mine.yaml", "mine.1.yaml")):
        begun(Path("params.yaml"))
        with Path("studies/mine.yaml").open("a") as file:
            file.write(f"# {number}\n")
        said("remove", "mine", "--yes")
        assert Path("data/set_aside/_studies", place).read_text().endswith(f"# {number}\n")


def test_a_data_set_that_no_study_has_any_more_is_named(project):
    said("new", "mine")
    Path("studies/other.yaml").write_text(
        "models: [minilm]\npretrained: [minilm]\ndatasets: [truthfulqa_local]\n"
    )
    activate(Path("params.yaml"), "mine")
    for study in sorted(Path("studies").glob("*.yaml")):
        if study.stem not in ("mine", "other", "default"):
            study.unlink()
    output = said("remove", "other", "--yes")
    assert "no study uses datasets.truthfulqa_local any more" in output


def test_the_active_study_is_not_removed(project):
    before = Path("params.yaml").read_bytes()
    assert "posenc study NAME" in said("remove", "default", "--yes", code=1)
    assert "did you mean 'default'" in said("remove", "defaul", "--yes", code=1)
    assert Path("params.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ("rotary_seeds", r"studies/rotary_seeds\.yaml cannot go, .*names 'rotary_seeds', which is"),
        (
            "rotary_gemma",
            r"rotary_gemma_long\.yaml:\d+: models\.gemma3_270m_window\.like names 'gemma3_270m'",
        ),
        (
            "rotary_first_order",
            r"rotary_gemma\.datasets names 'imdb_first_order', which is not defined",
        ),
    ],
)
def test_a_study_that_others_refer_to_is_not_removed(project, study, message):
    activate(Path("params.yaml"), "headline")
    with pytest.raises(StudyError, match=message):
        take_out(Path("params.yaml"), study, Path("aside"))
    assert Path(f"studies/{study}.yaml").exists() and not Path("aside").exists()


def test_lines_of_a_study_in_params_yaml_are_named(project):
    begun(Path("params.yaml"))
    with Path("params.yaml").open("a") as file:
        file.write("studies:\n  mine: {title: Mine}\n")
    assert load(Path("params.yaml")).studies["mine"].title == "Mine"
    with pytest.raises(StudyError, match=r"params\.yaml:\d+ has lines of studies\.mine: take them"):
        take_out(Path("params.yaml"), "mine", Path("aside"))


def test_it_asks_first(project):
    path = Path("params.yaml")
    begun(path)
    said("remove", "mine", input="n\n", code=1)
    assert "mine" in load(path).studies
    said("remove", "mine", input="y\n")
    assert "mine" not in load(path).studies


def test_results_are_moved_beside_those_that_are_there(project):
    for folder, text in (("data/studies/mine", "new"), ("data/set_aside/mine", "old")):
        Path(folder, "figures").mkdir(parents=True)
        Path(folder, "figures", f"{text}.svg").write_text(text)
    assert set_aside("mine") == 1 and not Path("data/studies/mine").exists()
    aside = Path("data/set_aside/mine/figures")
    assert {path.read_text() for path in aside.iterdir()} == {"new", "old"}


def test_a_study_that_is_written_again_has_all_its_results_back(project):
    path = Path("params.yaml")
    begun(path)
    written = Path("studies/mine.yaml").read_text()
    folder = Path("data/studies/mine")
    names = ("index.html", "receipts/page/page.json", "figures/layer_similarity.svg")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    said("remove", "mine", "--yes")
    assert not folder.exists()
    Path("studies/mine.yaml").write_text(written)
    activate(path, "mine")
    lines = []
    tidy(load(path), lines.append)
    assert [(folder / name).read_text() for name in names] == list(names)
    assert lines == [
        "brought back from data/set_aside/mine: the study as it was when it was removed"
    ]
    assert not Path("data/set_aside/mine").exists()


# --- posenc show ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study's results, and its numbers by key."""
    written = synthetic.write_inputs(tmp_path_factory.mktemp("study"), "default", ["minilm"])
    root = synthetic.PROJECT
    published, versions = root / "paper/published.yaml", root / "docs/mask-versions.json"
    results = read(written["study"], published, versions, synthetic.measured(written))
    return results, collect(results)


def receipt_of(file, sha256="a" * 64):
    return Receipt("rule", "posenc.step", {"data/x": sha256}, {file: "b" * 64}, {"numpy": "2"})


def measured(numbers, interval=True):
    """A key of an estimate."""
    return next(
        key
        for key, entry in numbers.items()
        if isinstance(entry, Number)
        and (entry.low is not None) == interval
        and numbers.places[key].files
    )


def test_a_number_is_traced_to_its_file_and_job(made):
    results, numbers = made
    key = measured(numbers)
    entry, (file, *_) = numbers[key], numbers.places[key].files
    there = {"data/x": "a" * 64, file: "b" * 64}
    lines = described(key, results, {Path("r.json"): receipt_of(file)}, there.get, "abc")
    text = "\n".join(lines)
    for part in (repr(entry.value), repr(entry.low), repr(entry.high), file, "posenc.step"):
        assert part in text
    assert "current: yes" in text and f"{'a' * 12}  data/x" in text and "numpy 2" in text
    assert lines[-1].endswith("abc")


def test_a_number_of_changed_inputs_is_said_not_to_be_current(made):
    results, numbers = made
    key = measured(numbers)
    (file, *_) = numbers.places[key].files
    there = {"data/x": "c" * 64, file: "b" * 64}
    lines = described(key, results, {Path("r.json"): receipt_of(file)}, there.get, "abc")
    assert "  current: no, data/x changed; run `snakemake`" in lines
    assert "receipt: none" in "\n".join(described(key, results, {}, there.get, "abc"))


def test_what_was_not_run_has_its_reason(made):
    results, numbers = made
    key, entry = next((k, e) for k, e in numbers.items() if isinstance(e, NotRun))
    assert described(key, results, {}, {}.get, "")[-1] == f"  not run: {entry.reason}"


@pytest.mark.parametrize("change", [lambda key: key[:-1], lambda key: key.split(".")[-1]])
def test_an_unknown_number_is_corrected(made, change):
    results, numbers = made
    key = measured(numbers)
    with pytest.raises(UnknownKeyError, match="did you mean one of these") as caught:
        described(change(key), results, {}, {}.get, "")
    suggested = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert {name for name in suggested if " more" not in name} <= set(numbers)
    with pytest.raises(UnknownKeyError, match=r"numbers\.json"):
        described("zzzzzzzzzz", results, {}, {}.get, "")


def test_what_numbers_were_read_from_is_in_their_receipt():
    names = ["data/studies/a/measurements/m.json", "data/training/b/summary.json",
             "data/config/numbers/study.json", "paper/published.yaml", "docs/v.json"]  # fmt: skip
    receipt = Receipt("typeset", "", dict.fromkeys(names, ""), {}, {})
    published, versions, read = measurements_of(receipt)
    assert (str(published), str(versions)) == (names[3], names[4])
    assert list(map(str, read)) == names[:2]


def test_no_number_is_called_as_a_parameter(made):
    """So that `posenc show` knows which of them is meant."""
    _, numbers = made
    assert len(numbers) > 1000
    assert not [key for key in numbers if is_parameter(key)]


def test_without_a_run_there_is_no_number(project):
    assert "has no numbers yet: run `snakemake`" in said("show", "a.b", code=1)


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "before", "after", "message"),
    [
        ("mine", "models: [minilm]\n# Of those", "\tmodels: [minilm]\n# Of those",
         r"studies/mine\.yaml:{line}: not valid YAML: there is a tab"),
        ("mine", "figures: [layer_similarity]\n", "figures: [layer_similarity]\n\t\n",
         r"there is a tab: indent by spaces"),
        ("mine", "split: test, documents: null", "split: '', documents: null",
         r"studies/mine\.yaml:{line}: datasets\.mine\.evaluation\.split: is '': "
         r"should have at least 1 char"),
        ("mine", "split: test, documents: null", "split: train, documents: null",
         r"datasets\.mine\.evaluation reads the split 'train', which has 0 documents, and"),
        ("", "\nmeasurements:\n", "\nmeasurements: []\nx:\n",
         r"measurements: is \[\]: should be a mapping; .+ under studies\.NAME\.measurements"),
        ("", "\nmeasurements:\n", "\nfigures: []\nmeasurements:\n",
         r"figures: is \[\]: should be a mapping; .+ under studies\.NAME\.figures"),
        ("mine", "datasets: [mine]\n", "datasets: []\n",
         r"studies/mine\.yaml:{line}: studies\.mine\.datasets: is \[\]: "
         r"should have at least 1 item$"),
        ("mine", "asks: ", "like: defaul\nasks: ",
         r"studies/mine\.yaml:{line}: studies\.mine\.like names 'defaul', .* mean 'default'\?"),
        ("mine", "\ndefine:\n", "\ndefine:\n  studies: {}\n",
         r"define\.studies: a study defines entries by name, of datasets, models, matrices"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_the_place_and_the_cure(project, study, before, after, message):
    Path("notes.txt").write_text("One document.\nAnother one.\n")
    said("new", "mine", "--text", "notes.txt")
    path = Path("studies/mine.yaml") if study else Path("params.yaml")
    text = path.read_text()
    assert text.count(before) == 1
    line = text[: text.index(before)].count("\n") + 1
    path.write_text(text.replace(before, after))
    output = said("check", code=1)
    assert re.search(f"(?m){message.replace('{line}', str(line))}", output), output


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"texts holds no document; write one per line"),
        ({"a.txt": ""}, r"texts: a\.txt is empty; remove it, or write a text into it"),
        (
            {"a.txt": "One.", "b.csv": "text\nOne.\n"},
            r"texts: b\.csv is a table \(CSV\), and a\.txt is plain text; put",
        ),
    ],
)
def test_a_folder_of_no_texts_is_refused_with_the_file(project, files, message):
    Path("texts").mkdir()
    for name, text in files.items():
        Path("texts", name).write_text(text)
    before = Path("params.yaml").read_bytes()
    assert re.search(message, said("new", "mine", "--text", "texts", code=1))
    assert Path("params.yaml").read_bytes() == before and not Path("studies/mine.yaml").exists()


def test_the_shell_completes_commands_and_studies(project):
    for words, wanted in (
        ("posenc remo", "remove"),
        ("posenc study retraining_", "retraining_fast"),
    ):
        environment = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")),
                       "_POSENC_COMPLETE": "complete_bash"}  # fmt: skip
        program = "from posenc.cli import app; app(prog_name='posenc')"
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT / "workflow")},
        )
        assert done.stdout.split() == [wanted], done.stderr
