"""What a study found, for the top of its page: shares with their controls, or single numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict

from posenc.artifacts.numbers import Entry, Number
from posenc.conditions.positions import TABLE
from posenc.config.labels import display
from posenc.report import quantities as keys
from posenc.report.headlines import FINDINGS, HEADLINES, WITHOUT, Finding, Headline
from posenc.report.page_numbers import inline, shown
from posenc.report.records import Place

Rows = Mapping[Place, Entry]
MARGIN = 0.08
"""Of a drawing, on both sides, as a share of what lies between."""


class ShownHeadline(TypedDict):
    """A headline of the page, with its number as it is shown."""

    title: str
    number: dict[str, str]
    text: str


class Dot(TypedDict):
    """A share as a dot with its interval, at places in percent of the width."""

    name: str
    dot: float
    left: float
    width: float


class Drawing(TypedDict):
    """Shares above each other; ``zero`` and ``one`` are the places of 0 and 1."""

    zero: float
    one: float
    rows: list[Dot]


class ShownFinding(TypedDict):
    """A finding of the page.

    Attributes
    ----------
    title
        What is looked at.
    number
        The share in percent, as it is shown.
    said, of
        A sentence, and what stands in its places.
    drawing
        The share and its control.
    figure, figure_number
        The one that shows it, and its number where the page has it.
    """

    title: str
    number: dict[str, str]
    said: str
    of: list[str]
    drawing: Drawing
    figure: str
    figure_number: int | None


def roles_of(study: Mapping[str, Any]) -> dict[str, str | None]:
    """Models and data sets by role; the first data set stands in for reviews that a study lacks."""
    roles = {**keys.model_roles(study), **keys.dataset_roles(study)}
    roles["table_decoder"] = next(iter(keys.decoders(study)), None)
    roles["reviews"] = roles["reviews"] or next(iter(study["datasets"]), None)
    return roles


class Measured:
    """The numbers of a study by roles."""

    def __init__(self, study: Mapping[str, Any], rows: Rows) -> None:
        self.study, self.roles = study, roles_of(study)
        self._numbers = {
            (p.model, p.dataset, p.condition, p.measurement, p.quantity): entry
            for p, entry in rows.items()
            if isinstance(entry, Number)
        }

    def find(self, place: Place) -> Number | None:
        """The number of a place with roles; None where it was not measured."""
        model, dataset = (self.roles.get(r) if r else "" for r in (place.model, place.dataset))
        if model is None or dataset is None:
            return None
        of = (model, dataset, place.condition, place.measurement, place.quantity)
        return self._numbers.get(of)

    def name(self, role: str) -> str:
        """What readers call what has a role."""
        return display(self.roles[role] or f"no {role}")


def headline_of(headline: Headline, measured: Measured) -> ShownHeadline | None:
    """A number that opens the page; None where it was not measured."""
    number = measured.find(headline.place)
    if number is None:
        return None

    def said(match: re.Match[str]) -> str:
        other = measured.find(Place(*match[1].split(".", 4)))
        return inline(other) if other else "none"

    def named(match: re.Match[str]) -> str:
        if match[1] == "without":
            model = measured.roles[headline.place.model]
            return WITHOUT[measured.study["models"][model]["positions"] if model else TABLE]
        return measured.name(match[1])

    return {
        "title": headline.title,
        "number": shown(number),
        "text": re.sub(r"\{(\w+)\}", named, re.sub(r"\{\[(.+?)\]\}", said, headline.text)),
    }


def headlines(study: Mapping[str, Any], rows: Rows) -> list[ShownHeadline]:
    """The numbers that open the page of a study without findings: those that it has."""
    measured = Measured(study, rows)
    shown_headlines = (headline_of(headline, measured) for headline in HEADLINES)
    return [headline for headline in shown_headlines if headline]


def in_percent(share: Number) -> dict[str, str]:
    """A share as it is shown, in percent, and its interval."""
    low, high = (None if end is None else 100 * end for end in (share.low, share.high))
    percent = shown(Number(100 * share.value, low, high))
    return {**percent, "value": f"{percent['value']}\N{NO-BREAK SPACE}%"}


def told(share: Mapping[str, str]) -> str:
    """The same in a line."""
    return share["value"] + (f" [{share['low']}, {share['high']}]" if share["low"] else "")


def ends(number: Number) -> tuple[float, float]:
    """Of its interval; the number itself where it has none."""
    low, high = number.low, number.high
    return (number.value, number.value) if low is None or high is None else (low, high)


def sentence(finding: Finding, share: Number, control: Number) -> str:
    """What the intervals of the two allow to say.

    As in the paper, one number is below another only where their intervals do not overlap.
    """
    less, more, alike = finding.sentences
    if ends(control)[1] < ends(share)[0]:
        return less
    return more if ends(control)[0] > ends(share)[1] else alike


def drawn(finding: Finding, numbers: tuple[Number, Number]) -> Drawing:
    """A share and its control as dots with intervals: places in percent of the width."""
    every = [0.0, 1.0, *(end for number in numbers for end in ends(number))]
    wide = max(every) - min(every)

    def at(value: float) -> float:
        share = (value - min(every)) / wide
        return round(100 * (MARGIN + (1 - 2 * MARGIN) * share), 2)

    lines = [(at(ends(number)[0]), at(ends(number)[1])) for number in numbers]
    return {
        "zero": at(0),
        "one": at(1),
        "rows": [
            {"name": name, "dot": at(number.value), "left": low, "width": round(high - low, 2)}
            for name, number, (low, high) in zip(finding.names, numbers, lines, strict=True)
        ],
    }


def finding_of(
    finding: Finding, measured: Measured, figures: Mapping[str, int]
) -> ShownFinding | None:
    """A finding with its control; None where the study has not measured both."""
    share, control = measured.find(finding.place), measured.find(finding.control)
    if share is None or control is None:
        return None
    number, other = in_percent(share), in_percent(control)
    names = (measured.name(role) for role in (finding.place.model, finding.place.dataset))
    return {
        "title": finding.title,
        "number": number,
        "said": sentence(finding, share, control),
        "of": [told(number), told(other), *names],
        "drawing": drawn(finding, (share, control)),
        "figure": finding.figure,
        "figure_number": figures.get(finding.figure),
    }


def findings(
    study: Mapping[str, Any], rows: Rows, figures: Mapping[str, int]
) -> list[ShownFinding]:
    """The findings that a study measures, in order.

    Parameters
    ----------
    study
        What ``study.json`` holds.
    rows
        The numbers of its page.
    figures
        The number of each figure of the page, by name.
    """
    measured = Measured(study, rows)
    shown_findings = (finding_of(finding, measured, figures) for finding in FINDINGS)
    return [finding for finding in shown_findings if finding]
