"""Files are recognised by their bytes, and compared with what they were made of."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from pathlib import Path

import pytest
from snakemake.persistence.file import FilePersistence

from posenc.artifacts.files import write_sealed
from posenc.study import ledger as module
from posenc.study.ledger import PLACE, Ledger, LedgerError
from posenc.study.records import (
    INCOMPLETE,
    RECORDS,
    benchmark_of,
    read_record,
    record_path,
    was_edited_meanwhile,
)


@pytest.fixture
def persistence(tmp_path, monkeypatch) -> FilePersistence:
    """Snakemake's own records, in an empty project that is the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    return FilePersistence(path=Path(".snakemake"))


def checksum(path: str) -> str:
    return "sha256:" + hashlib.sha256(Path(path).read_bytes()).hexdigest()


def finish(persistence, path: str, *inputs: str, **more) -> dict:
    """Record a job as Snakemake does when it ends."""
    end = Path(path).stat().st_mtime
    record = {
        "rule": "make", "input": sorted(inputs), "starttime": end - 1, "endtime": end,
        "log": ["logs/make/x.1.log"],
        "input_checksums": {name: checksum(name) for name in inputs}, **more,
    }  # fmt: skip
    persistence._io_write(persistence._metadata_path, record, path)
    benchmark = Path("logs/benchmarks/make/x.1.tsv")
    benchmark.parent.mkdir(parents=True, exist_ok=True)
    benchmark.touch()
    return record


def test_the_record_of_a_job_that_failed_is_not_believed(persistence):
    """Snakemake touches the benchmark last, and only when the job has succeeded."""
    path = Path("data/a")
    path.write_text("a")
    record = finish(persistence, "data/a")
    assert read_record(path) == record
    benchmark = benchmark_of(record)
    made = path.stat().st_mtime
    os.utime(benchmark, (made, made))
    assert read_record(path) == record
    os.utime(benchmark, (made - 0.01, made - 0.01))
    assert read_record(path) is None
    benchmark.unlink()
    assert read_record(path) is None
    assert benchmark_of({"log": ["logs/capture/m.1-of-2.log"]}) == Path(
        "logs/benchmarks/capture/m.1-of-2.tsv"
    )


def test_records_are_named_as_snakemake_names_them(persistence):
    """Short names, and long ones that are split, at every length around where they are."""
    for kind, folder in (
        (RECORDS, persistence._metadata_path),
        (INCOMPLETE, persistence._incomplete_path),
    ):
        assert Path(folder).resolve() == kind.resolve()
        deepest = 0
        for length in range(1, 800):
            path = Path(("data/ａ-" + "x" * length)[:length])
            expected = Path(persistence._record_path(str(kind), str(path)))
            assert record_path(path, kind) == expected, length
            deepest = max(deepest, len(expected.relative_to(kind).parts))
        assert deepest > 3


@pytest.mark.parametrize("path", ["data/a.json", "data/" + "long" * 60 + "/a.json"])
def test_a_record_belongs_to_a_file_of_its_date_alone(persistence, path):
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("a")
    assert read_record(file) is None, "there is no record"
    record = finish(persistence, path)
    assert read_record(file) == record
    stamp = file.stat().st_mtime
    for other in (stamp - 1, stamp + 1e-6, stamp + 1):
        os.utime(file, (other, other))
        assert read_record(file) is None
    os.utime(file, (stamp, stamp))
    # A job that was killed has left its mark.
    persistence._mark_incomplete(path, None)
    assert read_record(file) is None
    persistence._unmark_incomplete(path)
    assert read_record(file) == record
    for broken in ("", "{", '{"a": 1, "endtime": ' + repr(stamp)):
        record_path(file).write_text(broken)
        assert read_record(file) is None


