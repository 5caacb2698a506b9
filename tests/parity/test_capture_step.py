"""Capture and store: what they write is read back whole, gone on with after a kill, or kept."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import posenc.steps.capture as step
from posenc import runs
from posenc.capture import forward
from posenc.config.activations import Activations
from posenc.config.conditions import Condition
from posenc.files import (
    CHECKSUMS,
    ArtifactError,
    DamagedError,
    read_sealed,
    sha256_file,
    write_checksums,
)
from posenc.models import load
from posenc.steps import store as gather
from posenc.store import INDEX, LOSSES, ActivationStore, shard_name, write_table
from tests.parity.conftest import reference
from tests.unit.damage import call, flip, found_and_removed

PARAMETERS = Activations(
    quantities=["hidden_states", "queries", "keys"],
    dtype="float16",
    device="cpu",
    precision="exact",
    batch_tokens=64,
    shard_tokens=20,
)
INTACT, ZERO = {"position": "intact"}, {"position": "zero"}
SHARDS = 5  # of the six documents


class Killed(BaseException):
    """Stands for a kill."""


def killed(*_, **__):
    raise Killed


class Project:
    """A small GPT-2, its tokens of a data set, and the jobs that capture its runs."""

    def __init__(self, folder: Path, documents: list[list[int]]) -> None:
        self.folder, self.documents = folder, documents
        self.weights, self.tokens = folder / "models/gpt2", folder / "tokens/gpt2"
        self.output = folder / "activations/gpt2"
        self.conditions = {"intact": INTACT, "zero": ZERO}
        self.parameters = PARAMETERS.model_dump()
        reference("gpt2").save_pretrained(self.weights)
        write_checksums(self.weights / CHECKSUMS, "config.json", "model.safetensors")
        self.tokenize(documents)

    def tokenize(self, documents: list[list[int]]) -> None:
        table = pa.table(
            {
                "document_id": [f"d{n}" for n in range(len(documents))],
                "input_ids": pa.array(documents, pa.list_(pa.int32())),
                "special": [[True] + [False] * (len(ids) - 1) for ids in documents],
                "bytes": [3 * (len(ids) - 1) for ids in documents],
            }
        )
        write_table(table, self.tokens / "sample.parquet", {"bos": True})

    @property
    def options(self) -> dict:
        """Options of both steps."""
        config = self.folder / "capture.json"
        job = {
            "reading": {"family": "gpt2", "max_tokens": 40},
            "activations": self.parameters,
            "datasets": ["sample"],
            "conditions": self.conditions,
        }
        config.write_text(json.dumps(job))
        return {
            "model": "gpt2",
            "config": config,
            "weights": self.weights,
            "tokens": self.tokens,
            "output": self.output,
        }

    def capture(self, part: str = "1-of-1") -> set[str]:
        """Run a capture, and say which runs it worked at."""
        receipt = self.receipt(part)
        receipt.unlink(missing_ok=True)
        step.main(**self.options, part=part, receipt=receipt)
        return set(json.loads(receipt.read_text())["captured"])

    def receipt(self, part: str = "1-of-1") -> Path:
        """The file by which Snakemake knows that a part is captured."""
        return self.output.parents[1] / f"captures/gpt2.{part}.json"

    def store(self) -> None:
        gather.main(**self.options)

    def make(self) -> set[str]:
        """Run both steps, as the workflow does."""
        worked_at = self.capture()
        self.store()
        return {name.removeprefix("gpt2/sample/") for name in worked_at}

    def run(self, condition: str = "intact") -> Path:
        """Folder of a run's store."""
        return self.output / "sample" / condition

    def partial(self, condition: str) -> Path:
        """Folder of a run's partial work."""
        (folder,) = runs.partials(self.output).glob(f"sample.{condition}.*")
        return folder

    def contents(self) -> dict[str, str]:
        """SHA-256 of every file of the stores."""
        return contents(self.output)

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Inode and date of every file of the stores."""
        return {
            str(path.relative_to(self.output)): (path.stat().st_ino, path.stat().st_mtime_ns)
            for path in self.output.rglob("*")
            if path.is_file()
        }

    def from_nothing(self) -> dict[str, str]:
        """What both steps write where nothing was written before."""
        before, self.output = self.output, self.folder / "anew/activations/gpt2"
        shutil.rmtree(self.folder / "anew", ignore_errors=True)
        self.make()
        found, self.output = self.contents(), before
        return found


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): sha256_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def project(tmp_path, documents) -> Project:
    return Project(tmp_path, documents)


@pytest.fixture
def written(monkeypatch) -> list[tuple[str, int]]:
    """Shards as they are written: condition and number."""
    original, found = step.write_shard, []

    def write(partial, number, *rest):
        found.append((partial.name.split(".")[1], number))
        original(partial, number, *rest)

    monkeypatch.setattr(step, "write_shard", write)
    return found


def shards(condition: str, *numbers: int) -> list[tuple[str, int]]:
    return [(condition, number) for number in numbers or range(SHARDS)]


# --- What is written ----------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["intact", "zero"])
def test_the_store_gives_back_every_document(project, documents, condition):
    assert project.make() == {"intact", "zero"}
    store = ActivationStore(project.run(condition))
    assert store.metadata["run"] == {"model": "gpt2", "dataset": "sample", "condition": condition}
    assert store.metadata["condition"] == Condition(position=condition).model_dump()
    assert store.n_shards == SHARDS
    assert {path.name for path in project.run(condition).iterdir()} == {
        INDEX, LOSSES, *(shard_name(number) for number in range(SHARDS)),
    }  # fmt: skip
    model = load(project.weights, "gpt2")
    if condition == "zero":
        model.transformer.wpe.weight.data.zero_()
    losses = store.losses()
    for row, nll, ids in zip(
        store.documents.to_pylist(), losses["nll"].to_pylist(), documents, strict=True
    ):
        assert row["length"] == len(ids) == len(nll) + 1
        states = store.hidden_states(row["shard"])
        assert isinstance(states, np.memmap) and states.dtype == np.float16
        window = slice(row["start"], row["start"] + row["length"])
        expected = forward(model, [ids], True)[0][2][0].numpy()
        np.testing.assert_allclose(states[2, window], expected, rtol=1e-3, atol=1e-3)
        assert list(store.special_mask(row["shard"])[window]) == [True] + [False] * (len(ids) - 1)


def test_an_index_says_what_its_run_is_made_of(project):
    project.make()
    metadata = ActivationStore(project.run("zero")).metadata
    assert metadata["inputs"] == {
        "tokens": sha256_file(project.tokens / "sample.parquet"),
        "weights": sha256_file(project.weights / "model.safetensors"),
        "config": sha256_file(project.weights / "config.json"),
    }
    assert metadata["parameters"] == project.parameters
    assert metadata["versions"].keys() == {"numpy", "torch", "transformers"}
    assert len(metadata["code"]) == 64


def test_partial_work_lies_beside_the_stores_and_is_gone_in_the_end(project):
    """DVC empties an output before a stage runs: what is captured must not lie within it."""
    project.capture()
    assert not project.output.exists()
    assert runs.partials(project.output) == project.folder / "captures/gpt2"
    names = {path.name.rsplit(".", 1)[0] for path in (project.folder / "captures/gpt2").iterdir()}
    assert names == {"sample.intact", "sample.zero"}
    stranger = project.folder / "captures/gpt2/sample.other.0123456789abcdef"
    stranger.mkdir()
    project.store()
    assert not (project.folder / "captures/gpt2").exists()
    assert len(project.contents()) == 2 * (SHARDS + 2)


def test_a_capture_that_does_not_fit_the_disk_is_refused(project, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1))
    project.parameters["quantities"] = ["hidden_states"]
    with pytest.raises(ArtifactError, match=r"^156 tokens x 256 bytes .*do not fit"):
        project.capture()
    assert not project.output.exists()


def test_what_it_will_take_is_said_before(project, capsys):
    project.capture()
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("156 tokens x 640 bytes = 0.00 GB (")
    seconds, rate = re.fullmatch(r"about ([\d,]+) s at ([\d,]+) tokens a second", said[1]).groups()
    assert float(seconds) == pytest.approx(156 / float(rate.replace(",", "")), abs=0.6)


def test_quantities_that_were_left_out_are_named(project):
    project.parameters.update(quantities=["queries"], dtype="float32")
    project.make()
    store = ActivationStore(project.run())
    assert store.queries(0).dtype == np.float32
    with pytest.raises(ArtifactError, match=r"no hidden_states: add it to activations"):
        store.hidden_states(0)


# --- Parts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order", list(itertools.permutations(("1-of-3", "2-of-3", "3-of-3")))[::2], ids="+".join
)
def test_parts_in_any_order_give_the_same_bytes_as_one(project, written, order):
    expected = project.from_nothing()
    written.clear()
    for number, part in enumerate(order, start=1):
        with pytest.raises(ArtifactError, match=r"^gpt2/sample/intact: . of 5 shards are not cap"):
            project.store()
        assert not project.output.exists()
        assert project.capture(part) == {"gpt2/sample/intact", "gpt2/sample/zero"}
        assert len(set(written)) == len(written), f"after {number} parts"
    assert sorted(written) == shards("intact") + shards("zero")
    project.store()
    assert project.contents() == expected


@pytest.mark.parametrize("absent", [1, 2, 3])
def test_a_store_is_refused_while_a_part_is_missing(project, absent):
    for part in {1, 2, 3} - {absent}:
        project.capture(f"{part}-of-3")
    count = len(range(absent - 1, SHARDS, 3))
    with pytest.raises(
        ArtifactError,
        match=rf"^gpt2/sample/intact: {count} of 5 shards are not captured; start the workflow",
    ):
        project.store()
    assert not project.output.exists(), "nothing is written before all is there"
    project.capture(f"{absent}-of-3")
    project.store()
    ActivationStore(project.run("zero"))


def test_more_parts_than_shards_and_another_number_of_parts(project, written):
    expected = project.from_nothing()
    written.clear()
    for part in range(1, 4):
        project.capture(f"{part}-of-7")
    # Started again with another number: what is finished stays.
    assert project.capture("1-of-2") and project.capture("2-of-2")
    assert sorted(written) == shards("intact") + shards("zero")
    project.store()
    assert project.contents() == expected


def test_parts_after_one_edit_leave_the_other_run_alone(project, written):
    project.make()
    before = project.stamps()
    project.conditions["zero"] = INTACT
    written.clear()
    for part in ("2-of-2", "1-of-2"):
        assert project.capture(part) == {"gpt2/sample/zero"}
    project.store()
    assert sorted(written) == shards("zero")
    after = project.stamps()
    assert {name for name in after if after[name] == before[name]} == {
        name for name in before if name.startswith("sample/intact/")
    }


# --- Precision ----------------------------------------------------------------------------------


def test_a_fast_run_says_how_far_it_is_from_float32(project, capsys):
    """Against the stores of both, read back: the error of the first documents, layer by layer."""
    project.parameters["dtype"] = "float32"
    exact = project.from_nothing() and stores(project.folder / "anew/activations/gpt2")
    project.parameters["precision"] = "fast"
    project.make()
    for condition, store in stores(project.output).items():
        said = store.metadata["precision"]
        assert said["mode"] == "fast" and said["tokens"] == sum(map(len, project.documents))
        assert exact[condition].metadata["precision"] == {"mode": "exact"}
        for state in range(4):
            a, b = (
                np.concatenate([one.hidden_states(shard)[state] for shard in range(SHARDS)])
                for one in (store, exact[condition])
            )  # [tokens, d_model] each
            relative = np.linalg.norm(a - b) / np.linalg.norm(b)
            # One row of all documents there, one a shard here: bfloat16 sums in another order.
            assert said["relative_error"][state] == pytest.approx(relative, rel=0.3)
            assert 1e-4 < relative < 3e-2
            assert said["one_minus_cosine"][state] < 1e-3
        nll = [
            np.concatenate(one.losses()["nll"].to_pylist()) for one in (store, exact[condition])
        ]  # [scored tokens] each
        assert said["nll_difference"] == pytest.approx((nll[0] - nll[1]).mean(), abs=2e-3)
        assert said["nll_sd"] < 5e-2
    assert "gpt2/sample/zero in bfloat16: last hidden state off by" in capsys.readouterr().err


def stores(folder: Path) -> dict[str, ActivationStore]:
    return {name: ActivationStore(folder / "sample" / name) for name in ("intact", "zero")}


# --- Kills --------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed_at", [0, 1, 3, 5, 7])
def test_a_killed_capture_goes_on_and_ends_the_same(project, monkeypatch, killed_at):
    expected = project.from_nothing()
    order = shards("intact") + shards("zero")
    written, original = [], step.write_shard

    def write(partial, number, *rest):
        if len(written) == killed_at:
            written.append("killed")
            raise Killed
        written.append((partial.name.split(".")[1], number))
        original(partial, number, *rest)

    monkeypatch.setattr(step, "write_shard", write)
    with pytest.raises(Killed):
        project.capture()
    assert not project.output.exists() and not project.receipt().exists()
    project.make()
    assert written == [*order[:killed_at], "killed", *order[killed_at:]]
    assert project.contents() == expected


@pytest.mark.parametrize("name", ["ShardFile.write", "write_sealed"])
def test_a_shard_counts_only_with_its_receipt(project, written, monkeypatch, name):
    """Killed between a shard's own files."""
    expected = project.from_nothing()
    written.clear()
    with monkeypatch.context() as patch:
        patch.setattr(f"posenc.runs.{name}", killed)
        with pytest.raises(Killed):
            project.capture()
    with pytest.raises(ArtifactError, match="5 of 5 shards are not captured"):
        project.store()
    project.make()
    assert written == [*shards("intact", 0), *shards("intact"), *shards("zero")]
    assert project.contents() == expected


