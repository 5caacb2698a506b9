"""A finished result has a second name and comes back if it is what would be made now."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from posenc.artifacts import kept, receipts
from posenc.artifacts.contents import Contents
from posenc.artifacts.files import replace_directory, sha256_file, write_sealed
from posenc.artifacts.receipts import Receipt
from posenc.conditions import learned
from posenc.conditions.learned import LearnedMask

OWN = Path("data/studies/mine")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("source.txt").write_text("source")
    finish("first", {"source.txt": None}, {"data/studies/mine/a": "one"})
    finish("second", {"data/studies/mine/a": None}, {"data/studies/mine/b": "two"})
    return tmp_path


def place(name: str) -> Path:
    return OWN / receipts.FOLDER / f"phase/{name}.json"


def finish(name: str, inputs: dict, outputs: dict[str, str]) -> Receipt:
    """What a job does."""
    contents = Contents(None)
    for path, text in outputs.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).unlink(missing_ok=True)
        Path(path).write_text(text)
    read, written = (receipts.digests(paths, contents.digest) for paths in (inputs, outputs))
    receipt = Receipt("rule", "command", read, written, {})
    receipt.write(place(name))
    kept.keep(place(name), receipt)
    return receipt


def restored() -> str:
    said: list[str] = []
    kept.restore_all(Contents(None), "mine", said.append)
    return "".join(said)


def there() -> dict[str, str]:
    return {name: path.read_text() for name in "ab" if (path := OWN / name).exists()}


def test_it_takes_no_room():
    held = [path for path in kept.OBJECTS.rglob("*") if path.is_file()]
    assert sorted(path.stat().st_nlink for path in held) == [2, 2]
    assert os.path.samefile(kept.PLACE / place("first"), place("first"))


@pytest.mark.parametrize("lost", ["a", "b", "all"])
def test_what_was_removed_comes_back_with_what_it_was_made_of(lost):
    if lost == "all":
        shutil.rmtree(OWN)
    else:
        (OWN / lost).unlink()
    lines = {"all": "2 results", "a": "1 result", "b": "1 result"}
    assert restored() == f"brought back {lines[lost]} that had been removed or changed"
    assert there() == {"a": "one", "b": "two"}
    assert place("first").exists() and place("second").exists()
    assert restored() == ""


def test_what_would_be_made_otherwise_now_does_not_come_back():
    Path("source.txt").write_text("another")
    shutil.rmtree(OWN)
    assert restored() == ""
    assert there() == {}


def test_files_of_another_version_give_way():
    """As after `dvc checkout --force`, which puts older results in the place of newer ones."""
    (OWN / "a").unlink()
    (OWN / "a").write_text("older")
    place("first").unlink()
    assert "brought back 1" in restored()
    assert there()["a"] == "one"


def test_a_result_that_was_damaged_under_both_names_stays_away():
    with (OWN / "a").open("r+") as file:
        file.write("x")
    (OWN / "a").unlink()
    assert restored() == ""


def test_a_folder_that_a_file_stands_for_comes_back_as_it_was(project):
    folder = OWN / "store"
    finish("store", {"source.txt": None}, {
        "data/studies/mine/store/index.parquet": "index",
        "data/studies/mine/store/shard-0": "shard",
    })  # fmt: skip
    (folder / "index.parquet").unlink()
    (folder / "shard-1").write_text("of another version")
    assert "brought back 1" in restored()
    assert {path.name for path in folder.iterdir()} == {"index.parquet", "shard-0"}


def test_a_list_of_masks_comes_back_with_its_masks():
    """It stands for its folder: no mask may be taken for a file of another version."""
    folder = OWN / "masks/decoder"
    folder.mkdir(parents=True)
    learned.write(folder / "fitted.safetensors", LearnedMask(constant=np.float32([1])), {})
    facts = sha256_file(folder / "fitted.json")
    write_sealed(folder / "masks.json", {"model": "decoder", "masks": {"fitted": facts}})
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert contents.keys() == {"fitted.json", "fitted.safetensors", "masks.json"}
    path = str(folder / "masks.json")
    outputs = receipts.digests([path], Contents(None).digest) | receipts.parts_of(Path(path))
    receipt = Receipt("masks", "command", {}, outputs, {})
    receipt.write(place("masks"))
    kept.keep(place("masks"), receipt)
    for lost in ("masks.json", "fitted.safetensors"):
        (folder / lost).unlink()
        assert "brought back 1" in restored()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


def interrupted(outputs: list[str], *steps) -> None:
    """A job that does some steps and is killed."""
    with pytest.raises(KeyboardInterrupt), kept.parts(place("masks"), outputs):
        for step in steps:
            step()
        raise KeyboardInterrupt


def test_masks_that_were_learned_come_back_beside_those_of_the_last_result():
    folder = OWN / "masks/decoder"
    mask = LearnedMask(constant=np.float32([1]))
    outputs = [str(folder / "masks.json"), str(place("masks"))]
    interrupted(
        outputs,
        lambda: learned.write(folder / "fitted.safetensors", mask, {}),
        lambda: write_sealed(OWN / "elsewhere.json", {}),
    )
    learnt = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert learnt.keys() == {"fitted.json", "fitted.safetensors"}
    shutil.rmtree(folder)  # as DVC does, and then the last whole result comes back
    (OWN / "elsewhere.json").unlink()
    learned.write(folder / "other.safetensors", mask, {})
    (folder / "fitted.json").write_text("of the last result")
    with kept.parts(place("masks"), outputs):
        there = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert there.items() > learnt.items()
    assert there.keys() - learnt.keys() == {"other.json", "other.safetensors"}
    assert not (OWN / "elsewhere.json").exists(), "it is no output of the job"
    assert not any(kept.PARTS.iterdir()), "a job that has ended has none"


def test_a_store_that_was_finished_comes_back_as_it_was():
    folder, partial = OWN / "activations/decoder/text/intact", OWN / "captures/x"
    partial.mkdir(parents=True)
    for name in ("shard-0", "index.parquet"):
        (partial / name).write_text(f"new {name}")
    interrupted([str(folder / "index.parquet")], lambda: replace_directory(partial, folder))
    for name in ("shard-0", "shard-1", "index.parquet"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(f"old {name}")
    with kept.parts(place("masks"), [str(folder / "index.parquet")]):
        there = {path.name: path.read_text() for path in folder.iterdir()}
    assert there == {"shard-0": "new shard-0", "index.parquet": "new index.parquet"}


def test_parts_of_jobs_that_the_study_no_longer_has_are_forgotten():
    interrupted([str(OWN / "x.json")], lambda: write_sealed(OWN / "x.json", {}))
    kept.prune(OWN, [place("masks")])
    assert len(list(kept.PARTS.iterdir())) == 1
    kept.prune(OWN, [place("first")])
    assert not list(kept.PARTS.iterdir())


def test_what_killed_jobs_had_begun_goes_when_the_whole_study_is_made_and_not_before():
    interrupted([str(OWN / "x.json")], lambda: write_sealed(OWN / "x.json", {}))
    begun, of_another = OWN / "partial/trial", Path("data/studies/other/partial")
    for folder in (begun, of_another):
        folder.mkdir(parents=True)
        (folder / "checkpoint.pt").write_text("half")
    kept.prune(OWN, [place("masks")])
    assert list(kept.PARTS.iterdir()) and begun.exists()
    kept.prune(OWN, [place("masks")], [OWN / "partial", OWN / "captures"])
    assert not list(kept.PARTS.iterdir()) and not begun.parent.exists() and of_another.exists()


def test_only_the_last_result_of_a_job_is_kept():
    finish("first", {"source.txt": None}, {"data/studies/mine/a": "three"})
    kept.prune(OWN, [place("first"), place("second")])
    held = sorted(p.read_text() for p in kept.OBJECTS.rglob("*") if p.is_file())
    assert held == ["three", "two"]


def test_results_of_jobs_that_the_study_no_longer_has_are_forgotten_and_others_stay():
    other = Path("data/studies/other") / receipts.FOLDER / "phase/job.json"
    Path("data/studies/other").mkdir()
    Path("data/studies/other/c").write_text("other")
    contents = Contents(None)
    outputs = receipts.digests(["data/studies/other/c"], contents.digest)
    receipt = Receipt("rule", "command", {}, outputs, {})
    receipt.write(other)
    kept.keep(other, receipt)
    kept.prune(OWN, [place("first")])
    assert {path for path, _ in kept.every()} == {place("first"), other}


def test_what_dvc_pulled_is_kept_too():
    shutil.rmtree(kept.PLACE)
    kept.keep_all(Contents(None), "mine")
    assert {path for path, _ in kept.every()} == {place("first"), place("second")}
    shutil.rmtree(kept.PLACE)
    (OWN / "a").unlink()
    (OWN / "a").write_text("damaged")
    kept.keep_all(Contents(None), "mine")
    assert {path for path, _ in kept.every()} == {place("second")}


def test_a_disk_without_hard_links_keeps_nothing_and_says_nothing(monkeypatch):
    def refuse(*_):
        raise OSError(1, "Operation not permitted")

    shutil.rmtree(kept.PLACE)
    monkeypatch.setattr(os, "link", refuse)
    finish("first", {"source.txt": None}, {"data/studies/mine/a": "one"})
    assert not list(kept.every())
