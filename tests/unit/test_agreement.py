"""What Snakemake is told of the files that are there: nothing stale passes for current."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.artifacts.files import LONG_AGO
from posenc.study import agreement, recovery
from posenc.study.verification import verify_files

# --- A workflow of two jobs under both front ends -------------------------------------------------

SNAKEFILE = """
import sys
from pathlib import Path
from posenc.study import agreement

OUTPUTS = [Path("data/a.json"), Path("data/b.json")]
GONE = []
STANDS_ALONE = workflow.is_main_process and agreement.MARK not in os.environ
if STANDS_ALONE:
    agreement.remember(OUTPUTS)
    GONE = agreement.agree(OUTPUTS, "default", lambda line: print(line, file=sys.stderr))

rule all:
    input: "data/b.json", GONE

rule a:
    input: "a.txt"
    output: update("data/a.json")
    log: "logs/a.log"
    benchmark: "logs/benchmarks/a.tsv"
    shell: "test ! -e fail && cat a.txt > {output}"

rule b:
    input: "data/a.json", "b.txt"
    output: "data/b.json"
    log: "logs/b.log"
    benchmark: "logs/benchmarks/b.tsv"
    shell: "cat {input} > {output}"

onsuccess:
    if STANDS_ALONE: agreement.remember(OUTPUTS)

onerror:
    if STANDS_ALONE: agreement.remember(OUTPUTS)
"""
STAGES = """
stages:
  a:
    cmd: cat a.txt > data/a.json
    deps: [a.txt]
    outs: [data/a.json]
  b:
    cmd: cat data/a.json b.txt > data/b.json
    deps: [data/a.json, b.txt]
    outs: [data/b.json]
"""


class Workflow:
    """Two jobs: data/a.json is a.txt, data/b.json is both."""

    def __init__(self, folder: Path, made: bool = False) -> None:
        self.folder = folder
        if made:
            return
        (folder / "Snakefile").write_text(SNAKEFILE)
        (folder / "dvc.yaml").write_text(STAGES)
        (folder / "a.txt").write_text("a1\n")
        (folder / "b.txt").write_text("b1\n")
        (folder / "params.yaml").write_text("studies: {}\n")
        (folder / "data").mkdir()

    def run(self, *command: str) -> str:
        """What a command prints."""
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        result = subprocess.run(
            command, cwd=self.folder, env=environment, text=True, timeout=120,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return result.stdout

    def snakemake(self, *arguments: str) -> list[str]:
        """Jobs that it runs, or plans."""
        output = self.run("snakemake", "--cores", "1", *arguments)
        assert "Traceback" not in output, output
        return re.findall(r"(?m)^(?:local)?rule (a|b):", output)

    def dvc(self, *arguments: str) -> str:
        if not (self.folder / ".dvc").exists():
            self.run("git", "init", "--quiet")
            self.run("dvc", "init", "--quiet")
        return self.run("dvc", *arguments)

    def write(self, name: str, text: str, date: float | None = None) -> None:
        path = self.folder / name
        path.write_text(text)
        if date is not None:
            os.utime(path, (date, date))

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture(scope="module")
def finished_workflow(tmp_path_factory) -> Path:
    made = Workflow(tmp_path_factory.mktemp("workflow"))
    assert made.snakemake() == ["a", "b"]
    assert made.snakemake() == []
    return made.folder


@pytest.fixture
def workflow(finished_workflow, tmp_path) -> Workflow:
    """A copy of the finished one, dates included."""
    shutil.copytree(finished_workflow, tmp_path / "workflow")
    return Workflow(tmp_path / "workflow", made=True)


def test_after_a_failed_job_the_earlier_result_is_not_current(workflow):
    """Snakemake brings it back under a date that is later than the edit's."""
    workflow.write("a.txt", "a2\n")
    workflow.write("fail", "")
    for _ in range(3):
        assert workflow.snakemake() == ["a"]
        assert workflow.read("data/a.json") == "a1\n"
    assert workflow.snakemake("--keep-going") == ["a"]
    (workflow.folder / "fail").unlink()
    assert workflow.snakemake() == ["a", "b"]
    assert workflow.read("data/b.json") == "a2\nb1\n"