@pytest.mark.parametrize("killed_at", ["write_table", "replace_directory"])
@pytest.mark.parametrize("condition", ["intact", "zero"])
def test_a_killed_store_goes_on_by_itself(project, written, monkeypatch, killed_at, condition):
    """The captures count as done by then: nothing but the store runs again."""
    expected = project.from_nothing()
    project.capture()
    original = getattr(runs, killed_at)

    def killed_once(*arguments):
        if any(f"sample.{condition}." in str(argument) for argument in arguments):
            raise Killed
        original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(runs, killed_at, killed_once)
        with pytest.raises(Killed):
            project.store()
    assert not project.run(condition).exists()
    written.clear()
    project.store()
    assert project.contents() == expected
    assert written == []


def test_partial_work_of_another_condition_is_not_mixed_in(project, written):
    project.capture()
    project.conditions["zero"] = INTACT
    expected = project.from_nothing()
    written.clear()
    project.make()
    # What is finished of the run that was not edited is taken over.
    assert written == shards("zero")
    assert project.contents() == expected
    same = {name.rsplit("/", 1)[1]: digest for name, digest in expected.items() if "/zero/" in name}
    for number in range(SHARDS):
        assert same[shard_name(number)] == expected[f"sample/intact/{shard_name(number)}"]


@pytest.mark.parametrize("file", [shard_name(2), "losses-00002.npy", f"{shard_name(2)}.json"])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "removed"])
def test_a_damaged_finished_shard_is_made_again(project, written, capsys, file, damage):
    expected = project.from_nothing()
    project.capture()
    path = project.partial("zero") / file
    if damage == "flipped":
        flip(path)
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:-4])
    else:
        path.unlink()
    written.clear()
    capsys.readouterr()
    project.make()
    assert written == shards("zero", 2)
    if not (damage == "removed" and file.endswith(".json")):
        said = capsys.readouterr().err
        assert "shard 2 of sample.zero is damaged and is made again" in said
        assert said.count("is damaged") == 1
    assert project.contents() == expected


