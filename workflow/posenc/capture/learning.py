"""Learning masks from calibration text with the model frozen (row A5).

Four ways: one slope chosen from a list; a closed form from mean queries and keys; the difference
that position makes to the scores of the intact model, averaged over text; a few parameters per
head, fitted by gradient. A decoder is judged by its loss on text, an encoder by the cosine of its
last hidden states with the intact ones. The last part of the calibration documents chooses and is
not fitted on; evaluation text is never seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import numpy as np

from posenc.capture.calibration import (
    REACH,
    Calibration,
    Facts,
    OfMethod,
    Progress,
    masked,
    position_of,
    shape_of,
    start_of,
    with_mask,
)
from posenc.capture.closed_form import closed_form, drawn, mean_vectors
from posenc.capture.distilling import distill
from posenc.capture.evaluation import INTACT
from posenc.capture.mask_fitting import fit
from posenc.capture.parts import architecture
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import DistilledMask, FittedMask, LearnedMaskSource, SlopeMask


def relative_slope(slope: float, shape: tuple[int, int, int], offsets: int) -> np.ndarray:
    """An ALiBi bias as [n_layers, n_heads, sides, offsets]."""
    line = -slope * np.arange(offsets, dtype=np.float32)  # [offsets]
    return np.broadcast_to(line, (*shape, offsets)).copy()


def choose_slope(
    source: SlopeMask, data: Calibration, progress: Progress = lambda done: None
) -> tuple[LearnedMask, OfMethod]:
    """The slope of the list that is best on the choosing documents.

    ``progress`` is called with the number of tokens seen, once for each slope.
    """
    conditions = {
        str(slope): masked(source.position, {"kind": "alibi", "slope": slope})
        for slope in source.slopes
    }
    losses = list(data.losses(conditions, progress=SimpleNamespace(update=progress)).values())
    best = int(np.argmin(losses))
    mask = LearnedMask(
        relative=relative_slope(source.slopes[best], shape_of(data.model), REACH * data.longest)
    )
    return mask, {
        "slope": source.slopes[best],
        "curve": [
            {"slope": slope, "loss": loss}
            for slope, loss in zip(source.slopes, losses, strict=True)
        ],
    }


def learn(
    source: LearnedMaskSource,
    data: Calibration,
    progress: Progress = lambda done: None,
    others: Mapping[str, LearnedMask] | None = None,
) -> tuple[LearnedMask, Facts]:
    """Learn a mask as its section says, and judge it on the choosing documents.

    Parameters
    ----------
    others
        Masks that are there, of which ``begin`` names one.

    Returns
    -------
    mask
        To be used by :func:`posenc.capture.interventions.applied`.
    facts
        Its losses, and what its method says of it.
    """
    if isinstance(source, FittedMask):
        base = None if source.begin is None else (others or {})[source.begin]
        mask, facts = fit(source, data, progress, base)
    else:
        methods: dict[str, Callable[..., tuple[LearnedMask, OfMethod]]] = {
            "slope": choose_slope,
            "closed_form": closed_form,
            "means": mean_vectors,
            "distilled": distill,
        }
        mask, facts = methods[source.method](source, data, progress)
    judged = with_mask(position_of(source), mask.is_biased)
    losses = data.losses(
        {"intact": INTACT, "start": start_of(source.position), "loss": judged}, mask
    )
    return mask, {
        "unit": "nats per token" if data.is_decoder else "1 - cosine of the last hidden state",
        "intact": losses["intact"],
        "start": losses["start"],
        "loss": losses["loss"],
        **facts,
    }


def work(source: LearnedMaskSource, data: Calibration) -> int:
    """How far a mask's progress goes."""
    if source.method == "slope":
        return len(source.slopes) * sum(map(len, data.choosing))
    if source.method == "fitted":
        return source.steps
    passes = 2 if getattr(source, "temperature", False) else 1
    if source.method in ("closed_form", "means"):
        return passes * sum(map(len, drawn(source, data)))
    tokens = sum(map(len, data.fitting))
    is_sequential = isinstance(source, DistilledMask) and source.sequential
    return tokens * (architecture(data.model).n_layers if is_sequential else passes)
