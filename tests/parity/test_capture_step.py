"""The capture step: what it writes is read back whole, resumed after a kill, or refused."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import posenc.steps.capture as step
from posenc.config.activations import Activations
from posenc.config.conditions import Condition
from posenc.config.models import Reading
from posenc.files import ArtifactError, sha256_file
from posenc.store import INDEX, ActivationStore, shard_name, write_table
from tests.parity.conftest import reference

PARAMETERS = Activations(
    quantities=["hidden_states", "queries", "keys"],
    dtype="float16",
    device="cpu",
    batch_tokens=64,
    shard_tokens=20,
)


class Killed(BaseException):
    """Stands for a kill."""


@pytest.fixture
def arguments(tmp_path, documents) -> dict:
    """Command-line arguments of a capture of the small GPT-2."""
    reference("gpt2").save_pretrained(tmp_path / "model")
    for name, section in (
        ("reading", Reading(family="gpt2", max_tokens=40)),
        ("condition", Condition(position="intact")),
        ("config", PARAMETERS),
    ):
        (tmp_path / f"{name}.json").write_text(section.model_dump_json())
    table = pa.table(
        {
            "document_id": [f"d{n}" for n in range(len(documents))],
            "input_ids": pa.array(documents, pa.list_(pa.int32())),
            "special": [[True] + [False] * (len(ids) - 1) for ids in documents],
            "bytes": [3 * (len(ids) - 1) for ids in documents],
        }
    )
    write_table(table, tmp_path / "tokens.parquet", {"bos": True})
    return {
        "run_name": "gpt2/sample/intact",
        "weights": tmp_path / "model",
        "tokens": tmp_path / "tokens.parquet",
        "output": tmp_path / "intact",
        **{name: tmp_path / f"{name}.json" for name in ("reading", "condition", "config")},
    }


def contents(folder) -> dict[str, str]:
    return {path.name: sha256_file(path) for path in sorted(folder.iterdir())}


def test_the_store_gives_back_every_document(arguments, documents):
    step.main(**arguments)
    store = ActivationStore(arguments["output"])
    assert store.metadata["run"] == {"model": "gpt2", "dataset": "sample", "condition": "intact"}
    assert store.n_shards == 5
    assert sum(path.name.startswith("shard") for path in arguments["output"].iterdir()) == 5
    losses = store.losses()
    for row, nll, ids in zip(
        store.documents.to_pylist(), losses["nll"].to_pylist(), documents, strict=True
    ):
        assert row["length"] == len(ids) == len(nll) + 1
        states = store.hidden_states(row["shard"])
        assert isinstance(states, np.memmap) and states.dtype == np.float16
        window = slice(row["start"], row["start"] + row["length"])
        from posenc.capture import forward
        from posenc.models import load

        expected = forward(load(arguments["weights"], "gpt2"), [ids], True)[0][2][0].numpy()
        np.testing.assert_allclose(states[2, window], expected, rtol=1e-3, atol=1e-3)
        assert list(store.special_mask(row["shard"])[window]) == [True] + [False] * (len(ids) - 1)


@pytest.mark.parametrize("killed_at", [0, 1, 3])
def test_a_killed_capture_goes_on_and_ends_the_same(arguments, monkeypatch, killed_at, capsys):
    step.main(**arguments)
    undisturbed = contents(arguments["output"])
    shutil.rmtree(arguments["output"])
    written = []
    original = step.write_shard

    def write(partial, number, *rest):
        if number == killed_at and not written.count("killed"):
            written.append("killed")
            raise Killed
        written.append(number)
        original(partial, number, *rest)

    monkeypatch.setattr(step, "write_shard", write)
    with pytest.raises(Killed):
        step.main(**arguments)
    assert not arguments["output"].exists()
    step.main(**arguments)
    assert written == [*range(killed_at), "killed", *range(killed_at, 5)]
    assert contents(arguments["output"]) == undisturbed


def test_partial_work_of_another_condition_is_not_mixed_in(arguments, monkeypatch, capsys):
    original = step.finish

    def killed(*_):
        raise Killed

    monkeypatch.setattr(step, "finish", killed)
    with pytest.raises(Killed):
        step.main(**arguments)
    monkeypatch.setattr(step, "finish", original)
    arguments["condition"].write_text(Condition(position="zero").model_dump_json())
    step.main(**arguments)
    assert "belongs to other inputs" in capsys.readouterr().err
    resumed = contents(arguments["output"])
    shutil.rmtree(arguments["output"])
    step.main(**arguments)
    assert contents(arguments["output"]) == resumed


def test_a_flipped_bit_a_truncation_and_a_missing_shard_are_found(arguments):
    step.main(**arguments)
    path = arguments["output"] / shard_name(1)
    whole = path.read_bytes()
    for damage in (whole[:-1], whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:]):
        path.write_bytes(damage)
        with pytest.raises(ArtifactError, match=r"shard-00001.* checksum"):
            ActivationStore(arguments["output"])
    path.write_bytes(whole[:-1])
    with pytest.raises(ArtifactError, match="truncated"):
        ActivationStore(arguments["output"], verify=()).shard(1)
    path.unlink()
    with pytest.raises(ArtifactError, match="missing"):
        ActivationStore(arguments["output"])
    index = arguments["output"] / INDEX
    index.write_bytes(index.read_bytes()[:-20])
    with pytest.raises(ArtifactError, match="damaged"):
        ActivationStore(arguments["output"])


def test_a_damaged_finished_shard_is_made_again(arguments, monkeypatch, capsys):
    original = step.finish

    def killed(*_):
        raise Killed

    monkeypatch.setattr(step, "finish", killed)
    with pytest.raises(Killed):
        step.main(**arguments)
    partial = arguments["output"].with_name(".intact.partial")
    shard = partial / shard_name(2)
    shard.write_bytes(shard.read_bytes()[:-4])
    monkeypatch.setattr(step, "finish", original)
    step.main(**arguments)
    assert "shard 2 is damaged" in capsys.readouterr().err
    ActivationStore(arguments["output"])


def test_a_capture_that_does_not_fit_the_disk_is_refused(arguments, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1))
    with pytest.raises(ArtifactError, match=r"tokens x 256 bytes .*do not fit"):
        step.main(**{**arguments, "config": _only(arguments, ["hidden_states"], "float16")})
    assert not arguments["output"].exists()


def _only(arguments, quantities, dtype):
    path = arguments["config"].with_name("only.json")
    section = json.loads(arguments["config"].read_text())
    path.write_text(json.dumps({**section, "quantities": quantities, "dtype": dtype}))
    return path


def test_quantities_that_were_left_out_are_named(arguments):
    step.main(**{**arguments, "config": _only(arguments, ["queries"], "float32")})
    store = ActivationStore(arguments["output"])
    assert store.queries(0).dtype == np.float32
    with pytest.raises(ArtifactError, match=r"no hidden_states: add it to activations"):
        store.hidden_states(0)
