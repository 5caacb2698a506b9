"""Shards written part by part are what the safetensors library writes and reads."""

import errno
import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from posenc.artifacts.activations import SCHEMA, map_shard
from posenc.artifacts.shards import ShardFile

SHAPES = {
    "keys": ("float32", (2, 3, 11, 4)),
    "hidden_states": ("float16", (3, 11, 5)),
    "token_ids": ("int32", (11,)),
    "special_mask": ("bool", (11,)),
}


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        name: (rng.normal(size=shape) > 0 if dtype == "bool" else rng.normal(size=shape)).astype(
            dtype
        )
        for name, (dtype, shape) in SHAPES.items()
    }


def write(path, arrays, parts) -> None:
    with ShardFile(path, SHAPES) as file:
        for begin, end in parts:
            for name in ("keys", "hidden_states"):
                file.write(name, begin, arrays[name][..., begin:end, :])
            for name in ("token_ids", "special_mask"):
                file.write(name, begin, arrays[name][begin:end])


@pytest.mark.parametrize("parts", [[(0, 11)], [(7, 11), (0, 2), (2, 7)]])
def test_any_order_gives_the_library_s_tensors(tmp_path, arrays, parts):
    write(tmp_path / "ours", arrays, parts)
    save_file(arrays, tmp_path / "theirs", metadata={"schema": str(SCHEMA)})
    for read in (load_file, map_shard):
        ours, theirs = read(tmp_path / "ours"), read(tmp_path / "theirs")
        assert ours.keys() == theirs.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(ours[name], array)
            assert ours[name].dtype == theirs[name].dtype == array.dtype
    assert (tmp_path / "ours").stat().st_size == (tmp_path / "theirs").stat().st_size


def test_what_is_not_written_reads_as_zero(tmp_path, arrays):
    write(tmp_path / "ours", arrays, [(3, 5)])
    keys = load_file(tmp_path / "ours")["keys"]
    np.testing.assert_array_equal(keys[:, :, 3:5], arrays["keys"][:, :, 3:5])
    assert not keys[:, :, :3].any() and not keys[:, :, 5:].any()


def test_another_type_is_refused(tmp_path, arrays):
    with ShardFile(tmp_path / "ours", SHAPES) as file, pytest.raises(TypeError, match="float16"):
        file.write("hidden_states", 0, arrays["hidden_states"].astype(np.float64))


def test_a_call_that_writes_less_than_it_is_given(tmp_path, arrays, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: real(file, data[:7], offset))
    write(tmp_path / "ours", arrays, [(0, 11)])
    for name, array in load_file(tmp_path / "ours").items():
        np.testing.assert_array_equal(array, arrays[name])


def test_a_full_disk_is_named(tmp_path, arrays, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "ours", arrays, [(0, 11)])