def test_a_failed_edit_that_is_undone_costs_nothing(workflow):
    workflow.write("a.txt", "a2\n")
    workflow.write("fail", "")
    workflow.snakemake()
    workflow.write("a.txt", "a1\n")
    assert workflow.snakemake() == []


def test_an_older_input_of_other_content_is_noticed(workflow):
    """A restored backup has the date that it had."""
    workflow.write("b.txt", "b0\n", date=1e9)
    assert workflow.snakemake() == ["b"]
    assert workflow.read("data/b.json") == "a1\nb0\n"
    assert workflow.snakemake() == []


def test_what_an_edit_reaches_is_planned_for_its_own_reason(workflow):
    workflow.write("b.txt", "b2\n")
    assert "Updated input files: b.txt" in workflow.run("snakemake", "-n", "--cores", "1")


def test_an_earlier_result_is_recognised_wherever_it_comes_from(workflow):
    earlier = workflow.read("data/b.json")
    workflow.write("b.txt", "b2\n")
    assert workflow.snakemake() == ["b"]
    workflow.write("b.txt", "b1\n")
    workflow.write("data/b.json", earlier)
    assert workflow.snakemake() == []
    # It is what it was made of, not its bytes alone, that makes it current.
    workflow.write("b.txt", "b2\n")
    assert workflow.snakemake() == ["b"]


def test_bytes_that_an_edit_did_not_change_are_those_of_both(workflow):
    """Made again of other inputs to the same bytes, a file is current before and after the edit."""
    workflow.write("Snakefile", SNAKEFILE.replace("cat a.txt >", "head -c 1 a.txt >"))
    workflow.snakemake()
    workflow.write("a.txt", "another a\n")
    assert workflow.snakemake() == ["a", "b"]
    workflow.write("a.txt", "a1\n")
    assert workflow.snakemake() == []
    workflow.write("a.txt", "another a\n")
    assert workflow.snakemake() == []


@pytest.mark.parametrize("date", [None, 1e9, 4e9], ids=["now", "past", "future"])
def test_what_is_altered_or_lost_is_made_again(workflow, date):
    expected = workflow.read("data/b.json")
    workflow.write("data/b.json", "altered", date)
    assert workflow.snakemake("-n") == ["b"]
    assert workflow.snakemake() == ["b"]
    assert workflow.read("data/b.json") == expected
    # Also where all that is made of it is there.
    (workflow.folder / "data/a.json").unlink()
    assert "a" in workflow.snakemake()
    assert workflow.read("data/a.json") == "a1\n"
    assert workflow.snakemake() == []


