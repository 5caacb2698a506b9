"""A study of one's own files: what `posenc new`, `check` and `repin` make of them."""

from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from posenc.artifacts.files import ArtifactError, sha256_file, write_checksums
from posenc.cli import app
from posenc.datasets.documents import write_documents
from posenc.datasets.errors import DatasetError
from posenc.datasets.look import look
from posenc.datasets.parsing import parse
from posenc.study.new import write_study
from posenc.study.params import load
from posenc.study.repin import write_checksum
from posenc.study.sources import of_dataset
from posenc.study.switch import StudyError
from tests.copies import ROOT, copy_params

from .own_files import csv_bytes, json_lines, parquet_bytes, zip_bytes
from .raw_files import REVIEWS, archive
from .test_own_files import NAMES

ROWS = [{"id": 1, "body": "One text."}, {"id": 2, "body": "Another, longer one."}]
QUESTIONS = [{"Question": "Is it?", "Best Answer": "No"}, {"Question": "Why?", "Best Answer": ""}]
LABELLED = [
    {"review": "Good.", "sentiment": "positive"},
    {"review": "Bad.", "sentiment": "negative"},
]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the shipped parameters."""
    (tmp_path / "project").mkdir()
    copy_params(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def begun(project, path, column=None):
    """A study of a file, and the parameters then."""
    write_study(project / "params.yaml", "mine", "minilm", path, column)
    return load(project / "params.yaml")


# --- posenc new -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("a.txt", b"One.\nTwo, then.\n",
         "plain text, UTF-8, 2 rows, 2 documents, 14 characters, 16 bytes, read as format: text"),
        ("a.txt", "文書一\n文書二\n".encode("utf-16"),
         "plain text, UTF-16, 2 rows, 2 documents, 6 characters, 18 bytes, read as format: text"),
        ("a", b"text,n\r\nOne.,1\r\n,\r\nTwo.,2\r\n",
         "CSV, UTF-8, columns 'text', 'n', 3 rows, 2 documents, 8 characters, 27 bytes, read as "
         "format: text; skipped rows without a value (1)"),
        ("a.csv", csv_bytes(LABELLED, encoding="utf-8-sig"),
         "CSV, UTF-8 with a mark, columns 'review', 'sentiment', 2 rows, 2 documents, 9 "
         "characters, 49 bytes, read as format: imdb"),
        ("a.csv", csv_bytes(QUESTIONS),
         "CSV, UTF-8, columns 'Question', 'Best Answer', 2 rows, 2 documents, 10 characters, 39 "
         "bytes, read as format: truthfulqa"),
    ],
)  # fmt: skip
def test_what_a_file_holds_is_said(tmp_path, name, body, said):
    (tmp_path / name).write_bytes(body)
    assert look(tmp_path / name).summary == f"{tmp_path / name}: {said}"


def test_what_an_archive_holds_is_said(tmp_path):
    path = archive(tmp_path / "a", {**REVIEWS, "aclImdb/.DS_Store": b"\0"})
    said = look(path).summary
    assert f"{path}: tar of 7 files, 5 documents (train 1, test 3, unsup 1), " in said
    assert said.endswith("read as format: imdb; skipped .DS_Store (1)")


FORMS = {
    "csv": (csv_bytes(ROWS), "body", "text"),
    "parquet": (parquet_bytes(ROWS), None, "text"),
    "json": (json_lines(ROWS), "body", "text"),
    "questions": (csv_bytes(QUESTIONS), None, "truthfulqa"),
    "reviews": (csv_bytes(LABELLED), None, "imdb"),
    "archive": (zip_bytes({"aclImdb/test/pos/0_9.txt": b"a", "aclImdb/test/neg/0_1.txt": b"b"}),
                None, "imdb"),
    "texts": (zip_bytes({"1.txt": b"one", "2.txt": b"two"}), None, "text"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_new_study_reads_what_people_have(project, form):
    body, column, format = FORMS[form]
    path = project.parent / "mine.dat"
    path.write_bytes(body)
    params = begun(project, path, column)
    section = params.datasets["mine"]
    assert section.format == format and section.column == column
    documents = list(parse(path, section.content))
    assert sum(document["split"] == section.evaluation.split for document in documents) == 2
    assert list(of_dataset(params, "mine")) == []


def test_a_new_study_of_a_folder(project):
    folder = project.parent / "my notes, all"
    folder.mkdir()
    for name in ("1.txt", "2.txt", "Thumbs.db"):
        (folder / name).write_text(f"Text of {name}")
    params = begun(project, folder)
    assert list(of_dataset(params, "mine")) == []
    assert look(folder).summary.endswith("read as format: text; skipped Thumbs.db (1)")


def test_a_folder_of_reviews_is_known_by_its_layout(project):
    for name in ("train/pos/0_9.txt", "test/pos/0_9.txt", "test/neg/0_1.txt", "README"):
        path = project.parent / "reviews/aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Text of {name}")
    with pytest.raises(
        DatasetError, match=r"reviews has its reviews in aclImdb; name \S+/aclImdb$"
    ):
        look(project.parent / "reviews")
    params = begun(project, project.parent / "reviews/aclImdb")
    assert params.datasets["mine"].format == "imdb"
    assert params.datasets["mine"].evaluation.split == "test"
    assert list(of_dataset(params, "mine")) == []


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(NAMES)
def test_files_may_be_called_anything(project, name):
    (project / "studies/mine.yaml").unlink(missing_ok=True)
    path = project.parent / "files" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("One.\nTwo.\n")
    try:
        params = begun(project, path)
    except ValueError as error:
        # Text of another direction, which no document can print.
        assert "contains the control character" in str(error)
        return
    assert params.datasets["mine"].source.path == str(path)
    assert list(of_dataset(params, "mine")) == []
    path.unlink()


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["本文", "the text", "a: b", "#1", "it's", '"q"', "null", "1", "{x}, y", "a.b"])
)
def test_columns_may_be_called_anything(project, column):
    (project / "studies/mine.yaml").unlink(missing_ok=True)
    path = project.parent / "a.csv"
    path.write_bytes(csv_bytes([{"n": 1, column: "One."}, {"n": 2, column: "Two."}]))
    params = begun(project, path, column)
    assert params.datasets["mine"].column == column
    assert list(of_dataset(params, "mine")) == []


def test_a_column_is_asked_for(project):
    path = project.parent / "a.csv"
    path.write_bytes(csv_bytes(ROWS))
    before = (project / "params.yaml").read_bytes()
    with pytest.raises(DatasetError, match=r"a\.csv has no column 'text' \(it has 'id', 'body'\)"):
        begun(project, path)
    with pytest.raises(DatasetError, match=r"no column 'boddy' \(it has 'id', 'body'\)"):
        begun(project, path, "boddy")
    with pytest.raises(StudyError, match="--column body is of a table: name it as --text FILE"):
        begun(project, None, "body")
    assert (project / "params.yaml").read_bytes() == before


def test_a_large_file_is_begun_with_a_part(project):
    path = project.parent / "a.txt"
    path.write_text("".join(f"Text {number}.\n" for number in range(1001)))
    said = write_study(project / "params.yaml", "mine", "minilm", path)
    assert said[1].startswith("1,000 of the 1,001 documents of the split test are evaluated")
    assert load(project / "params.yaml").datasets["mine"].evaluation.documents == 1000


def test_one_document_is_too_few(project):
    path = project.parent / "a.txt"
    path.write_text("One.\n")
    with pytest.raises(StudyError, match="has too few documents"):
        begun(project, path)


# --- posenc check ---------------------------------------------------------------------------------


def changed(path, body: bytes) -> str:
    """The checksum of a file once it has other content."""
    path.write_bytes(body)
    return sha256_file(path)


def test_a_fault_is_seen_before_a_run(project):
    path = project.parent / "a.txt"
    path.write_text("One.\nTwo.\n")
    begun(project, path)
    new = changed(path, b"One.\nTwo\x00\n")
    (line,) = of_dataset(load(project / "params.yaml"), "mine")
    assert f"run `posenc repin mine`, which writes `sha256: {new}` there" in line
    write_checksum(project / "params.yaml", "mine")
    (line,) = of_dataset(load(project / "params.yaml"), "mine")
    assert line == (
        f"{path}: line 2 holds a NUL character (character 4); remove it, and run "
        f"`posenc repin mine`"
    )


def test_a_fault_is_seen_in_what_was_fetched(project):
    """Until documents are made of it, even where the user's file is gone."""
    path = project.parent / "a.txt"
    path.write_text("One.\nTwo.\n")
    begun(project, path)
    changed(path, b"One.\n\xff\n")
    write_checksum(project / "params.yaml", "mine")
    params = load(project / "params.yaml")
    section = params.datasets["mine"]
    copy = project / "data/raw/mine/raw"
    copy.parent.mkdir(parents=True)
    shutil.move(path, copy)
    checksums = copy.with_name(f"{copy.name}.json")
    write_checksums(checksums, copy.name, source=section.source.model_dump())
    (line,) = of_dataset(params, "mine")
    assert line.startswith(f"{path}: line 2 holds the byte 0xff")
    # Documents of this very file, made by another reader, are believed.
    write_documents(
        [],
        project / "data/documents/mine.parquet",
        section.content,
        {"raw": {"name": copy.name, "sha256": sha256_file(copy)}},
    )
    assert list(of_dataset(params, "mine")) == []
    # A copy of another source is none of this one.
    write_checksums(checksums, copy.name, source={**section.source.model_dump(), "path": "other"})
    (line,) = of_dataset(params, "mine")
    assert "no such file" in line


