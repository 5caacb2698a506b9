"""Numbers in README, in the pages of docs/ and in the paper: filled in from the records of studies.

A page names a number by its key in two comments that a reader does not see:
``<!--=superposition.relu.both-->25.7 [13.8, 37.7]<!--/-->``. It has as many decimals as are
written there, an interval where one is written, and is in percent where there is a ``%``. A number
of another study than the default one has its name before the key: ``<!--=rotary:KEY-->``. In LaTeX
it is ``\\recorded{rotary:KEY}{25.7 [13.8, 37.7]}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.artifacts.files import ArtifactError, write_text

PAGES = ("README*.md", "docs/*.md", "paper/*.tex")
STUDY = "default"
"""The study whose numbers have no study before their key."""
KEY = r"(?:(?P<study>\w+):)?(?P<key>[^\s{}]+?)"
MARKED = re.compile(rf"(?P<before><!--={KEY}-->)(?P<shown>[^<]*)(?P<after><!--/-->)")
RECORDED = re.compile(rf"(?P<before>\\recorded\{{{KEY}\}}\{{)(?P<shown>[^{{}}]*)(?P<after>\}})")
"""The marks of Markdown, and those of LaTeX."""
Records = Mapping[str, Mapping[str, Any]]


def fill(page: str, records: Records) -> str:
    """A page with its marked numbers as they are recorded.

    Parameters
    ----------
    page
        Its Markdown, or LaTeX.
    records
        By study, what its record holds by key: ``value``, with ``low`` and ``high`` of an estimate,
        or ``not_run``.

    Raises
    ------
    ArtifactError
        If a key is of no number, or of one that was not run.
    """

    def written(match: re.Match[str]) -> str:
        study, key = match["study"] or STUDY, match["key"]
        entry = records.get(study, {}).get(key)
        if entry is None:
            raise ArtifactError(f"no number {key!r} was recorded of the study {study!r}")
        if "not_run" in entry:
            raise ArtifactError(f"{key} of {study} was not run: {entry['not_run']}")
        shown = as_in(match["shown"], entry)
        shown = shown.replace("%", r"\%") if match.re is RECORDED else shown
        return f"{match['before']}{shown}{match['after']}"

    return RECORDED.sub(written, MARKED.sub(written, page))


def as_in(shown: str, entry: Mapping[str, Any]) -> str:
    """A number, written as one is shown: its decimals, percent, and its interval or none."""
    decimals = len(shown.split()[0].partition(".")[2])
    factor, unit = (100, " %") if "%" in shown else (1, "")

    def said(value: float) -> str:
        return f"{factor * value:,.{decimals}f}".replace("-", "−")

    interval = f" [{said(entry['low'])}, {said(entry['high'])}]" if "[" in shown else ""
    return said(entry["value"]) + unit + interval


def pages(root: Path) -> list[Path]:
    """The pages of a checkout that may show numbers."""
    return sorted(path for pattern in PAGES for path in root.glob(pattern))


def fill_pages(records: Records, root: Path) -> list[Path]:
    """Fill in all pages of a checkout; return those that changed.

    Raises
    ------
    ArtifactError
        If a page names what was not recorded. Then no page is written.
    """
    filled = {}
    for path in pages(root):
        page = path.read_text(encoding="utf-8")
        try:
            if (now := fill(page, records)) != page:
                filled[path] = now
        except ArtifactError as error:
            raise ArtifactError(f"{path}: {error}") from None
    for path, page in filled.items():
        write_text(path, page)
    return list(filled)
