"""What Snakemake is told of files that DVC put in place: nothing stale passes for current."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from snakemake.persistence.file import FilePersistence

from posenc import agreement


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("data/a", "data/a", True),
        ("data/a", "data/a/b", True),
        ("data/a", "data/a/b/c.json", True),
        ("data/a", "data/ab", False),
        ("data/a", "data/a.json", False),
        ("data/a", "data/b", False),
        ("data/a/b", "data/b/a", False),
        ("data/a/index.parquet", "data/a/shard", False),
        ("data", "paper/data", False),
    ],
)
def test_overlap_is_being_the_same_or_inside(one, other, expected):
    assert agreement.overlap(one, other) is agreement.overlap(other, one) is expected
    names = [Path(one), Path(other)]
    assert expected == any(a == b or a in b.parents for a, b in (names, names[::-1]))


def random_stages(chance: random.Random) -> dict[str, dict[str, list[str]]]:
    """Up to seven stages, listed in any order, that read what earlier ones and people make."""
    count = chance.randint(1, 7)
    folders = [f"data/{letter}" for letter in "abcdefghij"]
    chance.shuffle(folders)
    made: list[str] = ["params.yaml", "workflow/x.py"]
    stages = {}
    for number in range(count):
        # A folder, or files in a folder that other stages write into, too.
        out = folders[number]
        outs = [out] if chance.random() < 0.5 else [f"data/shared/{out[-1]}{n}" for n in range(2)]
        deps = chance.sample(made, chance.randint(0, min(3, len(made))))
        # Some name a file within an output, some a folder that holds several.
        deps = [dep + "/index" if chance.random() < 0.2 else dep for dep in deps]
        if chance.random() < 0.15 and any(dep.startswith("data/shared") for dep in made):
            deps.append("data/shared")
        stages[f"stage{number}"] = {"deps": deps, "outs": outs}
        made += outs
    names = list(stages)
    chance.shuffle(names)
    return {name: stages[name] for name in names}


def depends(stages, name: str, other: str) -> bool:
    """Whether a stage reads what another makes, directly, by comparing parts of paths."""
    for dep in stages[name]["deps"]:
        for out in stages[other]["outs"]:
            a, b = dep.split("/"), out.split("/")
            if a[: len(b)] == b or b[: len(a)] == a:
                return True
    return False


def is_stale(stages, changed: set[str], name: str, seen: tuple[str, ...] = ()) -> bool:
    """Whether a stage or any that it depends on changed, all paths followed one by one."""
    return name in changed or any(
        is_stale(stages, changed, other, (*seen, name))
        for other in stages
        if other not in (*seen, name) and depends(stages, name, other)
    )


def test_a_stage_is_current_when_nothing_behind_it_changed():
    shares = []
    for seed in range(1000):
        chance = random.Random(seed)
        stages = random_stages(chance)
        changed = {name for name in stages if chance.random() < 0.25}
        expected = {name for name in stages if not is_stale(stages, changed, name)}
        # `dvc status` may name stages that the lock file does not have yet.
        named = [*changed, "figure_new"]
        assert agreement.current_stages(stages, named) == expected, seed
        assert agreement.current_stages(stages, []) == set(stages)
        assert agreement.current_stages(stages, stages) == set()
        shares.append((len(stages) - len(changed) - len(expected)) / len(stages))
    assert sum(share > 0 for share in shares) > 200, "changes reach other stages"


def test_a_change_reaches_the_end_of_a_long_chain_in_any_order():
    numbers = list(range(30))
    for order in (numbers, numbers[::-1]):
        stages = {str(n): {"deps": [f"d{n - 1}"], "outs": [f"d{n}"]} for n in order}
        assert agreement.current_stages(stages, ["10"]) == {str(n) for n in range(10)}


@pytest.fixture
def persistence(tmp_path, monkeypatch) -> FilePersistence:
    """Snakemake's own records, in an empty project that is the current folder."""
    monkeypatch.chdir(tmp_path)
    return FilePersistence(path=Path(".snakemake"))


def test_records_are_named_as_snakemake_names_them(persistence):
    """Short names, and long ones that are split, at every length around where they are."""
    folder = str(agreement.RECORDS)
    assert Path(persistence._metadata_path) == agreement.RECORDS
    deepest = 0
    for length in range(1, 800):
        path = Path(("data/ａ-" + "x" * length)[:length])
        expected = Path(persistence._record_path(folder, str(path)))
        assert agreement._record(path) == expected, length
        deepest = max(deepest, len(expected.relative_to(folder).parts))
    assert deepest > 3


@pytest.mark.parametrize("path", ["data/a.json", "data/" + "long" * 60 + "/a.json"])
def test_a_file_is_foreign_when_its_date_is_not_the_recorded_one(persistence, path):
    file = Path(path)
    assert agreement.recorded_end(file) is None
    assert not agreement.is_foreign(file), "there is no file"
    file.parent.mkdir(parents=True)
    file.write_text("a")
    assert agreement.is_foreign(file), "there is no record"
    stamp = file.stat().st_mtime
    persistence._io_write(persistence._metadata_path, {"endtime": stamp}, path)
    assert agreement.recorded_end(file) == stamp
    assert not agreement.is_foreign(file)
    # An older file is another one, too.
    for other in (stamp - 1, stamp + 1e-6, stamp + 1):
        os.utime(file, (other, other))
        assert agreement.is_foreign(file)
    os.utime(file, (stamp, stamp))
    for broken in ("", "{"):
        agreement._record(file).write_text(broken)
        assert agreement.recorded_end(file) is None
        assert agreement.is_foreign(file)