# --- Current runs -------------------------------------------------------------------------------


def test_current_runs_are_kept_and_no_model_is_loaded(project, monkeypatch, capsys):
    assert project.make() == {"intact", "zero"}
    before = project.stamps()
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr("posenc.models.load", killed)
        assert project.make() == set()
        assert project.stamps() == before
        said = capsys.readouterr().err
        assert "gpt2/sample/intact is current and is kept" in said
        assert "gpt2/sample/zero is current and is kept" in said
        project.conditions["zero"] = INTACT
        with pytest.raises(Killed):
            project.make()


def test_an_edited_condition_leaves_the_others_as_they_are(project, written):
    project.make()
    before, old = project.stamps(), project.contents()
    written.clear()
    project.conditions["zero"] = INTACT
    assert project.make() == {"zero"}
    assert written == shards("zero")
    after = project.stamps()
    for name, stamp in before.items():
        assert (after[name] == stamp) == name.startswith("sample/intact/"), name
    assert project.contents() == project.from_nothing() != old


def test_a_condition_that_is_added_or_left_out_changes_no_other(project, written):
    project.make()
    before = project.stamps()
    written.clear()
    project.conditions = {"other": ZERO, "intact": INTACT}
    assert project.make() == {"other"}
    assert written == shards("other")
    after = project.stamps()
    # What the study no longer has is set aside by the workflow, not by this step.
    assert all(after[name] == stamp for name, stamp in before.items())


