"""SHA-256 of files are remembered, and read again whenever the file system says so."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from posenc.artifacts import contents as module
from posenc.artifacts.contents import Contents


@pytest.fixture
def place(tmp_path) -> Path:
    return tmp_path / "memory/contents.jsonl"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file_is_read_once_by_all_processes(place, tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    assert Contents(place).digest(path) == sha(b"one")
    monkeypatch.setattr(module, "sha256_file", lambda path: pytest.fail("it is remembered"))
    assert Contents(place).digest(path) == sha(b"one")


@pytest.mark.parametrize("how", ["written", "replaced", "dated back"])
def test_another_content_is_noticed_also_under_the_same_size_and_date(place, tmp_path, how):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    contents, before = Contents(place), path.stat()
    contents.digest(path)
    if how == "replaced":
        (tmp_path / "b").write_bytes(b"two")
        (tmp_path / "b").replace(path)
    else:
        path.write_bytes(b"two")
    if how != "written":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert contents.digest(path) == sha(b"two")
    assert Contents(place).digest(path) == sha(b"two")


def test_there_is_no_content_without_a_file(place, tmp_path):
    assert Contents(place).digest(tmp_path / "none") is None
    assert Contents(place).digest(tmp_path) is None


def test_lines_that_a_kill_cut_cost_another_reading(place, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    Contents(place).digest(path)
    place.write_text(place.read_text() + '["b", 1, 2', encoding="utf-8")
    assert Contents(place).digest(path) == sha(b"one")
    place.write_bytes(b"\xff\xfe")
    assert Contents(place).digest(path) == sha(b"one")


def test_a_disk_without_room_costs_time_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    contents = Contents(tmp_path / "a/no folder")  # its parent is a file
    assert contents.digest(path) == sha(b"one")


def test_the_memory_does_not_grow_for_ever(place, tmp_path, monkeypatch):
    path = tmp_path / "a"
    contents = Contents(place)
    for turn in range(1100):
        path.write_text(f"{turn}")
        contents.digest(path)
    contents.compact()
    assert len(place.read_text().splitlines()) == 1
    assert Contents(place).digest(path) == sha(b"1099")
