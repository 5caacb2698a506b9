"""How fast a machine multiplies matrices in the forms that models compute in, and which is quicker.

bfloat16 is three to seven times as fast as float32 on a processor with units for it, and slower on
one without: what `fast` computes in is therefore measured where it runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.models.affine import Affine, affine
from posenc.models.devices import device_for, use_threads, wait_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SHAPES = {"MiniLM": (384, 1536), "SmolLM2": (576, 1536), "GPT-2": (768, 3072)}
"""Features that the widest product of a block takes and gives."""
PRECISIONS = ("float32", "bfloat16")
"""Forms that `exact` and `fast` stand for."""
ROWS = 512
"""Tokens of a product, about those of a document."""
REPEATS = 7
Product = Callable[[Tensor], Tensor]


def forms(inputs: int, outputs: int, device: torch.device) -> dict[str, tuple[Product, Tensor]]:
    """Affine maps of one size in each form, and what each is applied to.

    Parameters
    ----------
    inputs, outputs
        Features.
    device
        Where they are computed.

    Returns
    -------
    By form: the map, from [rows, inputs] to [rows, outputs], and an input of random numbers.
    ``float32`` is what ``exact`` computes in, ``bfloat16`` what ``fast`` does; the others are
    PyTorch's own product and, on a CPU, bfloat16 whose weight was not brought into oneDNN's layout.
    """
    x = torch.randn(ROWS, inputs, device=device)  # [rows, inputs]
    weight = torch.randn(outputs, inputs, device=device) / inputs**0.5  # [outputs, inputs]
    half = weight.bfloat16()
    packed = Affine(nn.Parameter(half), None)
    packed.pack()
    by_form: dict[str, tuple[Product, Tensor]] = {
        "float32": (lambda y: affine(y, weight), x),
        "bfloat16": (packed, x.bfloat16()),
        "PyTorch float32": (lambda y: functional.linear(y, weight), x),
    }
    if device.type == "cpu":
        by_form["bfloat16, not packed"] = (lambda y: affine(y, half), x.bfloat16())
    return by_form


@torch.inference_mode()
def rate(product: Product, x: Tensor, outputs: int) -> float:
    """Floating-point operations per second of a product, the best of several.

    A CPU computes it on one thread, and the time is that thread's own: a busy machine must not
    change what a result is computed in.

    Parameters
    ----------
    product
        From [rows, inputs] to [rows, outputs].
    x
        [rows, inputs].
    outputs
        Features that it gives.
    """
    clock = time.thread_time if x.device.type == "cpu" else time.perf_counter
    times, threads = [], torch.get_num_threads()
    use_threads(1)
    try:
        for _ in range(REPEATS):
            wait_for(x.device)
            begin = clock()
            product(x)
            wait_for(x.device)
            times.append(clock() - begin)
    finally:
        use_threads(threads)
    return 2 * x.numel() * outputs / min(times[1:])


def is_quicker_in_bfloat16(model: PreTrainedModel) -> bool:
    """Whether this machine computes a ready model's widest product faster in bfloat16.

    A GPU that is supported does. On a CPU both are timed, for a few hundredths of a second, and
    what was found is printed.
    """
    device = next(model.parameters()).device
    if device.type != "cpu":
        return True
    widest = max(
        (module.weight for module in model.modules() if isinstance(module, Affine)),
        key=Tensor.numel,
    )
    outputs, inputs = widest.shape
    by_form = forms(inputs, outputs, device)
    rates = {form: rate(*by_form[form], outputs) for form in PRECISIONS}
    print(
        f"products of {inputs} x {outputs} on one thread, GFLOP/s: "
        f"{', '.join(f'{form} {speed / 1e9:,.0f}' for form, speed in rates.items())}: "
        f"computing in {quickest(rates)}",
        file=sys.stderr,
    )
    return quickest(rates) == "bfloat16"


def quickest(rates: dict[str, float]) -> str:
    """What `fast` computes in, given the rates of the forms."""
    return max(PRECISIONS, key=rates.__getitem__)


def table(device: str) -> str:
    """Rates of all forms for the shapes of known models, in lines.

    Parameters
    ----------
    device
        ``auto``, ``cpu`` or ``cuda``.
    """
    place, lines = torch.device(device_for(device)), list[str]()
    for name, (inputs, outputs) in SHAPES.items():
        by_form = forms(inputs, outputs, place)
        rates = {form: rate(*case, outputs) / 1e9 for form, case in by_form.items()}
        if not lines:
            unit = "GFLOP/s on one thread" if place.type == "cpu" else "GFLOP/s"
            lines.append(f"{unit:<24}" + "".join(f"{form:>22}" for form in [*rates, "fast is"]))
        numbers = "".join(f"{speed:>22,.0f}" for speed in rates.values())
        lines.append(f"{f'{name}: {inputs} x {outputs}':<24}{numbers}{quickest(rates):>22}")
    return "\n".join(lines)
