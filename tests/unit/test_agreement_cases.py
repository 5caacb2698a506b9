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
from dvc.exceptions import DvcException
from ruamel.yaml import YAML

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
        "damaged": Known(damaged=True), "lost": Known(), "a": Known(), "b": Known(),
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
    agreement.remember(here.paths[:5], read)
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


def test_files_are_compared_with_their_recorded_sums(tmp_path, monkeypatch):
    """The MD5 of "a" and of nothing, as RFC 1321 has them."""
    monkeypatch.chdir(tmp_path)
    a, empty = "0cc175b9c0f1b6a831c399e269772661", "d41d8cd98f00b204e9800998ecf8427e"
    index, part = Path("s/index.parquet"), Path("s/part")
    for folder in ("s", "t"):
        Path(folder).mkdir()
    index.write_text("a")
    part.write_text("")
    Path("s/.hidden").write_text("b")
    Path("t/other").write_text("a")
    assert agreement._md5(Path("none")) is None
    assert agreement._is_recorded(Path("t/other"), {Path("t/other"): a})
    assert not agreement._is_recorded(Path("t/other"), {Path("t/other"): empty})
    assert not agreement._is_recorded(Path("t/other"), {})
    whole = {index: a, part: empty, Path("t/other"): "0"}
    assert agreement._is_recorded(index, whole)
    assert not agreement._is_recorded(index, {index: a}), "a part that DVC does not know"
    assert not agreement._is_recorded(index, {**whole, Path("s/lost"): a})
    assert not agreement._is_recorded(index, {**whole, part: a})


def test_sums_of_an_output_are_by_file():
    def out(value, isdir=False, tree=None):
        info = SimpleNamespace(value=value, isdir=isdir) if value != "no" else None
        return SimpleNamespace(fs_path="/root/data/x", hash_info=info, get_obj=lambda: tree)

    root = Path("/root")
    assert agreement._digests(out("no"), root) == agreement._digests(out(None), root) == {}
    assert agreement._digests(out("12"), root) == {Path("data/x"): "12"}
    entries = [(("a",), None, SimpleNamespace(value="1")),
               (("b", "c"), None, SimpleNamespace(value="2"))]  # fmt: skip
    found = agreement._digests(out("9.dir", True, entries), root)
    assert found == {Path("data/x/a"): "1", Path("data/x/b/c"): "2"}
    assert agreement._digests(out("9.dir", True), root) == {}


def test_stages_are_named_as_dvc_names_them():
    stages = {
        "one": {}, "of_each": {"foreach": "${study.models}"}, "of_two": {"foreach": ["p", "q"]},
        "grid": {"matrix": {"m": "${study.models}", "d": "${study.datasets}", "n": [1, 2]}},
    }  # fmt: skip
    studies = [{"models": ["a", "b"], "datasets": ["x"]}, {"models": {"c": 1}}]
    assert agreement._stage_names(stages, studies) == {
        "one", "of_each@a", "of_each@b", "of_each@c", "of_two@p", "of_two@q",
        "grid@a-x-1", "grid@a-x-2", "grid@b-x-1", "grid@b-x-2",
    }  # fmt: skip
    assert agreement._stage_names(stages, []) == {"one"}
    assert list(agreement._items("${study.none}", {})) == []
    assert list(agreement._items("a ${study.x}", {"x": [1]})) == list("a ${study.x}")


