"""Numbers in the pages of docs/: filled in from the record of the default study.

A page names a number by its key in two comments that a reader does not see:
``<!--=superposition.relu.both-->25.7 [13.8, 37.7]<!--/-->``. It has as many decimals as are
written there, and an interval where one is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.artifacts.files import ArtifactError, write_text

PAGES = Path("docs")
STUDY = "default"
"""The study whose numbers the pages show by key."""
MARKED = re.compile(r"<!--=(?P<key>\S+?)-->(?P<shown>[^<]*)<!--/-->")


def fill(page: str, numbers: Mapping[str, Any]) -> str:
    """A page with its marked numbers as they are recorded.

    Parameters
    ----------
    page
        Its Markdown.
    numbers
        What a record holds by key: ``value``, with ``low`` and ``high`` of an estimate, or
        ``not_run``.

    Raises
    ------
    ArtifactError
        If a key is of no number, or of one that was not run.
    """

    def written(match: re.Match[str]) -> str:
        key, shown = match["key"], match["shown"]
        if key not in numbers:
            raise ArtifactError(f"no number {key!r} was recorded")
        if "not_run" in numbers[key]:
            raise ArtifactError(f"{key} was not run: {numbers[key]['not_run']}")
        return f"<!--={key}-->{as_in(shown, numbers[key])}<!--/-->"

    return MARKED.sub(written, page)


def as_in(shown: str, entry: Mapping[str, Any]) -> str:
    """A number, written as one is shown: its decimals, and its interval or none."""
    decimals = len(shown.partition(" ")[0].partition(".")[2])

    def said(value: float) -> str:
        return f"{value:,.{decimals}f}".replace("-", "−")

    interval = f" [{said(entry['low'])}, {said(entry['high'])}]" if "[" in shown else ""
    return said(entry["value"]) + interval


def fill_pages(numbers: Mapping[str, Any], folder: Path = PAGES) -> list[Path]:
    """Fill in all pages of a folder; return those that changed.

    Raises
    ------
    ArtifactError
        If a page names what was not recorded. Then no page is written.
    """
    filled = {}
    for path in sorted(folder.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        try:
            if (now := fill(page, numbers)) != page:
                filled[path] = now
        except ArtifactError as error:
            raise ArtifactError(f"{path}: {error}") from None
    for path, page in filled.items():
        write_text(path, page)
    return list(filled)