# --- posenc repin ---------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_checksum_is_written_and_nothing_else(project, end):
    path = project.parent / "a.txt"
    path.write_text("One.\nTwo.\n")
    begun(project, path)
    params, file = project / "params.yaml", project / "studies/mine.yaml"
    text = file.read_text().replace("\n", end) + f"# A last comment.{end}"
    file.write_bytes(text.encode())
    old = sha256_file(path)
    new = changed(path, b"One.\nThree.\n")
    assert write_checksum(params, "mine").endswith(f"datasets.mine.source.sha256 is now {new}")
    assert file.read_bytes() == text.replace(old, new).encode()
    assert write_checksum(params, "mine").endswith("stays as it is")
    assert file.read_bytes() == text.replace(old, new).encode()


def test_what_cannot_be_repinned_is_explained(project):
    params = project / "params.yaml"
    path = project.parent / "a.txt"
    path.write_text("One.\nTwo.\n")
    begun(project, path)
    with pytest.raises(StudyError, match=r"no data set 'mien'; did you mean 'mine'"):
        write_checksum(params, "mien")
    with pytest.raises(StudyError, match=r"sample_reviews\.source\.kind is 'sample', and only a f"):
        write_checksum(params, "sample_reviews")
    # Another data set that is like it would change too.
    file = project / "studies/mine.yaml"
    twin = file.read_text().replace("  datasets:\n", "  datasets:\n    twin: {like: mine}\n", 1)
    file.write_text(twin)
    new = changed(path, b"One.\nThree.\n")
    with pytest.raises(ArtifactError, match=rf"changed there alone: write `sha256: {new}`"):
        write_checksum(params, "mine")
    assert file.read_text() == twin
    path.unlink()
    with pytest.raises(DatasetError, match="no such file"):
        write_checksum(params, "mine")


def test_the_commands_end_with_one_line(project):
    path = project.parent / "a.csv"
    path.write_bytes(csv_bytes(ROWS))
    run = CliRunner()
    done = run.invoke(app, ["new", "mine", "--text", str(path)])
    assert done.exit_code == 1 and done.output.count("\n") == 1
    assert done.output.startswith(f"error: {path} has no column 'text' (it has 'id', 'body')")
    begun(project, path, "body")
    path.write_bytes(csv_bytes([*ROWS, {"id": 3, "body": ""}]))
    done = run.invoke(app, ["repin", "mine"])
    assert done.exit_code == 1
    pinned, problem = done.output.splitlines()
    assert pinned.endswith(sha256_file(path))
    assert problem.startswith(f"error: {path}: line 4, column 'body' is empty")
    path.write_bytes(csv_bytes(ROWS))
    assert run.invoke(app, ["repin", "mine"]).exit_code == 0


def test_the_schema_knows_the_columns():
    schema = json.loads((ROOT / "workflow/schemas/params.schema.json").read_text())
    assert {"column", "label"} <= schema["$defs"]["Dataset"]["properties"].keys()
