"""Results of experiments as types: a mean over seeds, and what all experiments say."""

from __future__ import annotations

from posenc.artifacts.results import Interval, Result


class OverSeeds(Interval):
    """A mean over seeds with Student's interval, in the unit of the field that holds it."""

    sd: float
    """Standard deviation over seeds, with n - 1."""
    values: list[float]
    """[seeds]"""


class OfSeeds(Result):
    """A result whose intervals are over seeds; the command line gives these fields."""

    name: str = ""
    """Of the experiment's section in params.yaml."""
    seeds: list[int] = []
    confidence: float | None = None