def test_an_input_that_is_saved_while_the_job_runs_is_read_again(workflow):
    """Snakemake takes the checksum when the job ends, of a text that the job has not read."""
    slow = SNAKEFILE.replace('"cat {input} > {output}"', '"cat {input} > {output}; sleep 3"')
    workflow.write("Snakefile", slow)
    workflow.write("b.txt", "b2\n")
    run = subprocess.Popen(
        [str(Path(sys.executable).with_name("snakemake")), "--cores", "1"],
        cwd=workflow.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    made, content = workflow.folder / "data/b.json", ""
    while content != "a1\nb2\n":
        assert run.poll() is None
        with contextlib.suppress(FileNotFoundError):  # Snakemake removes the earlier one first
            content = made.read_text()
    workflow.write("b.txt", "b3\n")
    assert run.wait(timeout=60) == 0
    assert workflow.snakemake() == ["b"]
    assert workflow.read("data/b.json") == "a1\nb3\n"


def test_what_dvc_recorded_is_current_where_bytes_and_inputs_are_the_same(workflow):
    workflow.dvc("commit", "--force", "--quiet")
    ledger = workflow.folder / ".snakemake"
    for edit, expected in (
        (lambda: None, []),
        (lambda: workflow.write("data/b.json", "alter\n"), ["b"]),
        (lambda: workflow.write("b.txt", "b2\n"), ["b"]),
    ):
        # Like a fresh clone: Snakemake knows of nothing.
        subprocess.run(["rm", "-rf", str(ledger)], check=True)
        edit()
        assert workflow.snakemake() == expected
    assert workflow.read("data/b.json") == "a1\nb2\n"


def test_what_comes_after_an_edit_is_not_current_in_a_fresh_clone(workflow):
    """Snakemake, told that b is as DVC recorded it, must not take a for current on its way."""
    workflow.dvc("commit", "--force", "--quiet")
    for traces in ([".snakemake"], [".snakemake", "logs"]):
        for trace in traces:
            shutil.rmtree(workflow.folder / trace)
        number = workflow.read("a.txt").count("x")
        workflow.write("a.txt", "x" * (number + 1))
        assert workflow.snakemake("-n") == ["a", "b"]
        assert workflow.snakemake("-n") == ["a", "b"]
        assert workflow.snakemake() == ["a", "b"]
        assert workflow.read("data/b.json") == "x" * (number + 1) + "b1\n"
        assert workflow.snakemake() == []
        workflow.dvc("commit", "--force", "--quiet")


def test_contents_are_compared_with_what_dvc_recorded(workflow, monkeypatch):
    """DVC goes by dates and sizes once it has read a file."""
    workflow.dvc("commit", "--force", "--quiet")
    monkeypatch.chdir(workflow.folder)
    both = [Path("data/a.json"), Path("data/b.json")]
    assert agreement.recorded_by_dvc(both) == set(both)
    path = workflow.folder / "data/b.json"
    before = path.stat()
    path.write_text(path.read_text().replace("1", "2"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "b.json" not in workflow.dvc("status"), "no date tells DVC"
    assert agreement.recorded_by_dvc(both) == {Path("data/a.json")}


def test_a_stage_that_is_retired_vouches_for_nothing(workflow, monkeypatch):
    """It stays in the lock file, and no change of it is ever seen."""
    workflow.dvc("commit", "--force", "--quiet")
    monkeypatch.chdir(workflow.folder)
    # The stage is now one for each of two texts, and reads a third.
    workflow.write("c.txt", "c1\n")
    templated = STAGES.replace("  b:\n", "  b:\n    foreach: [b]\n    do:\n")
    before, after = templated.split("    do:\n")
    after = after.replace("    cmd", "      cmd").replace("    deps", "      deps")
    after = after.replace("    outs", "      outs").replace("b.txt]", "b.txt, c.txt]")
    workflow.write("dvc.yaml", f"{before}    do:\n{after}")
    assert "b@b" in workflow.dvc("status"), "it has never been run"
    assert agreement.recorded_by_dvc([Path("data/a.json"), Path("data/b.json")]) == {
        Path("data/a.json")
    }
    assert agreement.drop_retired() == ["b"]
    assert "  b:" not in workflow.read("dvc.lock")
    lock = workflow.read("dvc.lock")
    assert agreement.drop_retired() == []
    assert workflow.read("dvc.lock") == lock


def test_stages_of_other_studies_stay_in_the_lock_file(workflow, monkeypatch):
    """A template has other stages under another study; an item of no study is retired."""
    monkeypatch.chdir(workflow.folder)
    workflow.write("params.yaml", "studies:\n  one: {m: [x]}\n  two: {m: {y: 1}, n: []}\n")
    template = "  {}:\n    foreach: {}\n    do: {{cmd: 'true'}}\n"
    templates = [("a", "${study.m}"), ("n", "${study.n}"), ("c", "[p]")]
    matrix = "  d:\n    matrix: {k: [k], m: '${study.m}'}\n    cmd: 'true'\n"
    stages = "".join(template.format(*one) for one in templates) + matrix
    workflow.write("dvc.yaml", f"stages:\n{stages}")
    names = ["a@x", "a@y", "a@x-y", "a", "z@y", "n@x", "c@p", "c@q", "d@k-y", "d@y-k", "d@k"]
    locked = "".join(f"  {name}: {{cmd: x}}\n" for name in names)
    workflow.write("dvc.lock", f"schema: '2.0'\nstages:\n{locked}")
    assert agreement.drop_retired() == ["a@x-y", "a", "z@y", "n@x", "c@q", "d@y-k", "d@k"]
    kept = ("a@x", "a@y", "c@p", "d@k-y")
    assert all(f"{name}:" in workflow.read("dvc.lock") for name in kept)


def test_a_busy_dvc_is_said_in_one_line(workflow, monkeypatch):
    workflow.dvc("commit", "--force", "--quiet")
    monkeypatch.chdir(workflow.folder)
    held = agreement.hold_dvc_lock()
    with pytest.raises(agreement.AgreementError, match="lock"):
        agreement.recorded_by_dvc([Path("data/a.json")])
    held.unlock()


def test_parts_of_a_capture_matter_only_together(tmp_path, monkeypatch):
    """A capture over four jobs gives the store that one job gives."""
    monkeypatch.chdir(tmp_path)
    path = Path("data/store") / agreement.INDEX
    record = agreement.record_path(path)
    agreement.write_json(record, {"input": ["c/m.1-of-1.json", "tokens"], "endtime": 5.0})
    agreement.adopt_parts([path], "c", ["1-of-2", "2-of-2"])
    written = json.loads(record.read_text())
    assert written["input"] == ["c/m.1-of-2.json", "c/m.2-of-2.json", "tokens"]
    for broken in ("", "{}"):
        record.write_text(broken)
        agreement.adopt_parts([path], "c", ["1-of-2", "2-of-2"])
        assert record.read_text() == broken


def test_the_date_of_what_is_made_again_is_one_that_snakemake_takes():
    assert LONG_AGO > 0


@pytest.mark.parametrize("name", ["data/a.json", "data/b.json"])
def test_bit_rot_is_found_by_reading_and_mended_by_either_front_end(workflow, monkeypatch, name):
    workflow.dvc("commit", "--force", "--quiet")
    assert workflow.snakemake() == [], "what DVC linked again is known"
    monkeypatch.chdir(workflow.folder)
    assert verify_files() == ([], 2, len("a1\n") + len("a1\nb1\n"))
    path = workflow.folder / name
    whole = path.read_text()
    for mend in (lambda: workflow.snakemake(), lambda: workflow.dvc("repro")):
        before = path.stat()
        path.write_text(whole.replace("a", "A"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert workflow.snakemake("-n") == [], "no date tells"
        assert verify_files()[0] == [Path(name)]
        mend()
        assert path.read_text() == whole
        assert workflow.snakemake() == []
        assert verify_files()[0] == []


@pytest.mark.parametrize("by", ["snakemake", "dvc", "verify"])
def test_bit_rot_in_a_copy_is_never_taken_for_what_a_job_made(workflow, monkeypatch, by):
    """Files of a copy are read again, and those here have no checksum of their own."""
    workflow.dvc("commit", "--force", "--quiet")
    assert workflow.snakemake() == []
    monkeypatch.chdir(workflow.folder)
    path = workflow.folder / "data/a.json"
    whole, date = path.read_text(), path.stat().st_mtime_ns
    copy = path.with_name("copy")
    copy.write_text(whole.replace("a", "A"))
    os.utime(copy, ns=(date, date))
    copy.replace(path)
    if by == "verify":
        assert verify_files()[0] == [Path("data/a.json")]
    elif by == "dvc":
        workflow.dvc("repro")
    workflow.snakemake()
    assert path.read_text() == whole
    assert workflow.snakemake() == [] and verify_files()[0] == []


@pytest.mark.parametrize(
    ("content", "removed"),
    [
        ("", True),
        ('{"write": {}, "read', True),
        ("[]", True),
        ('{"write": {}, "read": {}}', False),
        (None, False),
    ],
)
def test_a_list_of_paths_in_use_that_was_cut_is_removed(tmp_path, content, removed):
    """DVC writes it in place, and no DVC starts while it is cut."""
    path = tmp_path / ".dvc/tmp/rwlock"
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_text(content)
    said = []
    recovery.recover(tmp_path, said.append)
    assert path.exists() is (content is not None and not removed)
    assert len(said) == removed


def test_dvc_starts_again_after_recovery(workflow):
    workflow.dvc("commit", "--force", "--quiet")
    workflow.write("b.txt", "b2\n")
    cut = workflow.folder / ".dvc/tmp/rwlock"
    cut.write_text('{"write"')
    assert "corrupted" in workflow.dvc("repro")
    recovery.recover(workflow.folder, print)
    assert "corrupted" not in workflow.dvc("repro")
    assert workflow.read("data/b.json") == "a1\nb2\n"