def test_the_lock_file_says_what_stages_read_and_make(persistence):
    assert agreement.locked() == {}
    agreement.LOCK.write_text(
        """
schema: '2.0'
stages:
  check:
    cmd: posenc check
    deps:
    - {path: params.yaml, hash: md5, md5: 0}
  store@decoder:
    cmd: snakemake
    deps:
    - {path: data/models/decoder, hash: md5, md5: 0.dir}
    outs:
    - {path: data/studies/default/activations/decoder, hash: md5, md5: 1.dir}
"""
    )
    assert agreement.locked() == {
        "check": {"deps": ["params.yaml"], "outs": []},
        "store@decoder": {
            "deps": ["data/models/decoder"],
            "outs": ["data/studies/default/activations/decoder"],
        },
    }
    agreement.LOCK.write_text("")
    assert agreement.locked() == {}


def agreed(monkeypatch, changed: list[str], altered: Path | None):
    """Run ``agree`` on three files; returns how Snakemake was called, and what was said."""
    calls, lines = [], []
    monkeypatch.setattr(agreement, "status", lambda: changed)
    monkeypatch.setattr(agreement, "as_recorded", lambda paths: [p for p in paths if p != altered])
    monkeypatch.setattr(agreement, "_snakemake", lambda *arguments: calls.append(arguments))
    outputs = [Path(f"data/{name}") for name in ("a", "b", "c")]
    agreement.agree(outputs, "default", lines.append)
    return calls, lines


@pytest.fixture
def three_files(persistence, monkeypatch):
    """Files that DVC wrote, which b is made of a and c of b; c has an older record."""
    Path("data").mkdir()
    stages = {}
    for name, dep in (("a", "params.yaml"), ("b", "data/a"), ("c", "data/b")):
        Path(f"data/{name}").write_text(name)
        stages[f"make_{name}"] = {"deps": [dep], "outs": [f"data/{name}"]}
    persistence._io_write(persistence._metadata_path, {"endtime": 7.0}, "data/c")
    monkeypatch.setattr(agreement, "locked", lambda: stages)
    return lambda changed, altered=None: agreed(monkeypatch, changed, altered)


def test_what_dvc_knows_is_kept_and_all_else_is_made_again(three_files):
    calls, lines = three_files(["make_b", "check"])
    (cleaned, touched) = calls
    assert cleaned == ("default", "--cleanup-metadata", "data/c")
    assert touched[0] == "default" and "--touch" in touched
    assert touched[touched.index("--") + 1 :] == ("data/a",)
    # Older than any input; Snakemake takes 0 for no date.
    assert Path("data/b").stat().st_mtime == Path("data/c").stat().st_mtime == 1
    assert Path("data/a").stat().st_mtime > 1
    assert lines == [
        "3 files are not as Snakemake left them: DVC knows 1 as current, 2 are made again"
    ]


def test_all_is_kept_when_dvc_finds_nothing_changed(three_files):
    ((study, *touched),) = three_files([])[0]
    assert study == "default" and touched[-3:] == ["data/a", "data/b", "data/c"]


def test_what_has_not_the_recorded_content_is_made_again(three_files):
    """DVC goes by dates and sizes, also where its own copy was damaged."""
    calls, lines = three_files([], altered=Path("data/b"))
    (touched,) = calls
    assert touched[touched.index("--") + 1 :] == ("data/a", "data/c")
    assert Path("data/b").stat().st_mtime == 1
    assert lines[0].endswith("DVC knows 2 as current, 1 are made again")


def test_an_index_stands_for_its_store(persistence):
    """A shard that was written after the index is another one than Snakemake knows."""
    index, shard = Path("data/zero") / agreement.INDEX, Path("data/zero/shard")
    index.parent.mkdir(parents=True)
    for path in (shard, index):
        path.write_text("a")
        os.utime(path, (100.0, 100.0))
    persistence._io_write(persistence._metadata_path, {"endtime": 100.0}, str(index))
    assert not agreement.is_foreign(index)
    os.utime(shard, (99.0, 99.0))
    assert not agreement.is_foreign(index)
    os.utime(shard, (100.5, 100.5))
    assert agreement.is_foreign(index)
    # Beside another file it does not matter.
    other = index.with_name("other.parquet")
    index.rename(other)
    persistence._io_write(persistence._metadata_path, {"endtime": 100.0}, str(other))
    assert not agreement.is_foreign(other)


def test_nothing_is_asked_when_nothing_is_foreign(persistence, monkeypatch):
    Path("data").mkdir()
    for name in "ab":
        path = Path("data") / name
        path.write_text(name)
        stamp = path.stat().st_mtime
        persistence._io_write(persistence._metadata_path, {"endtime": stamp}, str(path))

    def asked(*_):
        raise AssertionError("DVC is asked")

    for name in ("locked", "status", "_run"):
        monkeypatch.setattr(agreement, name, asked)
    agreement.agree([Path("data/a"), Path("data/b"), Path("data/c")], "default", asked)
