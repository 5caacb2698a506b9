"""What DVC vouches for, and what its files are called, with a repository that is made up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from dvc.exceptions import DvcException
from ruamel.yaml import YAML

from posenc.study import agreement
from posenc.study.records import record_path


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
        return SimpleNamespace(fs_path="/project/data/x", hash_info=info, get_obj=lambda: tree)

    root = Path("/project")
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
