"""Files carry their checksums: what was altered is found when it is read, and removed."""

from __future__ import annotations

import errno
import json
import re
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posenc.artifacts import imports, provenance
from posenc.artifacts.activations import INDEX
from posenc.artifacts.command import run
from posenc.artifacts.files import (
    CHECKSUMS,
    UNFINISHED,
    ArtifactError,
    DamagedError,
    atomic_file,
    if_whole,
    read_sealed,
    sha256_file,
    verify,
    write_checksums,
    write_json,
    write_sealed,
)
from posenc.artifacts.tables import read_table, write_table

from .damage import flip, flips

VALUE = {"run": {"model": "gpt2", "名前": "Ａ"}, "cosine": [0.7702, 1e-9, -3], "reason": None}
METADATA = {"schema": 1, "run": {"model": "gpt2"}, "files": [{"sha256": "0" * 64}]}


def test_a_sealed_value_is_read_as_written(tmp_path):
    write_sealed(tmp_path / "a.json", VALUE)
    assert read_sealed(tmp_path / "a.json") == VALUE
    # The other way in: any reader of JSON.
    assert json.loads((tmp_path / "a.json").read_text()).keys() == {*VALUE, "sha256"}


@pytest.mark.parametrize("bit", [0x01, 0x04, 0x20, 0x80])
def test_every_flipped_byte_of_a_sealed_file_is_noticed(tmp_path, bit):
    """Also in white space, and where 1e-09 becomes 1E-09."""
    path = tmp_path / "a.json"
    write_sealed(path, VALUE)
    for position in flips(path, bit):
        with pytest.raises(DamagedError, match=r"a\.json") as caught:
            read_sealed(path)
        assert caught.value.path == path, position
    assert read_sealed(path) == VALUE


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"a": 1}', '{"a": 1, "sha256": null}'])
def test_what_has_no_seal_is_damaged(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DamagedError, match=r"a\.json") as caught:
        read_sealed(path)
    assert caught.value.path == path


def test_what_is_not_whole_is_as_if_it_were_not_there(tmp_path, capsys):
    path = tmp_path / "value.json"
    assert if_whole(path, read_sealed) is None
    write_sealed(path, {"a": 1})
    assert if_whole(path, read_sealed) == {"a": 1}
    assert not capsys.readouterr().err
    path.write_text(path.read_text().replace("1", "2", 1))
    assert if_whole(path, read_sealed) is None
    assert f"{path} does not match its own checksum" in capsys.readouterr().err


def test_an_edited_value_and_an_absent_file_are_told_apart(tmp_path):
    path = tmp_path / "a.json"
    write_sealed(path, VALUE)
    write_json(path, {**json.loads(path.read_text()), "reason": "none"})
    with pytest.raises(DamagedError, match="does not match its own checksum"):
        read_sealed(path)
    path.unlink()
    with pytest.raises(ArtifactError, match="does not exist") as caught:
        read_sealed(path)
    assert not isinstance(caught.value, DamagedError), "there is nothing to remove"


def test_files_are_compared_with_the_checksums_beside_them(tmp_path):
    file, other = tmp_path / "one", tmp_path / "other"
    file.write_bytes(b"one")
    other.write_bytes(b"other")
    write_checksums(tmp_path / CHECKSUMS, "one", "other")
    assert read_sealed(tmp_path / CHECKSUMS)["files"]["one"] == sha256_file(file)
    assert verify(file) == file and verify(other) == other
    for damage in (b"onf", b"on", b""):
        file.write_bytes(damage)
        with pytest.raises(DamagedError, match="one does not match its checksum") as caught:
            verify(file)
        assert caught.value.path == file
    verify(other)
    file.unlink()
    with pytest.raises(DamagedError, match="one does not match"):
        verify(file)
    (tmp_path / "third").write_bytes(b"third")
    with pytest.raises(DamagedError, match="third does not match"):
        verify(tmp_path / "third")
    with pytest.raises(DamagedError) as caught:
        verify(flip(tmp_path / CHECKSUMS).with_name("other"))
    assert caught.value.path == tmp_path / CHECKSUMS


@pytest.fixture
def index(tmp_path) -> Path:
    """A table as the steps write it."""
    path = tmp_path / INDEX
    table = pa.table({"document_id": ["a", "b"], "length": pa.array([3, 4], pa.int32())})
    write_table(table, path, METADATA)
    return path


@pytest.mark.parametrize("bit", [0x01, 0x04, 0x20, 0x80])
def test_every_flipped_byte_of_an_index_is_noticed(index, bit):
    """Pages have checksums of their own; names, types, counts and metadata are in the footer."""
    table, _ = read_table(index)
    for position in flips(index, bit):
        with pytest.raises(DamagedError, match=re.escape(str(index))) as caught:
            read_table(index)
        assert caught.value.path == index, position
    assert read_table(index) == (table, METADATA)


