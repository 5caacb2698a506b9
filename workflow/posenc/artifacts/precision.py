"""Types of fewer bits than float32, what was computed in them, and how far it is from float32."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLE_TOKENS = 512
"""Tokens on which a fast run is compared with float32."""
NARROW = {"BF16": "bfloat16", "F16": "float16"}
"""Types whose numbers are float32 numbers of fewer bits, by their names in safetensors files."""


class LossError(TypedDict, total=False):
    """How far losses are from those in float32, in nats; empty where no token is scored."""

    nll_difference: float
    """The mean over tokens."""
    nll_sd: float
    """The standard deviation over tokens."""


class StatesError(LossError):
    """How far a fast run is from float32."""

    tokens: int
    """That were compared."""
    relative_error: list[float]
    """[n_layers + 1]: norm of the difference over that of the reference, all tokens together."""
    one_minus_cosine: list[float]
    """[n_layers + 1]: mean over tokens."""


class Precision(LossError):
    """What a run was computed in, and how far it is from float32 where that is not ``exact``."""

    mode: str
    """``exact`` or ``fast``."""
    tokens: NotRequired[int]
    relative_error: NotRequired[list[float]]
    one_minus_cosine: NotRequired[list[float]]
    cosine_difference: NotRequired[list[float]]
    """[n_layers + 1]: difference of the mean cosine with the intact states, without its sign."""


PrecisionFields: TypeAlias = dict[str, str | int | float | list[float]]
"""A :class:`Precision` as results hold it, with the keys that it has."""


def is_narrow(kind: object) -> bool:
    """Whether a type is one of :data:`NARROW`; torch's, or its name."""
    return str(kind).removeprefix("torch.") in NARROW.values()


def loss_error(nll: NDArray[np.float32], reference: NDArray[np.float32]) -> LossError:
    """How far losses are from those in float32.

    Parameters
    ----------
    nll, reference
        float32 [scored tokens], nats.
    """
    if not len(nll):
        return {}
    difference = nll.astype(float) - reference  # [scored tokens]
    return {"nll_difference": float(difference.mean()), "nll_sd": float(difference.std())}


def precisions(measurement: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The precision of a measurement, and of each of its conditions."""
    for result in (measurement, *measurement.get("conditions", ())):
        if "precision" in result:
            yield result["precision"]


def note(each: Iterable[Mapping[str, Any]]) -> str | None:
    """The largest errors of fast results against float32.

    Parameters
    ----------
    each
        ``mode`` is ``exact`` or ``fast``; a fast one has ``tokens``, and of ``nll_difference``
        (nats per token), ``nll_sd``, ``cosine_difference`` (by hidden state) and ``relative_error``
        (by hidden state) those that were measured.

    Returns
    -------
    One line; None where nothing was fast.
    """
    fast = [precision for precision in each if precision["mode"] == "fast"]
    if not fast:
        return None

    def largest(key: str) -> float | None:
        values = [precision[key] for precision in fast if key in precision]
        flat = [x for value in values for x in (value if isinstance(value, list) else [value])]
        return max(map(abs, flat), default=None)

    said = {
        "{:.1g} nats per token": largest("nll_difference"),
        "{:.1g} in a mean cosine": largest("cosine_difference"),
        "{:.1g} of the norm of a hidden state": largest("relative_error"),
    }
    errors = [text.format(value) for text, value in said.items() if value is not None]
    if not errors:
        return "computed in bfloat16, not compared with float32"
    tokens = min(precision["tokens"] for precision in fast)
    return (
        f"computed in bfloat16; off float32 by at most {', '.join(errors)} "
        f"({tokens} tokens of each run compared)"
    )
