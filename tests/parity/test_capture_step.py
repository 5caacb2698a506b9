"""Capture and store: what they write is read back whole, from one part or many."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from posenc.artifacts.activations import INDEX, LOSSES, ActivationStore, shard_name
from posenc.artifacts.files import ArtifactError, read_sealed, sha256_file
from posenc.capture import runs
from posenc.capture.capture import forward
from posenc.conditions.section import Condition
from posenc.models import rates
from posenc.models.load import load
from tests.parity.capture_project import (
    INTACT,
    SHARDS,
    shards,
)
from tests.unit.damage import call

# --- What is written ----------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["intact", "zero"])
def test_the_store_gives_back_every_document(project, documents, condition):
    assert project.make() == {"intact", "zero"}
    store = ActivationStore(project.run(condition))
    assert store.metadata["run"] == {"model": "gpt2", "dataset": "sample", "condition": condition}
    assert store.metadata["condition"] == Condition(position=condition).model_dump()
    assert store.n_shards == SHARDS
    assert {path.name for path in project.run(condition).iterdir()} == {
        INDEX,
        LOSSES,
        *(shard_name(number) for number in range(SHARDS)),
    }
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
        expected = forward(model, [ids])[0][2][0].numpy()
        np.testing.assert_allclose(states[2, window], expected, rtol=1e-3, atol=1e-3)
        assert list(store.special_mask(row["shard"])[window]) == [True] + [False] * (len(ids) - 1)
        tokens = store.token_ids(row["shard"])
        assert isinstance(tokens, np.memmap) and tokens.dtype == np.int32
        assert list(tokens[window]) == ids


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
    """DVC empties an output before a stage runs, so captures must not lie within it."""
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
    seconds, rate = re.fullmatch(
        r"about ([\d,]+) s at ([\d,]+) tokens per second", said[1]
    ).groups()
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
    # Restarted with another number: finished parts stay.
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


def test_a_fast_run_is_exact_where_bfloat16_is_slower(project, monkeypatch):
    """The very bytes of an exact run."""
    exact = project.from_nothing() and stores(project.folder / "anew/activations/gpt2")
    monkeypatch.setattr(rates, "is_quicker_in_bfloat16", lambda model: False)
    project.parameters["precision"] = "fast"
    project.make()
    for condition, store in stores(project.output).items():
        assert store.metadata["precision"] == {"mode": "exact"}
        for shard in range(SHARDS):
            for name in ("hidden_states", "queries", "keys"):
                ours, theirs = (
                    getattr(source, name)(shard) for source in (store, exact[condition])
                )
                np.testing.assert_array_equal(ours, theirs)


def test_a_fast_run_says_how_far_it_is_from_float32(project, capsys, in_bfloat16):
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
                np.concatenate([source.hidden_states(shard)[state] for shard in range(SHARDS)])
                for source in (store, exact[condition])
            )  # [tokens, d_model] each
            relative = np.linalg.norm(a - b) / np.linalg.norm(b)
            # One row of all documents there, one per shard here: bfloat16 sums differ in order.
            assert said["relative_error"][state] == pytest.approx(relative, rel=0.3)
            assert 1e-4 < relative < 3e-2
            assert said["one_minus_cosine"][state] < 1e-3
        nll = [
            np.concatenate(source.losses()["nll"].to_pylist())
            for source in (store, exact[condition])
        ]  # [scored tokens] each
        assert said["nll_difference"] == pytest.approx((nll[0] - nll[1]).mean(), abs=2e-3)
        assert said["nll_sd"] < 5e-2
    assert "gpt2/sample/zero in bfloat16: last hidden state off by" in capsys.readouterr().err


def stores(folder: Path) -> dict[str, ActivationStore]:
    return {name: ActivationStore(folder / "sample" / name) for name in ("intact", "zero")}


# --- As commands ---------------------------------------------------------------------------------


def test_the_commands_write_what_the_functions_write(project):
    expected = project.from_nothing()
    options, receipt = project.options, project.receipt("2-of-2")
    done = call("posenc.steps.capture", **options, part="2-of-2", done=receipt)
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
