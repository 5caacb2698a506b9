"""Which products are quicker here, and that the choice follows the measurement."""

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from posenc.cli import app
from posenc.models import affine, rates
from posenc.models.affine import Affine

PROCESSORS = {
    "this processor": None,
    "one that oneDNN has no bfloat16 for": lambda dtype: dtype == torch.float32,
    "one without AVX-512": lambda dtype: False,
}
"""What oneDNN multiplies on each."""


@pytest.fixture(params=PROCESSORS)
def processor(request, monkeypatch):
    """The paths of other processors must be tested everywhere."""
    if (takes := PROCESSORS[request.param]) is not None:
        monkeypatch.setattr(affine, "is_onednn_for", takes)
    return request.param


@pytest.mark.parametrize(
    ("capability", "has_mkl", "expected"),
    [("AVX512", True, True), ("AVX512", False, True), ("AVX2", False, True), ("AVX2", True, False)],
)
def test_float32_is_multiplied_by_mkl_where_it_is_and_avx_512_is_not(
    capability, has_mkl, expected, monkeypatch
):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: has_mkl)
    assert affine.is_onednn_for.__wrapped__(torch.float32) == expected
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not affine.is_onednn_for.__wrapped__(torch.float32)


@pytest.mark.parametrize("form", rates.forms(8, 16, torch.device("cpu")))
def test_every_form_is_the_same_product(form, processor):
    """Against the float64 sum of the numbers that the form is given."""
    torch.manual_seed(0)
    forms = rates.forms(24, 40, torch.device("cpu"))
    torch.manual_seed(0)
    x = torch.randn(rates.ROWS, 24)
    weight = torch.randn(40, 24) / 24**0.5
    product, given = forms[form]
    assert torch.equal(given.float(), x.to(given.dtype).float())
    expected = given.double() @ weight.to(given.dtype).double().T  # [rows, outputs]
    near = 1e-5 if given.dtype == torch.float32 else 2e-2
    with torch.inference_mode():
        torch.testing.assert_close(product(given).double(), expected, rtol=near, atol=near)


def test_weights_are_packed_where_onednn_takes_their_type(processor):
    """A packed weight has oneDNN's layout; on other processors it stays as it was."""
    model = nn.Sequential(Affine(nn.Parameter(torch.randn(16, 8).bfloat16()), None))
    model.get_output_embeddings = lambda: None
    before = model[0].weight.clone()
    is_packed = affine.pack(model)[0].weight.layout == torch._mkldnn
    assert is_packed == affine.is_onednn_for(torch.bfloat16)
    if not is_packed:
        assert torch.equal(model[0].weight, before)


def test_a_rate_is_operations_by_the_best_time(monkeypatch):
    # The first call, in which oneDNN compiles, is not counted.
    seconds = iter([0.0, 0.1, 1.0, 3.0, 3.0, 4.0, 5.0, 7.0, 8.0, 10.0, 10.0, 12.0, 20.0, 23.0])
    monkeypatch.setattr(rates.time, "thread_time", lambda: next(seconds))
    x = torch.zeros(10, 3)
    assert rates.rate(lambda y: y, x, 5) == 2 * 10 * 3 * 5 / 1.0


@pytest.mark.parametrize("slower", ["float32", "bfloat16"])
def test_what_was_measured_decides(slower, monkeypatch, capsys):
    model = nn.Sequential(*(Affine(nn.Parameter(torch.randn(n, 8)), None) for n in (4, 32, 16)))
    seen = []

    def rate(product, x, outputs):
        seen.append((x.shape[1], outputs))
        name = "float32" if x.dtype == torch.float32 else "bfloat16"
        return 1e9 if name == slower else 2e9

    monkeypatch.setattr(rates, "rate", rate)
    assert rates.is_quicker_in_bfloat16(model) == (slower == "float32")
    assert seen == [(8, 32)] * 2, "the widest product is the one that counts"
    other = "float32" if slower == "bfloat16" else "bfloat16"
    assert capsys.readouterr().err.endswith(f"computing in {other}\n")


def test_the_command_says_what_fast_is():
    done = CliRunner().invoke(app, ["bench", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    head, *lines = done.stdout.splitlines()
    assert "float32" in head and len(lines) == len(rates.SHAPES)
    for name, line in zip(rates.SHAPES, lines, strict=True):
        *numbers, chosen = line.split()[-5:]
        exact, fast, *_ = (float(number.replace(",", "")) for number in numbers)
        assert line.startswith(f"{name}: ")
        assert min(exact, fast) > 0
        assert chosen == ("bfloat16" if fast > exact else "float32")