@pytest.mark.parametrize("length", [0, 3, 8, 100, -1, -8, -400])
def test_a_truncated_index_is_noticed(index, length):
    index.write_bytes(index.read_bytes()[:length])
    with pytest.raises(DamagedError) as caught:
        read_table(index)
    assert caught.value.path == index


def test_a_table_that_was_written_again_is_noticed(index):
    """Its pages are whole, but its metadata, a column or its length differs."""
    table = pq.read_table(index)
    seal = table.schema.metadata
    for other in (
        table.replace_schema_metadata({**seal, b"posenc": b'{"bos": false}'}),
        table.set_column(1, "length", pa.array([3, 5], pa.int32())),
        table.slice(0, 1),
    ):
        pq.write_table(other, index)
        with pytest.raises(DamagedError, match="does not match its own checksum"):
            read_table(index)


def test_a_table_of_someone_else_is_no_damage(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(ArtifactError, match="not written by this project") as caught:
        read_table(path)
    path.unlink()
    with pytest.raises(ArtifactError, match="does not exist") as absent:
        read_table(path)
    assert not isinstance(caught.value, DamagedError)
    assert not isinstance(absent.value, DamagedError)


def test_the_same_table_is_the_same_bytes(index):
    before = index.read_bytes()
    write_table(pq.read_table(index), index, METADATA)
    assert index.read_bytes() == before
    # The other way in: pyarrow alone, which knows nothing of this package.
    assert pq.read_table(index, page_checksum_verification=True)["length"].to_pylist() == [3, 4]


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (OSError(errno.ENOSPC, "no space"), True),
        (OSError(errno.EDQUOT, "quota"), True),
        (ValueError("I/O error: No space left on device (os error 28)"), True),
        (ValueError("os error 2"), False),
        (OSError(errno.EACCES, "denied"), False),
    ],
)
def test_a_file_that_fails_leaves_the_old_one_and_nothing_else(tmp_path, error, is_full):
    path = tmp_path / "a.json"
    write_json(path, 1)
    with pytest.raises(type(error) if not is_full else OSError) as caught, atomic_file(path) as new:
        new.write_text("half")
        raise error
    if is_full:
        assert caught.value.errno in (errno.ENOSPC, errno.EDQUOT)
        assert caught.value.filename == str(path)
    else:
        assert caught.value is error
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == "1\n"


def test_a_kill_leaves_the_old_file_and_a_hidden_one(tmp_path, monkeypatch):
    """The hidden one has the name by which the next run removes it."""
    path = tmp_path / "a.json"
    write_json(path, 1)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as new:
        new.write_text("half")
        raise KeyboardInterrupt
    (hidden,) = (file for file in tmp_path.iterdir() if file != path)
    assert hidden.name.startswith(".a.json.") and hidden.name.endswith(UNFINISHED)
    assert path.read_text() == "1\n"


@pytest.fixture
def command(monkeypatch, capsys):
    """Run a function as a step's command: its exit code and what it says."""
    handler = signal.getsignal(signal.SIGTERM)

    def ended(function) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["step"])
        with pytest.raises(SystemExit) as caught:
            run(function)
        return caught.value.code, capsys.readouterr().err

    yield ended
    signal.signal(signal.SIGTERM, handler)


def test_a_step_marks_what_is_damaged_and_says_so_in_one_line(command, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("no\nJSON")

    def step() -> None:
        read_sealed(path)

    code, said = command(step)
    assert code == 1 and path.read_text() == "no\nJSON", "nothing is lost"
    assert path.stat().st_mtime == 1, "older than all that it was made of"
    assert said.count("\n") == 1 and said.startswith(f"error: {path} is not valid JSON")
    assert "start again" in said


def test_a_step_keeps_a_file_that_is_only_of_another_make(command, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{}")

    def step() -> None:
        raise ArtifactError(f"{path} is of version 7")

    assert command(step) == (1, f"error: {path} is of version 7\n")
    assert path.exists()


@pytest.mark.parametrize(
    "module",
    [
        "posenc.steps.capture",
        "posenc.measurements.similarity.measure",
        "posenc.measurements.perplexity.measure",
        "posenc.steps.train",
    ],
)
def test_every_file_of_the_code_counts(monkeypatch, module):
    """Modules of the same name in two packages are two files of the code."""
    before, original = provenance.code_digest(module), imports._sha256
    assert provenance.code_digest(module) == before
    ignored = []
    for edited in imports.files(module):
        monkeypatch.setattr(
            imports,
            "_sha256",
            lambda path, edited=edited: "0" * 64 if path == edited else original(path),
        )
        if provenance.code_digest(module) == before:
            ignored.append(edited)
    assert ignored == []
