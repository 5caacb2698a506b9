"""Names that the workflow uses itself: nothing that ``params.yaml`` defines may be called so."""

from __future__ import annotations

from collections.abc import Iterable

from posenc.study.declared import EXPERIMENTS, MEASUREMENTS

CALIBRATION, LONG = "calibration", "long"
TEXTS = (CALIBRATION, LONG)
"""Texts of a study that are not its evaluation's: masks are learned from one."""
NO_MODEL = "study"
"""Stands for the model in paths of trials that have none."""
KEYS = ("masks", "matrix", "positions", "relative", "training")
"""Parts of the keys of numbers, beside the names of measurements."""

_FILE = "names a file of the workflow beside those of {kind}"
_KEY = "is a part of the keys of numbers (generated/numbers.tex)"
_KEYS = dict.fromkeys((*MEASUREMENTS, *EXPERIMENTS, *KEYS), _KEY)
RESERVED = {
    "datasets": {**_KEYS, **dict.fromkeys(TEXTS, _FILE)},
    "models": {**_KEYS, NO_MODEL: _FILE},
    "matrices": _KEYS,
    "conditions": _KEYS,
}
"""By section: names that are taken, and by what."""


def check_names(kind: str, names: Iterable[str]) -> None:
    """Refuse reserved names.

    Parameters
    ----------
    kind
        A section of ``params.yaml``.
    names
        Its keys.

    Raises
    ------
    ValueError
        If one of them is reserved there.
    """
    for name in names:
        reason = RESERVED.get(kind, {}).get(name)
        if reason:
            raise ValueError(f"{kind}.{name}: {name!r} {reason.format(kind=kind)}: choose another")
