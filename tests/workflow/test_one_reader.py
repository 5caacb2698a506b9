"""All three commands read params.yaml alike, and refuse it before any job starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.conftest import ROOT, Project, bare_project

COMMANDS = {
    "check": ("posenc", "check"),
    "snakemake": ("snakemake", "--cores", "1", "--", "data/documents/sample_reviews.parquet"),
    "dvc": ("dvc", "repro", "documents@default"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """The project without data, in a repository of DVC alone."""
    return bare_project(tmp_path_factory.mktemp("project"))


def write(project: Project, before: str, after: str) -> int:
    """Write params.yaml with one edit, and return its line."""
    text = (ROOT / "params.yaml").read_text()
    assert before in text
    (project.folder / "params.yaml").write_text(text.replace(before, after, 1))
    return text[: text.index(before)].count("\n") + 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("max_tokens: 256", "max_tokens: 020000", "'020000' without quotes is 20000"),
        ("learning_rate: 2.0e-3", "learning_rate: .inf", "learning_rate: is inf: should be a fin"),
        ("sample_questions:", "long:", "'long' names a file of the workflow"),
    ],
    ids=["octal", "infinite", "reserved"],
)
def test_each_command_refuses_it_with_the_line(project, command, before, after, said):
    """One per check of the reader; all that it refuses: tests/unit/test_yaml_file.py."""
    line = write(project, before, after)
    result = project.run(*COMMANDS[command], check=False)
    assert result.returncode
    assert f"params.yaml:{line}: " in result.stdout and said in result.stdout
    assert result.stdout.count(said) == 1 and "Traceback" not in result.stdout
    assert not Path(project.folder, "data/raw").exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("study: default", "study: {name: default}"),
        ("    max_tokens: 256\n", "    max_tokens: 256\n" * 2),
    ],
    ids=["no name", "a key twice"],
)
def test_what_dvc_itself_cannot_read_starts_no_job(project, command, before, after):
    line = write(project, before, after)
    result = project.run(*COMMANDS[command], check=False)
    assert result.returncode and "Traceback" not in result.stdout
    assert not Path(project.folder, "data/raw").exists()
    if command != "dvc":  # it says so in its own words
        assert f"params.yaml:{line + after.count('max_tokens') // 2}: " in result.stdout


def test_numbers_in_scientific_notation_are_numbers_to_all(project):
    """`dvc exp run -S` writes them so."""
    write(project, "learning_rate: 2.0e-3", "learning_rate: 5e-05")
    planned = project.run("snakemake", "--cores", "1", "--dry-run", *COMMANDS["snakemake"][3:])
    assert "documents" in planned.stdout
    for command in (COMMANDS["check"], ("posenc", "check", "--write")):
        project.run(*command)
    written = (project.folder / "data/config/models/decoder.train.json").read_text()
    assert '"learning_rate": 5e-05' in written


def test_config_chooses_the_study_of_one_call(project):
    write(project, "study: default", "study: default")
    for study, dataset in (("real", "imdb"), ("default", "sample_reviews")):
        arguments = ("--cores", "1", "--dry-run", "--config", f"study={study}")
        planned = project.run("snakemake", *arguments, "--", f"data/documents/{dataset}.parquet")
        assert "documents" in planned.stdout
    result = project.run(
        "snakemake", "--cores", "1", "--dry-run", "--config", "seed=3", check=False
    )
    assert "--config: seed: only study=NAME is taken" in result.stdout and result.returncode
