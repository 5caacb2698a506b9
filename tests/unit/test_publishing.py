"""A study's paper is copied where people can read it, if it exists and is small."""

import re

import pytest
from typer.testing import CliRunner

from posenc import cli
from posenc.artifacts.files import ArtifactError
from posenc.report import publishing

from .synthetic import PROJECT


@pytest.fixture
def project(tmp_path):
    (tmp_path / "data/studies/mine/pdf").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_the_bytes_of_the_last_paper_are_kept(project):
    for content in (b"%PDF-1.7 first", b"%PDF-1.7 second"):
        (project / "data/studies/mine/pdf/paper.pdf").write_bytes(content)
        target = publishing.publish("mine", project)
        assert target == project / "docs/paper-mine.pdf"
        assert target.read_bytes() == content


def test_a_paper_that_is_missing_names_the_way_out(project):
    with pytest.raises(ArtifactError, match=r"paper\.pdf is missing: let studies\.mine\.documents"):
        publishing.publish("mine", project)


def test_a_paper_that_is_too_large_leaves_the_one_before(project):
    paper = project / "data/studies/mine/pdf/paper.pdf"
    paper.write_bytes(b"small")
    target = publishing.publish("mine", project)
    paper.write_bytes(b"x" * (publishing.MOST + 1))
    with pytest.raises(ArtifactError, match=re.escape("has 3,000,001 bytes")):
        publishing.publish("mine", project)
    assert target.read_bytes() == b"small"


def test_what_is_not_current_is_not_published(monkeypatch):
    monkeypatch.chdir(PROJECT)
    monkeypatch.setattr(cli.results, "_is_current", lambda: False)
    done = CliRunner().invoke(cli.app, ["publish"])
    assert done.exit_code == 1 and "run `snakemake` first" in done.output
