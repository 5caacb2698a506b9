"""What a study asks for, apart from what the text of the paper would speak of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun
from posenc.report.records import Place

SPOKEN = ("adaptation", "categories")
"""Parts of the evaluation that the paper looks for in every study."""


def has_documents(study: Mapping[str, Any]) -> bool:
    """Whether the study has a paper or slides, which then say what it lacks."""
    return bool(study["documents"])


def is_asked(study: Mapping[str, Any], place: Place, entry: Entry) -> bool:
    """Whether a study itself asks for a number, or for the reason why there is none.

    A number that stands in a file was measured. A reason counts where a measurement gives it, not
    where the study lacks what the paper would speak of.

    Parameters
    ----------
    study
        What ``study.json`` holds.
    place, entry
        What the number is of, and the number.
    """
    if has_documents(study):
        return True
    if not isinstance(entry, NotRun):
        return bool(place.files)
    is_spoken = place.measurement in SPOKEN or place.quantity.startswith("masks.")
    return place.quantity == "all" or (bool(place.files) and not is_spoken)