def test_a_folder_without_dvc_has_no_lock(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert agreement.hold_dvc_lock() is None
    assert agreement.drop_retired() == []
    assert agreement.recorded_by_dvc([Path("a")]) == set()


def test_stages_that_no_study_has_leave_the_lock_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dvc.yaml").write_text(json.dumps({"stages": {"a": {}, "b": {"foreach": ["x"]}}}))
    Path("params.yaml").write_text(json.dumps({"studies": {"s": {}}}))
    names = ("a", "b@x", "b", "c", "b@y")
    stages = {name: {"cmd": f"true {name}"} for name in names}
    Path("dvc.lock").write_text(json.dumps({"schema": "2.0", "stages": stages}))
    assert agreement.drop_retired() == ["b", "c", "b@y"]
    kept = YAML(typ="safe").load(Path("dvc.lock"))
    assert kept == {"schema": "2.0", "stages": {name: stages[name] for name in ("a", "b@x")}}
    before = Path("dvc.lock").stat().st_mtime_ns
    assert agreement.drop_retired() == []
    assert Path("dvc.lock").stat().st_mtime_ns == before
    Path("dvc.lock").write_text("schema: '2.0'\n")
    assert agreement.drop_retired() == []


def test_dvc_vouches_for_outputs_of_unchanged_stages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("kept", "changed", "added", "other"):
        Path(name).write_text("a")
    Path("dvc.lock").touch()

    def stage(name: str, cmd: str = "make it") -> SimpleNamespace:
        info = SimpleNamespace(value="0cc175b9c0f1b6a831c399e269772661", isdir=False)
        out = SimpleNamespace(fs_path=str(tmp_path / name), hash_info=info)
        return SimpleNamespace(addressing=f"{name}.dvc", cmd=cmd, outs=[out])

    class Repo:
        root_dir = str(tmp_path)
        index = SimpleNamespace(stages=[stage("kept"), stage("changed"), stage("added", "")])

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def status(self):
            return {"changed.dvc": ["edited"]}

    monkeypatch.setitem(sys.modules, "dvc.repo", SimpleNamespace(Repo=Repo))
    monkeypatch.setattr(agreement.place, "without_dvc", lambda root: None)
    every = [Path(name) for name in ("kept", "changed", "added", "other")]
    assert agreement.recorded_by_dvc(every) == {Path("kept")}
    assert agreement.recorded_by_dvc(every[1:]) == set()
    asked = []
    monkeypatch.setattr(agreement.place, "without_dvc", lambda root: asked.append(root) or "none")
    assert agreement.recorded_by_dvc(every) == set() and asked == [tmp_path]

    def busy(repo):
        raise DvcException("it is at work")

    monkeypatch.setattr(agreement.place, "without_dvc", lambda root: None)
    monkeypatch.setattr(Repo, "status", busy)
    with pytest.raises(agreement.AgreementError, match=r"^`dvc status` fails: it is at work$"):
        agreement.recorded_by_dvc(every)


def test_the_lock_of_dvc_is_held_until_it_is_let_go(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(".dvc").mkdir()
    held = agreement.hold_dvc_lock()
    assert held.is_locked and Path(".dvc/tmp/lock").exists()
    held.unlock()
    agreement.hold_dvc_lock().unlock()


def test_parts_of_a_capture_are_those_of_today(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def adopted(inputs, name="s/index.parquet") -> dict:
        path = Path(name)
        record_path(path).parent.mkdir(parents=True, exist_ok=True)
        record_path(path).write_text(json.dumps({"input": inputs, "more": 1}))
        agreement.adopt_parts([Path("x.json"), path], "c", ["1-of-2", "2-of-2"])
        return json.loads(record_path(path).read_text())

    two = ["a", "c/m.1-of-2.json", "c/m.2-of-2.json", "z"]
    assert adopted(["z", "c/m.1-of-1.json", "a"]) == {"input": two, "more": 1}
    assert adopted(["z", *two[1:3], "a"])["input"] == ["z", *two[1:3], "a"], "left as it is"
    assert adopted(["c/m.1-of-1.json"], "s/other.json")["input"] == ["c/m.1-of-1.json"]
    both = ["c/m.1-of-1.json", "c/n.1-of-1.json"]
    assert adopted(both)["input"] == [f"c/{m}.{n}-of-2.json" for m in "mn" for n in "12"]
    path = Path("s/index.parquet")
    for content in ("{", "{}", "[]", '{"input": 1}'):
        record_path(path).write_text(content)
        later = Path("t/index.parquet")
        record_path(later).write_text(json.dumps({"input": ["c/m.1-of-1.json"]}))
        agreement.adopt_parts([path, later], "c", ["1-of-2", "2-of-2"])
        assert record_path(path).read_text() == content
        assert json.loads(record_path(later).read_text())["input"] == two[1:3], "those after it"
