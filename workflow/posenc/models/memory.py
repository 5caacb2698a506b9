"""How much memory a model takes, by its configuration alone, and what would fit where it does not.

``python -m tests.benchmarks.memory`` measures that no more than :data:`BESIDE` is taken beside the
weights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.artifacts.precision import is_narrow
from posenc.models.devices import PASSES_AT_ONCE, has_gpu
from posenc.models.files import ModelError, library_class
from posenc.models.references import LARGE, bytes_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

BESIDE = 1.5e9
"""Bytes of the program, and of what is made while a model is loaded."""
FEWEST = 256
"""Tokens of a pass, below which a smaller one is no advice."""
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where Linux says how much of a machine's memory this process may have."""
PLACES = {"cpu": "this machine", "cuda": "the GPU"}


@dataclass(frozen=True)
class Memory:
    """What a model takes.

    Attributes
    ----------
    weights
        How many.
    of_token
        Numbers that a forward pass keeps of a token.
    is_narrow
        Whether its files are bfloat16 or float16; `fast` compares others in float32 first.
    """

    weights: int
    of_token: int
    is_narrow: bool = True

    def width(self, precision: str) -> int:
        """Bytes of a weight in `exact` or `fast`."""
        return 2 if precision == "fast" and self.is_narrow else 4

    def size(self, precision: str, tokens: int = 0) -> float:
        """Bytes, with passes of so many tokens."""
        per_token = {"exact": 4, "fast": 2}[precision] * self.of_token
        return self.width(precision) * self.weights + BESIDE + tokens * per_token

    def most_tokens(self, precision: str, there: float) -> int:
        """Tokens of the largest pass that so many bytes have room for; negative for none."""
        left = there - self.size(precision)
        return int(left // (self.size(precision, 1) - self.size(precision)))

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {self.size(name) / 1e9:.1f} GB" for name in ("exact", "fast"))
        per_token = (self.size("fast", 1) - self.size("fast")) / 1e6
        return (
            f"memory: {self.weights / 1e9:.2f} billion weights take {sizes}, and a token of a pass "
            f"{per_token:.2f} MB in fast"
        )


def memory_of(
    config: PretrainedConfig, made_by: type[PreTrainedModel], options: Mapping[str, Any]
) -> Memory:
    """Count the weights of a configuration, which nothing is made of.

    Parameters
    ----------
    config, made_by, options
        From :func:`posenc.models.files.library_class`.
    """
    import torch

    with torch.device("meta"):
        model = made_by(config, **options)
    text = config.get_text_config(decoder=True)
    width, layers = text.hidden_size, text.num_hidden_layers
    widest = max(
        max(parameter.shape)
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1 and "embed" not in name and "head" not in name.split(".")[0]
    )
    return Memory(
        weights=sum(parameter.numel() for parameter in model.parameters()),
        of_token=(layers + 8) * width + 3 * widest,
        is_narrow=is_narrow(config.dtype),
    )


def memory_in(folder: Path) -> Memory:
    """As :func:`memory_of`, of a folder's ``config.json``."""
    return memory_of(*library_class(folder))


def there() -> dict[str, float]:
    """Bytes of this machine, and of its GPU if it has one, by the device's name."""
    whole = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in LIMITS:
        if path.is_file() and (said := path.read_text().strip()).isdigit():
            whole = min(whole, float(said))
    capacity = {"cpu": whole}
    if has_gpu():
        import torch

        if torch.cuda.is_available():
            capacity["cuda"] = float(torch.cuda.get_device_properties(0).total_memory)
    return capacity


def problem(
    memory: Memory, precision: str, device: str, batch_tokens: int, there: Mapping[str, float]
) -> str | None:
    """Why a model does not fit, and what would, in one line; None if it fits.

    Parameters
    ----------
    memory
        Of the model.
    precision, device, batch_tokens
        As in ``activations``.
    there
        From :func:`there`.
    """
    place = device if device in there else max(there, key=lambda name: name == "cuda")
    needed = memory.size(precision, batch_tokens * PASSES_AT_ONCE[place])
    if needed <= there[place]:
        return None
    line = (
        f"{memory.weights / 1e9:.2f} billion weights in {precision} with batch_tokens "
        f"{batch_tokens} take {needed / 1e9:.1f} GB, and {PLACES[place]} has "
        f"{there[place] / 1e9:.1f}"
    )
    other = "cpu" if place == "cuda" else place
    tries = dict.fromkeys(
        [(precision, place), ("fast", place), (precision, other), ("fast", other)]
    )
    for kind, where in tries:
        most = memory.most_tokens(kind, there[where]) // PASSES_AT_ONCE[where]
        most = min(most, batch_tokens)
        if most * PASSES_AT_ONCE[where] >= FEWEST:
            wanted = {
                "precision": (kind, precision),
                "device": (where, place),
                "batch_tokens": (most, batch_tokens),
            }
            said = [f"{key}: {new}" for key, (new, old) in wanted.items() if new != old]
            return f"{line}; {', '.join(said)} would fit"
    least = min(memory.size(kind, FEWEST) for kind, _ in tries)
    return f"{line}; it takes a machine with {least / 1e9:.0f} GB at least, in fast"


def check_fits(folder: Path, device: str, is_kept: bool) -> None:
    """Refuse large weights that the device has no room for, before they are read.

    Raises
    ------
    ModelError
        With what would fit.
    """
    if bytes_of(folder) < LARGE / 2:
        return
    capacity = there()
    said = problem(memory_in(folder), "fast" if is_kept else "exact", device, 0, capacity)
    if said is not None:
        raise ModelError(f"{folder}: {said}")
