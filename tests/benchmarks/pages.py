"""Tables of the pages in docs/: a benchmark keeps its record and writes them from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from posenc.report import comparison, findings
from tests.copies import ROOT


def place(name: str) -> Path:
    """The file of a table, which templates of pages name as ``{{table:NAME}}``."""
    return ROOT / findings.TABLES / f"{name}.md"


def show(**tables: str) -> None:
    """Write tables in Markdown, each by its name, and the pages that show them."""
    for name, text in tables.items():
        place(name).write_text(text, encoding="utf-8")
    findings.fill_pages(comparison.all_recorded(ROOT / comparison.RECORDS), ROOT)


def keep(record: dict[str, Any], path: Path, **tables: str) -> None:
    """Write a record, its tables and their pages."""
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    show(**tables)
