"""Data files that were read as what they are not, or lost documents in silence."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posenc.datasets.errors import DatasetError
from posenc.datasets.look import look
from posenc.study.new import looked_at
from posenc.study.switch import StudyError

from .own_files import parquet_bytes, zstd

LONG = "a line of a long text\n" * 4000


def _written(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _tar(*names: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in names:
            header = tarfile.TarInfo(name)
            header.size = 5
            archive.addfile(header, io.BytesIO(b"words"))
    return file.getvalue()


def _zip(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, f"the text of {name}")
    return file.getvalue()


def _refusal(path: Path, column: str | None = None) -> str:
    with pytest.raises(DatasetError) as caught:
        look(path, column)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message


@pytest.mark.parametrize("header", ["text", "id,text", "id,body"])
@pytest.mark.parametrize("is_quoted", [True, False])
def test_a_table_is_one_however_long_its_first_row(tmp_path, header, is_quoted):
    text = f'"{LONG}"' if is_quoted else LONG.replace("\n", " ")
    before = "1," if "," in header else ""
    path = _written(tmp_path, "t.csv", f"{header}\n{before}{text}\n{before}two\n{before}three\n")
    column = header.rpartition(",")[2]
    assert look(path, column).documents.total() == 3
    if column == "body":
        assert "has no column 'text'" in _refusal(path)
    else:
        assert look(path).documents.total() == 3


@pytest.mark.parametrize("kept", [1024, 2048 + 100])
def test_a_tar_that_is_cut_at_the_edge_of_a_file_is_truncated(tmp_path, kept):
    path = _written(tmp_path, "cut.tar", _tar("a.txt", "b.txt", "c.txt")[:kept])
    assert "is truncated or corrupt" in _refusal(path)


def test_a_tar_with_garbage_between_files_is_corrupt(tmp_path):
    whole = _tar("a.txt", "b.txt", "c.txt")
    path = _written(tmp_path, "bad.tar", whole[:1024] + b"x" * 512 + whole[1536:])
    assert "is truncated or corrupt" in _refusal(path)


def test_a_tar_behind_a_tar_is_not_passed_over(tmp_path):
    path = _written(tmp_path, "two.tar", _tar("a.txt", "b.txt") + _tar("c.txt"))
    assert "behind its end" in _refusal(path)


def test_a_tar_without_padding_is_whole(tmp_path):
    path = _written(tmp_path, "t.tar", _tar("a.txt", "b.txt")[: 2048 + 1024])
    assert look(path).documents.total() == 2


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "is no file" in _refusal(tmp_path / "pipe")
    read, write = os.pipe()
    try:
        assert "is no file" in _refusal(Path(f"/dev/fd/{read}"))
    finally:
        os.close(read)
        os.close(write)


def test_standard_input_is_no_text_of_a_study(tmp_path):
    with (
        _written(tmp_path, "t.txt", "one\ntwo\n").open() as file,
        pytest.raises(StudyError, match="save it as a file"),
    ):
        looked_at(Path(f"/dev/fd/{file.fileno()}"), None)


def test_a_pipe_in_a_folder_is_not_passed_over(tmp_path):
    _written(tmp_path, "a.txt", "one")
    os.mkfifo(tmp_path / "pipe")
    assert "pipe is no file" in _refusal(tmp_path)


@pytest.mark.parametrize("outer", [gzip.compress, zstd])
@pytest.mark.parametrize("inner", [gzip.compress, zstd])
def test_what_is_compressed_twice_is_read(tmp_path, outer, inner):
    path = _written(tmp_path, "t", outer(inner(b"one\ntwo\n")))
    assert look(path).documents.total() == 2


def test_a_skippable_frame_of_zstd_is_skipped(tmp_path):
    frame = b"\x53\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"size"
    path = _written(tmp_path, "t.zst", frame + zstd(b"one\ntwo\n"))
    assert look(path).documents.total() == 2


@pytest.mark.parametrize("value", [["test"], {"name": "test"}, 3])
def test_a_split_that_is_no_text_is_refused(tmp_path, value):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pylist([{"text": "a", "split": value}] * 2), path)
    assert "row 1 has the split" in _refusal(path)


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    folder = tmp_path / "folder"
    _written(folder, os.fsdecode(b"\xff.txt"), "one")
    assert "which is not UTF-8" in _refusal(folder)
    path = _written(tmp_path, "t.tar", _tar("a.txt", os.fsdecode(b"\xff.txt")))
    assert "which is not UTF-8" in _refusal(path)
    with pytest.raises(StudyError, match="not UTF-8"):
        looked_at(_written(tmp_path, os.fsdecode(b"\xff.txt"), "one\ntwo"), None)


@pytest.mark.parametrize("header", ["text,Split", "review,sentiment,Split", "Question,SPLIT"])
def test_a_column_of_splits_in_another_spelling_is_refused(tmp_path, header):
    row = ",".join(["text", "pos", "train"][-header.count(",") - 1 :])
    path = _written(tmp_path, "t.csv", f"{header}\n{row}\n{row}\n")
    assert "'split': rename it" in _refusal(path)


@pytest.mark.parametrize(
    "names",
    [
        ("train-00000-of-00001.parquet", "test-00000-of-00001.parquet"),
        ("data/train.parquet", "data/validation.parquet"),
        ("train/0.parquet", "test/0.parquet"),
    ],
)
def test_files_that_are_called_as_splits_are_refused(tmp_path, names):
    for name in names:
        _written(tmp_path, name, parquet_bytes([{"text": name}]))
    assert "splits" in _refusal(tmp_path)


def test_files_with_a_column_of_splits_are_read(tmp_path):
    for split in ("train", "test"):
        _written(tmp_path, f"{split}.parquet", parquet_bytes([{"text": "a", "split": split}]))
    assert look(tmp_path).documents == {"train": 1, "test": 1}


def test_texts_that_are_called_as_splits_are_refused(tmp_path):
    for split in ("train", "test"):
        _written(tmp_path, f"{split}/0.txt", "a text")
    assert "splits" in _refusal(tmp_path)


def test_a_broken_line_of_json_says_where_it_ends(tmp_path):
    path = _written(tmp_path, "t.jsonl", '{"text": "a"}\n{"text": "b",\n')
    assert "line 2 is not JSON" in (message := _refusal(path))
    assert "character 14" in message


def test_bars_separate_fields(tmp_path):
    path = _written(tmp_path, "t.csv", "id|text\n1|one\n2|two\n")
    assert look(path).documents.total() == 2


@pytest.mark.parametrize("table", ["id,text\n1,one\n2,two\n", '{"text": "one"}\n{"text": "two"}\n'])
@pytest.mark.parametrize("folder", ["", "folder/"])
def test_a_table_below_a_comment_is_refused(tmp_path, table, folder):
    path = _written(tmp_path, f"{folder}t", f"# made in May\n# by hand\n{table}")
    assert "line 3" in _refusal(path.parent if folder else path)


def test_texts_with_headings_are_texts(tmp_path):
    assert look(_written(tmp_path, "t.md", "# A title\n\nA text.\n")).documents.total() == 2


def test_the_first_line_of_excel_is_named(tmp_path):
    path = _written(tmp_path, "t.csv", "sep=;\ntext;label;id\none;1;1\ntwo;0;2\n")
    assert "line 1" in (message := _refusal(path))
    assert "remove it" in message


def test_a_table_without_names_is_told_to_have_some(tmp_path):
    path = _written(tmp_path, "t.csv", '1,"good film"\n2,"bad film"\n')
    assert "write the names of the columns above it" in _refusal(path)


@pytest.mark.parametrize("names", [("mimetype", "content.xml"), ("META-INF/container.xml", "a")])
def test_a_document_of_an_office_program_is_no_folder_of_texts(tmp_path, names):
    assert "office program" in _refusal(_written(tmp_path, "t.odt", _zip(*names)))


def test_hidden_files_of_a_folder_are_refused(tmp_path):
    _written(tmp_path, "a.txt", "a text")
    _written(tmp_path, ".git/config", "[core]")
    assert ".git/config is hidden" in _refusal(tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("pack", [_tar, _zip])
def test_a_name_that_an_archive_has_twice_is_refused(tmp_path, pack):
    assert "a.txt twice" in _refusal(_written(tmp_path, "t", pack("a.txt", "b.txt", "a.txt")))


def test_names_that_only_begin_like_splits_are_none(tmp_path):
    for name in ("testimony.txt", "trains.txt", "valley.txt", "train-1.txt", "train-2.txt"):
        _written(tmp_path, name, "a text")
    assert look(tmp_path).documents.total() == 5
