"""What a machine has is found without torch."""

import pytest

from posenc.models.devices import has_gpu


@pytest.mark.parametrize(
    ("files", "hidden", "found"),
    [
        ([], None, False),
        (["nvidiactl", "nvidia-uvm"], None, False),  # the driver alone
        (["nvidia0"], None, True),
        (["nvidia12", "nvidiactl"], "3", True),
        (["dxg"], None, True),
        (["nvidia0"], "", False),
        (["nvidia0"], "-1", False),
    ],
)
def test_a_gpu_is_found_by_its_device(files, hidden, found, tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    for name in files:
        (tmp_path / name).touch()
    assert has_gpu(tmp_path) is found
