"""A parameter is shown with its value, where that comes from, and the jobs it reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from posenc.cli import app
from posenc.study import configs
from posenc.study.params import Params, load, validate
from posenc.study.shown import UnknownParameterError, described, is_parameter, reach
from tests.copies import copy_params

from .test_params import changed, raw  # noqa: F401

ROOT = Path(__file__).parents[2]


def shown(tmp_path: Path, key: str, study: str | None = None, **edits: str) -> list[str]:
    """What is said of a parameter, in a copy of the shipped file with lines added to sections."""
    path = tmp_path / "params.yaml"
    if not path.exists():
        copy_params(tmp_path)
    text = (ROOT / "params.yaml").read_text()
    for before, after in edits.items():
        assert f"\n{before}:\n" in text
        text = text.replace(f"\n{before}:\n", f"\n{before}:\n{after}\n", 1)
    path.write_text(text)
    return described(load(path, None if study is None else {"study": study}), key, path)


def line_of(path: Path, text: str) -> int:
    return path.read_text().splitlines().index(text) + 1


def test_a_default_is_shown_with_its_declaration(tmp_path):
    first, said, *others = shown(tmp_path, "measurements.similarity.baseline_pairs")
    assert first == "measurements.similarity.baseline_pairs: 20000"
    assert said.startswith("  Random token pairs of the intact model")
    (origin,) = (line for line in others if line.startswith("  from: default, "))
    file, line = origin.removeprefix("  from: default, ").rsplit(":", 1)
    source = (ROOT / file).read_text().splitlines()[int(line) - 1]
    assert source.strip().startswith("baseline_pairs: ") and source.endswith("= 20_000")
    assert "    measurements/similarity: decoder, minilm" in others


def test_a_default_that_many_share_is_shown_at_its_field(tmp_path):
    first, said, origin, *_ = shown(tmp_path, "measurements.lags.seed")
    assert first.endswith(": 0") and said == "  Seed of the random generator."
    assert origin.startswith("  from: default, workflow/posenc/measurements/lags/declaration.py:")


def test_the_size_of_a_figure_is_of_its_entry(tmp_path):
    first, _, origin, *others = shown(tmp_path, "figures.perplexity.width")
    assert first == "figures.perplexity.width: 3.3"
    assert origin == "  from: default, workflow/posenc/measurements/perplexity/quantities.py"
    assert "    figures: perplexity" in others


def test_a_value_of_the_file_is_shown_with_its_line(tmp_path):
    lines = shown(tmp_path, "measurements.norms.folds", measurements="  norms: {folds: 7}")
    path = tmp_path / "params.yaml"
    assert lines[0] == "measurements.norms.folds: 7"
    assert f"  from: {path}:{line_of(path, '  norms: {folds: 7}')}" in lines


def test_a_value_that_is_merged_is_shown_where_it_stands(tmp_path):
    lines = shown(tmp_path, "models.scheme_alibi.source.n_layers")
    path = tmp_path / "params.yaml"
    assert lines[0] == "models.scheme_alibi.source.n_layers: 3"
    written = path.read_text().splitlines()
    origin = next(line for line in lines if line.startswith("  from: "))
    assert written[int(origin.rsplit(":", 1)[1]) - 1] == "      n_layers: 3"


def test_a_study_s_own_value_is_shown_as_its_own(tmp_path):
    lines = shown(tmp_path, "measurements.spectra.window", "questions")
    path = tmp_path / "studies/questions.yaml"
    assert lines[0] == "measurements.spectra.window: 12"
    line = line_of(path, "  spectra: {documents: null, window: 12}")
    assert f"  from: {path}:{line}, parameters of the study questions" in lines
    assert any("of the study questions" in text for text in lines[3:])
    # Null is a value like others: all documents.
    assert shown(tmp_path, "measurements.spectra.documents", "questions")[0].endswith(": null")
    assert shown(tmp_path, "measurements.spectra.window")[0].endswith(": 64")


def test_a_section_is_shown_key_by_key(tmp_path):
    lines = shown(tmp_path, "measurements.spectra", measurements="  spectra: {window: 16}")
    assert lines[0] == "measurements.spectra"
    assert lines[1] == "  Hidden states, queries and keys as signals along the sequence (C1, C2)."
    values = {line.split(":")[0].strip(): line for line in lines if line.endswith(")")}
    path = tmp_path / "params.yaml"
    assert values["window"].endswith(f"16  ({path}:{line_of(path, '  spectra: {window: 16}')})")
    assert "0.95  (default, " in values["confidence"]
    assert "    measurements/spectra: decoder, minilm" in lines


def test_whole_sections_the_study_and_labels_have_lines(tmp_path):
    assert "  rotary_heads:" in "\n".join(shown(tmp_path, "studies"))
    assert "studies/rotary_heads.yaml:1)" in "\n".join(shown(tmp_path, "studies"))
    assert any(line.startswith("  similarity: ") for line in shown(tmp_path, "measurements"))
    assert any(line.startswith('  models: ["minilm"') for line in shown(tmp_path, "study"))
    assert shown(tmp_path, "study.models.0")[0] == 'study.models.0: "minilm"'
    label, origin, *_ = shown(tmp_path, "figures.style.labels.zero")
    assert label.endswith('"no positions"')
    assert origin.startswith("  from: workflow/posenc/conditions/catalogue.yaml:")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("measurements.similarty", "there is no 'similarty' in measurements; did you mean 'simila"),
        ("measurements.similarity.sed", "no 'sed' in measurements.similarity; did you mean 'seed'"),
        ("models.minilm.max_tokens.x", "models.minilm.max_tokens is 256, which has no parts"),
        ("studies.default.models.9", "there is no '9' in studies.default.models; known: 0, 1, 2"),
    ],
)
def test_an_unknown_parameter_is_corrected(tmp_path, key, message):
    with pytest.raises(UnknownParameterError) as caught:
        shown(tmp_path, key)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_what_reaches_another_study_alone_reaches_nothing(tmp_path):
    key = "datasets.imdb.source.sha256"
    assert shown(tmp_path, key)[-1] == "  reaches: nothing of the study default"
    assert shown(tmp_path, key, "real")[-1] == "    raw_text: imdb.fetch"


def test_reach_is_what_an_edit_changes(raw):  # noqa: F811
    """Compared with a second file, in which the value differs."""
    params = validate(raw)
    before = dict(configs.of_parameters(params))
    for key, value in (
        ("measurements.conditions.seed", 9),
        ("activations.dtype", "float32"),
        ("masks.fitted.steps", 9),
        ("figures.spectra.height", 3.0),
        ("models.decoder.source.steps", 401),
        ("datasets.sample_reviews.text.normalization", "none"),
        ("models.bert.max_tokens", 500),
        ("experiments.downstream.sample.max_tokens", 9),
    ):
        after = dict(configs.of_parameters(validate(changed(raw, key, value))))
        expected = {path for path in before if before[path] != after[path]}
        assert reach(params, key.split(".")) == expected, key


def test_numbers_and_parameters_are_told_apart():
    assert is_parameter("measurements.similarity") and is_parameter("study")
    assert not is_parameter("decoder.reviews.zero.perplexity.delta")
    assert not is_parameter("memory_networks.seeds")
    assert {"measurements", "figures", "models"} <= set(Params.model_fields)


def test_the_command_says_it(tmp_path, monkeypatch):
    copy_params(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert isinstance(app, typer.Typer)

    def run(*words: str):
        return CliRunner().invoke(app, ["show", *words])

    result = run("measurements.spectra.window", "--study", "questions")
    assert result.exit_code == 0 and result.output.startswith("measurements.spectra.window: 12\n")
    wrong = run("measurements.spectra.windo")
    assert wrong.exit_code == 1 and "did you mean 'window'" in wrong.output
    other = run("measurements.spectra", "--study", "question")
    assert other.exit_code == 1 and "did you mean 'questions'" in other.output
    for written, meant in (
        ("measurement.spectra", "measurements.spectra"),
        ("spectra.window", "measurements.spectra.window"),
        ("title", "study.title"),
        ("decoder", "models.decoder"),
    ):
        hint = f"has no numbers yet: run `snakemake`; did you mean the parameter {meant!r}?"
        assert hint in run(written).output
    assert "path begins with 'measurements'" in run("measurement.spectr").output
    assert "(catalogue, and `shown_as` of entries)" in run("figures.style").output
    assert run("a.b").output.endswith("has no numbers yet: run `snakemake`\n")


def test_what_a_study_does_not_set_is_shown_as_what_it_has(tmp_path, monkeypatch):
    copy_params(tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        return CliRunner().invoke(app, ["show", *words]).output

    assert run("studies.default.parameters.heads.offsets").startswith(
        "studies.default.parameters.heads.offsets: not set; the study has\n"
        "  measurements.heads.offsets: "
    )
    assert run("studies.default.parameters.spectra") == (
        "studies.default.parameters.spectra: nothing is set: all is as in measurements\n"
    )