def test_contents_are_read_again_when_a_file_may_be_another(persistence, monkeypatch):
    """Date, size and inode are each enough; an unchanged file is read once for all runs."""
    read = []
    original = module.sha256_file
    monkeypatch.setattr(module, "sha256_file", lambda path: read.append(path) or original(path))
    path = Path("data/a")
    path.write_text("one")
    with Ledger() as ledger:
        first = ledger.content(path)
        assert first == hashlib.sha256(b"one").hexdigest()
    with Ledger() as ledger:
        assert ledger.content(path) == first
        assert len(read) == 1
        stat = path.stat()
        path.write_text("two")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
        assert ledger.content(path) == hashlib.sha256(b"two").hexdigest(), "another date"
        path.write_text("three")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
        assert ledger.content(path) == hashlib.sha256(b"three").hexdigest(), "another size"
        Path("data/b").write_text("seven")
        os.utime("data/b", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
        os.replace("data/b", path)
        assert ledger.content(path) == hashlib.sha256(b"seven").hexdigest(), "another inode"
        path.unlink()
        assert ledger.content(path) is None
        assert ledger.content("data/a/b") is None


def test_a_file_is_recognised_whoever_put_it_there(persistence):
    path, source = Path("data/a"), Path("data/config.json")
    for number in (1, 2):
        source.write_text(f"{number}")
        path.write_text(f"made of {number}")
        record = finish(persistence, "data/a", "data/config.json")
        with Ledger() as ledger:
            assert not ledger.is_as_left(path)
            ledger.add(path, record)
            assert ledger.is_as_left(path)
    made = path.stat().st_mtime_ns
    with Ledger() as ledger:
        assert ledger.is_as_left(path)
        assert ledger.changed_inputs(ledger.left_by(path)) == []
    # The first version comes back with a date of today: it was made of something else.
    path.write_text("made of 1")
    with Ledger() as ledger:
        assert not ledger.is_as_left(path)
        (job,) = ledger.made_by(path)
        assert ledger.changed_inputs(job) == ["data/config.json"]
        assert job.mtime < made
    source.write_text("1")
    with Ledger() as ledger:
        assert ledger.changed_inputs(job) == []
        # With its own date and its own record, Snakemake knows it.
        ledger.put_back(path, job)
        assert ledger.is_as_left(path)
    assert path.stat().st_mtime_ns == job.mtime
    written = read_record(path)
    assert written["input_checksums"] == {"data/config.json": checksum("data/config.json")}
    # What nobody made is not recognised.
    path.write_text("made of 3")
    with Ledger() as ledger:
        assert ledger.made_by(path) == []


def test_the_same_bytes_may_be_made_of_different_inputs(persistence):
    """An edit makes a table again that it does not change: both makings are known."""
    path, source = Path("data/a"), Path("data/config.json")
    for number in (1, 2):
        source.write_text(f"{number}")
        path.write_text("the same")
        with Ledger() as ledger:
            ledger.add(path, finish(persistence, "data/a", "data/config.json"))
    with Ledger() as ledger:
        assert [ledger.changed_inputs(job) for job in ledger.made_by(path)] == [
            [], ["data/config.json"],
        ]  # fmt: skip
    source.write_text("1")
    with Ledger() as ledger:
        assert [ledger.changed_inputs(job) for job in ledger.made_by(path)] == [
            ["data/config.json"], [],
        ]  # fmt: skip


def test_a_ledger_of_another_version_is_replaced(persistence):
    with sqlite3.connect(PLACE) as database:
        database.execute("CREATE TABLE made (path TEXT)")
    Path("data/a").write_text("a")
    with Ledger() as ledger:
        ledger.add(Path("data/a"), finish(persistence, "data/a"))
    with Ledger() as ledger:
        assert ledger.is_as_left(Path("data/a"))


def test_an_input_that_is_gone_is_snakemake_s_to_make(persistence):
    Path("data/in").write_text("a")
    Path("data/out").write_text("b")
    record = finish(persistence, "data/out", "data/in")
    with Ledger() as ledger:
        ledger.add(Path("data/out"), record)
        Path("data/in").unlink()
        assert ledger.changed_inputs(ledger.left_by(Path("data/out"))) == []


def test_only_the_last_contents_are_kept(persistence):
    path = Path("data/a")
    with Ledger() as ledger:
        for number in range(module.KEPT + 3):
            path.write_text(f"{number}")
            ledger.add(path, finish(persistence, "data/a", params=[number]))
        ledger.forget_unused()
        known = []
        for number in range(module.KEPT + 3):
            path.write_text(f"{number}")
            known.append(len(ledger.made_by(path)) == 1)
    assert known == [False] * 3 + [True] * module.KEPT
    with sqlite3.connect(PLACE) as database:
        assert database.execute("SELECT count(*) FROM jobs").fetchone() == (module.KEPT,)


def test_a_disk_without_room_is_said_in_one_line(persistence, monkeypatch):
    path = Path("data/a")
    path.write_text("a")
    with (
        pytest.raises(LedgerError, match=r"posenc\.sqlite cannot be written: .*full"),
        Ledger() as ledger,
    ):
        ledger._database.execute("PRAGMA max_page_count = 1")
        for number in range(500):
            ledger.add(path, finish(persistence, "data/a", params=["x" * 500 + str(number)]))


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 cut", b"\0" * 5000])
def test_a_damaged_ledger_is_replaced(persistence, content):
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_bytes(content)
    Path("data/a").write_text("a")
    with Ledger() as ledger:
        ledger.add(Path("data/a"), finish(persistence, "data/a"))
    with Ledger() as ledger:
        assert ledger.is_as_left(Path("data/a"))


def test_an_input_that_was_saved_while_the_job_ran_is_noticed(persistence):
    """Snakemake takes checksums when a job ends: then the new text has made the old document."""
    for name in ("paper.tex", "made.json", "data/config"):
        Path(name).mkdir() if name == "data/config" else Path(name).write_text(name)
    Path("data/config/a.json").write_text("a")
    record = {"input": ["paper.tex", "made.json", "data/config/a.json", "gone"], "starttime": 50.0}
    for name, seconds, expected in (
        ("paper.tex", 49, False),
        ("made.json", 51, False),  # of another job
        ("data/config/a.json", 51, False),  # written by nobody while a run is at work
        ("paper.tex", 51, True),
    ):
        for other in record["input"][:-1]:
            os.utime(other, (40, 40))
        os.utime(name, (seconds, seconds))
        assert was_edited_meanwhile(record, {"made.json"}) is expected, name


def test_a_list_of_masks_stands_for_its_folder(persistence):
    folder = Path("data/masks")
    folder.mkdir()
    (folder / "fitted.safetensors").write_bytes(b"weights")
    arrays = hashlib.sha256(b"weights").hexdigest()
    write_sealed(folder / "fitted.json", {"arrays": arrays})
    digest = hashlib.sha256((folder / "fitted.json").read_bytes()).hexdigest()
    write_sealed(folder / "masks.json", {"model": "m", "masks": {"fitted": digest}})
    path = folder / "masks.json"
    assert module.parts_of(path) == {"fitted.json": digest, "fitted.safetensors": arrays}
    assert module.damaged_part(path) is None
    with Ledger() as ledger:
        ledger.add(path, finish(persistence, str(path)))
        assert ledger.is_as_left(path)
        (folder / "fitted.safetensors").write_bytes(b"weightS")
        assert not ledger.is_as_left(path), "a file beside it changed"
        assert ledger.is_changed_beside(path)
    assert module.damaged_part(path) == folder / "fitted.safetensors"
    (folder / "fitted.safetensors").unlink()
    assert module.damaged_part(path) == folder / "fitted.safetensors"
    (folder / "fitted.safetensors").write_bytes(b"weights")
    path.write_text(path.read_text().replace("m", "n"))
    assert module.damaged_part(path) == path
    # Any other file stands for itself, and tells damage where it has a checksum of its own.
    other = folder / "fitted.json"
    assert module.damaged_part(other) is None
    other.write_text(other.read_text().replace("arrays", "arrayz"))
    assert module.damaged_part(other) == other
    other.write_text('{"arrays": 1}')
    assert module.damaged_part(other) is None


def test_the_record_of_a_file_that_was_put_back_is_snakemake_s(persistence):
    """Snakemake reads it as its own, inputs, checksums and all."""
    Path("data/in").write_text("a")
    Path("data/out").write_text("b")
    record = finish(
        persistence, "data/out", "data/in", params=["1"], code="shell", record_format_version=6
    )
    with Ledger() as ledger:
        ledger.add(Path("data/out"), record)
        record_path(Path("data/out")).unlink()
        persistence._mark_incomplete("data/out", None)
        os.utime("data/out")
        ledger.put_back(Path("data/out"), *ledger.made_by(Path("data/out")))
    persistence._clear_cache()
    read = persistence._read_record("data/out")
    assert read.input == ["data/in"] and read.params == ["1"] and read.code == "shell"
    assert read.input_checksums == json.loads(json.dumps(record["input_checksums"]))
    assert read.endtime == Path("data/out").stat().st_mtime
    assert persistence._filter_incomplete_keys(["data/out"]) == set()


def test_the_record_of_a_removed_input_comes_back(persistence):
    """A receipt is removed once it is read; a later making of it is not the one that counts."""
    for name, content in (("data/edited", "1"), ("data/receipt", "of 1"), ("data/a", "a")):
        Path(name).write_text(content)
    receipt = finish(persistence, "data/receipt", "data/edited")
    record = finish(persistence, "data/a", "data/receipt", "data/edited")
    Path("data/receipt").unlink()
    with Ledger() as ledger:
        ledger.add(Path("data/a"), record)
        (job,) = ledger.made_by(Path("data/a"))
        Path("data/edited").write_text("2")
        Path("data/receipt").write_text("of 2")
        finish(persistence, "data/receipt", "data/edited")
        ledger.put_back_passing(job)
        kept = json.loads(record_path(Path("data/receipt")).read_text())
        assert kept["input_checksums"] != receipt["input_checksums"], "it is there: left alone"
        Path("data/receipt").unlink()
        ledger.put_back_passing(job)
        ledger.put_back(Path("data/a"), job)
    kept = json.loads(record_path(Path("data/receipt")).read_text())
    assert kept["input_checksums"] == receipt["input_checksums"]
    assert "passing" not in json.loads(record_path(Path("data/a")).read_text())