@pytest.mark.parametrize("edit", ["tokens", "weights", "config", "parameters", "versions", "code"])
def test_a_run_of_other_inputs_is_captured_again(project, written, monkeypatch, edit):
    project.make()
    written.clear()
    if edit == "tokens":
        project.tokenize([ids[::-1] for ids in project.documents])
    elif edit in ("weights", "config"):
        model = reference("gpt2")
        if edit == "weights":
            model.transformer.wte.weight.data[3] += 1
        else:
            model.config.layer_norm_epsilon = 1e-3
        model.save_pretrained(project.weights)
        write_checksums(project.weights / CHECKSUMS, "config.json", "model.safetensors")
    elif edit == "parameters":
        project.parameters["batch_tokens"] = 65
    elif edit == "versions":
        monkeypatch.setattr(runs, "versions", lambda *names: dict.fromkeys(names, "0"))
    else:
        monkeypatch.setattr(runs, "code_digest", lambda module: "0" * 64)
    assert project.make() == {"intact", "zero"}
    assert sorted(written) == shards("intact") + shards("zero")
    assert project.contents() == project.from_nothing()
    assert project.make() == set()


@pytest.mark.parametrize("file", [shard_name(1), LOSSES, INDEX])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "removed"])
def test_a_damaged_run_is_captured_again(project, written, capsys, file, damage):
    project.make()
    whole, before = project.contents(), project.stamps()
    path = project.run("zero") / file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flipped" else content[:-3])
        with pytest.raises(DamagedError) as caught:
            ActivationStore(project.run("zero"))
        assert caught.value.path == project.run("zero") / INDEX
    written.clear()
    capsys.readouterr()
    assert project.make() == {"zero"}
    assert written == shards("zero")
    said = capsys.readouterr().err
    assert (f"{path} " in said and "captured again" in said) == (
        (damage, file) != ("removed", INDEX)
    )
    assert project.contents() == whole
    after = project.stamps()
    for name, stamp in before.items():
        assert (after[name] == stamp) == name.startswith("sample/intact/"), name
    assert project.make() == set()


