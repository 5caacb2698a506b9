"""A document names the commit that it is made of, or what leads to it where there is none yet."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from posenc.artifacts.receipts import inputs_digest
from posenc.steps.latex import commit, dated, named

READ = {"paper/paper.tex": "1" * 64, "data/studies/mine/figures/a.pdf": "2" * 64}


def git(folder: Path, *arguments: str) -> str:
    author = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    command = ["git", *author, *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A repository with a document, and with a file that no document is made of."""
    (tmp_path / "paper").mkdir()
    for name in ("paper/paper.tex", "params.yaml", "README.md"):
        (tmp_path / name).write_text("first")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_what_is_committed_is_named_by_its_commit(checkout):
    digits = git(checkout, "rev-parse", "HEAD")[:12]
    (checkout / "README.md").write_text("of no account")
    assert named(checkout / "paper/paper.tex", READ) == commit(checkout) == digits


def test_what_is_not_committed_is_named_by_its_inputs_as_well(checkout):
    """The record has them too, so that a search of the history finds the commit that comes."""
    digits = git(checkout, "rev-parse", "HEAD")[:12]
    (checkout / "params.yaml").write_text("second")
    assert commit(checkout) == f"{digits}+"
    name = named(checkout / "paper/paper.tex", READ)
    assert name == f"{digits}+ (inputs {inputs_digest(READ)})"
    assert name != named(checkout / "paper/paper.tex", {**READ, "paper/paper.tex": "3" * 64})


def test_a_document_has_the_day_of_the_last_commit_that_changed_what_it_is_made_of(
    checkout, monkeypatch
):
    days = {"params.yaml": "2024-02-29", "README.md": "2025-01-01"}
    for name, day in days.items():
        (checkout / name).write_text(day)
        git(checkout, "add", name)
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{day}T12:00:00Z")
        git(checkout, "commit", "--quiet", "--message", name)
    assert dated(checkout / "paper/paper.tex") == days["params.yaml"]


def test_outside_a_checkout_the_inputs_are_all_that_is_named(tmp_path):
    (tmp_path / "paper").mkdir()
    assert commit(tmp_path) == ""
    name = named(tmp_path / "paper/paper.tex", READ)
    assert name.strip() == f"(inputs {inputs_digest(READ)})"
    assert dated(tmp_path / "paper/paper.tex") == ""
