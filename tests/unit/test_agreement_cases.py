"""What is decided of each file, case by case, with a ledger and a front end that are made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from posenc.study import agreement
from posenc.study.ledger import Job
from posenc.study.records import record_path

NOW = 1_000
SAME, OLDER, NEWER = Job(1, {"a": 1}, NOW), Job(2, {"b": 2}, NOW), Job(3, {"c": 3}, NOW)
"""Jobs without a changed input, with one that is older than the output, and with a newer one."""
INPUTS = {"older": NOW - 1, "as_old": NOW, "newer": NOW + 1}


@dataclass
class Known:
    """What the ledger knows of a file."""

    left: Job | None = None
    made: tuple[Job, ...] = ()
    damaged: bool = False
    seen: bool = False
    beside: bool = False
    altered: bool = False
    stale: bool = False
    """Whether it is no more as the job left it."""


@dataclass
class MadeUp:
    """A ledger of what is said here, which notes what it is told."""

    known: dict[Path, Known]
    changes: dict[int, list[str]] = field(
        default_factory=lambda: {2: ["older", "as_old"], 3: ["older", "newer"]}
    )
    told: list[tuple] = field(default_factory=list)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def was_seen(self, path):
        return self.known[path].seen

    def is_as_left(self, path):
        return self.known[path].left is not None and not self.known[path].stale

    def left_by(self, path):
        return self.known[path].left

    def made_by(self, path):
        return list(self.known[path].made)

    def is_changed_beside(self, path):
        return self.known[path].beside

    def is_altered(self, path):
        return self.known[path].altered

    def changed_inputs(self, job):
        return self.changes.get(job.number, [])

    def __getattr__(self, name):
        if name in ("put_back", "put_back_passing", "add", "forget_unused"):
            return lambda *given: self.told.append((name, *given))
        raise AttributeError(name)


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """Make files and a ledger of them; the files that are to be made again come in ``remade``."""
    monkeypatch.chdir(tmp_path)
    for name, date in INPUTS.items():
        Path(name).write_text(name)
        os.utime(name, ns=(date, date))

    def make(known: dict[str, Known], lacking: tuple[str, ...] = ()) -> SimpleNamespace:
        made = MadeUp({Path(name): one for name, one in known.items()})
        remade: list[Path] = []
        for path in made.known:
            if str(path) not in lacking:
                path.write_text("x")
                record_path(path).parent.mkdir(parents=True, exist_ok=True)
                record_path(path).write_text("{}")
        monkeypatch.setattr(agreement, "Ledger", lambda: made)
        monkeypatch.setattr(agreement, "mark_for_remaking", remade.append)
        monkeypatch.setattr(
            agreement, "damaged_part", lambda path: path if made.known[path].damaged else None
        )
        return SimpleNamespace(told=made.told, remade=remade, paths=list(made.known), made=made)

    return make


@pytest.mark.parametrize(
    ("known", "told", "is_remade", "said"),
    [
        (Known(SAME), [("put_back_passing", SAME)], False, None),
        # A newer input is one that Snakemake looks at itself.
        (Known(NEWER), [], False, None),
        (Known(OLDER), [], True, None),
        (Known(NEWER, made=(OLDER, SAME)), [("put_back", SAME), ("put_back_passing", SAME)], False,
         "recognised"),
        (Known(made=(NEWER, SAME)), [("put_back", SAME), ("put_back_passing", SAME)], False,
         "recognised"),
        (Known(made=(SAME,), damaged=True), [], True, "again"),
        (Known(made=(NEWER, OLDER)), [], True, "again"),
        (Known(), [], True, "again"),
        (Known(SAME, stale=True), [], True, "again"),
        # What is as it was left was whole then.
        (Known(SAME, damaged=True), [("put_back_passing", SAME)], False, None),
    ],
)  # fmt: skip
def test_what_becomes_of_a_file(ledger, monkeypatch, known, told, is_remade, said):
    lines, asked = [], []
    here = ledger({"it": known})
    monkeypatch.setattr(agreement, "learn_from_dvc", lambda *given: asked.append(given))
    assert agreement.agree(here.paths, "a study", lines.append) == []
    assert asked == [(here.paths, "a study")]
    expected = [
        (name, Path("it"), job) if name == "put_back" else (name, job) for name, job in told
    ]
    assert here.told == expected
    assert (here.remade == [Path("it")]) == is_remade and len(here.remade) <= 1
    assert record_path(Path("it")).exists() == (said != "again"), "of what is made again is none"
    text = {"recognised": "1 are recognised", "again": "0 are recognised, 1 are made again"}
    what = "1 files are not as Snakemake left them: "
    assert lines == ([what + text[said]] if said else [])


def test_what_was_there_and_is_gone_is_named_and_the_rest_is_counted(ledger, monkeypatch):
    lines, asked = [], []
    known = {
        "gone": Known(seen=True), "never": Known(), "a": Known(made=(SAME,)),
        "b": Known(made=(SAME,)), "c": Known(), "d": Known(SAME), "lost": Known(seen=True),
    }  # fmt: skip
    here = ledger(known, lacking=("gone", "never", "lost"))
    monkeypatch.setattr(agreement, "learn_from_dvc", lambda *given: asked.append(given))
    found = agreement.agree(here.paths, "default", lines.append)
    assert found == [Path("gone"), Path("lost")]
    assert asked == [([Path(name) for name in "abcd"], "default")], "those that are there"
    assert lines == [
        "3 files are not as Snakemake left them: 2 are recognised, 1 are made again"
    ]  # fmt: skip
    assert here.remade == [Path("c")]


def test_what_is_taken_into_the_ledger(ledger):
    known = {
        "left": Known(SAME), "beside": Known(beside=True), "none": Known(),
        "damaged": Known(damaged=True), "altered": Known(altered=True), "lost": Known(),
        "a": Known(), "b": Known(),
    }  # fmt: skip
    here = ledger(known, lacking=("lost",))
    asked: list[Path] = []

    def read(path):
        asked.append(path)
        return None if str(path) == "none" else {"of": str(path)}

    agreement.remember(iter(here.paths), read)
    assert asked == [Path(name) for name in ("none", "damaged", "a", "b")]
    assert here.told == [
        ("add", Path("a"), {"of": "a"}), ("add", Path("b"), {"of": "b"}), ("forget_unused",),
    ]  # fmt: skip
    here.told.clear()
    agreement.remember(here.paths[:6], read)
    assert here.told == [], "nothing new, nothing to forget"


def test_a_record_of_snakemake_is_not_taken_where_an_input_was_edited_meanwhile(
    ledger, monkeypatch
):
    here = ledger({"a": Known(), "b": Known()})
    asked = []

    def edited(record, made):
        asked.append((record["of"], made))
        return record["of"] == "a"

    def of(path):
        return {"of": str(path)}

    monkeypatch.setattr(agreement, "was_edited_meanwhile", edited)
    monkeypatch.setattr(agreement, "read_record", of)
    agreement.remember(here.paths, of)
    assert asked == [("a", {"a", "b"}), ("b", {"a", "b"})]
    assert [entry[:2] for entry in here.told] == [("add", Path("b")), ("forget_unused",)]
    here.told.clear()
    agreement.remember(here.paths, lambda path: of(path))
    assert [entry[:2] for entry in here.told[:2]] == [("add", Path("a")), ("add", Path("b"))]


def test_dvc_is_asked_of_what_no_job_made_of_these_inputs(ledger, monkeypatch):
    known = {"a": Known(SAME, made=(SAME,)), "b": Known(made=(NEWER,)), "c": Known(),
             "d": Known(made=(NEWER, SAME)), "e": Known(OLDER, made=(OLDER,))}  # fmt: skip
    here = ledger(known)
    asked, touched, remembered = [], [], []

    def recorded(paths):
        asked.append(paths)
        return {Path("b"), Path("c")}

    monkeypatch.setattr(agreement, "recorded_by_dvc", recorded)
    monkeypatch.setattr(
        agreement, "_touch",
        lambda study, kept: touched.append((study, kept, [record_path(p).exists() for p in kept])),
    )  # fmt: skip
    monkeypatch.setattr(
        agreement, "remember", lambda kept, read: remembered.append((kept, read))
    )  # fmt: skip
    record_path(Path("c")).unlink()
    agreement.learn_from_dvc(here.paths, "s")
    assert asked == [[Path("b"), Path("c"), Path("e")]]
    kept = {Path("b"), Path("c")}
    assert touched == [("s", kept, [False, False])], "after their records are gone"
    ((taken, read),) = remembered
    record_path(Path("b")).write_text(json.dumps({"said": "ä"}), encoding="utf-8")
    assert taken == kept and read(Path("b")) == {"said": "ä"}
    own = ledger({"a": Known(OLDER, made=(OLDER,))})
    agreement.learn_from_dvc(own.paths, "s")
    assert len(asked) == 1, "every file is as it was left"
    monkeypatch.setattr(agreement, "recorded_by_dvc", lambda paths: set())
    agreement.learn_from_dvc(ledger({"b": Known()}).paths, "s")
    assert len(touched) == len(remembered) == 1


def test_snakemake_is_told_to_record_files_as_they_are(monkeypatch):
    called = []

    def run(command, **options):
        called.append((command, options))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(agreement.subprocess, "run", run)
    monkeypatch.setenv("PATH", "/somewhere")
    monkeypatch.setenv("OTHER", "kept")
    agreement._touch("mine", {Path("b"), Path("a")})
    ((command, options),) = called
    assert command[0] == "snakemake" and command[-3:] == ["--", "a", "b"]
    flags = {"--touch", "--force", "--quiet", "study=mine"}
    assert flags <= set(command) and command[command.index("--cores") + 1] == "1"
    environment = options["env"]
    assert environment["PATH"] == f"{Path(sys.executable).parent}:/somewhere"
    assert environment[agreement.MARK] == "1" and environment["OTHER"] == "kept"
    assert options["text"] and options["capture_output"]

    def fail(command, **options):
        return subprocess.CompletedProcess(command, 1, "", "x" * 3000 + " the end \n")

    monkeypatch.setattr(agreement.subprocess, "run", fail)
    with pytest.raises(agreement.AgreementError) as caught:
        agreement._touch("mine", [])
    text = str(caught.value)
    assert text.startswith("`snakemake --touch` fails: xx") and text.endswith("x the end")
    assert len(text) == len("`snakemake --touch` fails: ") + 2000