# --- Damage -------------------------------------------------------------------------------------


def test_a_flipped_bit_a_truncation_and_a_missing_shard_are_found(project):
    project.make()
    folder = project.run()
    path = folder / shard_name(1)
    whole = path.read_bytes()
    for damage in (whole[:-1], whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:]):
        path.write_bytes(damage)
        with pytest.raises(DamagedError, match=r"shard-00001.* checksum"):
            ActivationStore(folder)
    path.write_bytes(whole[:-1])
    with pytest.raises(DamagedError, match="truncated"):
        ActivationStore(folder, verify=()).shard(1)
    path.unlink()
    with pytest.raises(DamagedError, match="missing") as caught:
        ActivationStore(folder)
    index = folder / INDEX
    assert caught.value.path == index
    index.write_bytes(index.read_bytes()[:-20])
    with pytest.raises(DamagedError, match="damaged"):
        ActivationStore(folder)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", CHECKSUMS])
def test_an_altered_model_is_not_captured(project, file):
    path = flip(project.weights / file)
    with pytest.raises(DamagedError) as caught:
        project.capture()
    assert caught.value.path == path
    found_and_removed(path, "posenc.steps.capture", **project.options)
    assert not project.output.exists() and not (project.folder / "captures").exists()


def test_altered_tokens_are_not_captured(project):
    path = project.tokens / "sample.parquet"
    whole = path.read_bytes()
    # Within a page, and within its metadata: there are bytes between that no reader reads.
    for position in (60, whole.index(b"ARROW:schema") + 400):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(DamagedError) as caught:
            project.capture()
        assert caught.value.path == path


@pytest.mark.parametrize("file", [shard_name(2), "losses-00002.npy", f"{shard_name(2)}.json"])
def test_what_is_damaged_before_it_is_gathered_is_found(project, written, file):
    """A shard, which the store does not read, at the latest when it is opened."""
    expected = project.from_nothing()
    project.capture()
    flip(project.partial("zero") / file)
    with pytest.raises(DamagedError) as caught:
        project.store()
        ActivationStore(project.run("zero"))
    written.clear()
    # As the command does.
    caught.value.path.unlink()
    project.make()
    assert {condition for condition, _ in written} == {"zero"}
    assert project.contents() == expected


@pytest.mark.parametrize("cause", ["missing", "damaged"])
def test_a_store_that_is_refused_makes_the_captures_due_again(project, cause):
    """Snakemake runs a capture again only when its receipt is gone: `start again` must help."""
    expected = project.from_nothing()
    for part in ("1-of-2", "2-of-2"):
        project.capture(part)
    path = project.partial("zero") / f"{shard_name(2)}.json"
    path.unlink() if cause == "missing" else flip(path)
    done = call("posenc.steps.store", **project.options)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and "start" in line
    due = [part for part in ("1-of-2", "2-of-2") if not project.receipt(part).exists()]
    # Shard 2 belongs to the first part.
    assert "1-of-2" in due
    for part in due:
        project.capture(part)
    project.store()
    assert project.contents() == expected


def test_the_commands_write_what_the_functions_write(project):
    expected = project.from_nothing()
    options, receipt = project.options, project.receipt("2-of-2")
    done = call("posenc.steps.capture", **options, part="2-of-2", receipt=receipt)
    assert done.returncode == 0, done.stderr
    both = ["gpt2/sample/intact", "gpt2/sample/zero"]
    assert json.loads(receipt.read_text())["captured"] == both
    for run in ("intact", "zero"):
        receipts = sorted(project.partial(run).glob("*.json"))
        assert [path.name for path in receipts] == [f"{shard_name(n)}.json" for n in (1, 3)]
        assert all(read_sealed(path)["shape"]["n_layers"] == 3 for path in receipts)
    done = call("posenc.steps.store", **options)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: gpt2/sample/intact: 3 of 5 shards are not captured")
    project.capture("1-of-2")
    done = call("posenc.steps.store", **options)
    assert done.returncode == 0, done.stderr
    assert project.contents() == expected
