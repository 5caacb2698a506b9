"""Numbers in README, in the pages of docs/ and in the paper: filled in from the records of studies.

A page with numbers is written from its template in ``docs/templates``, which names a number by its
key and its form: ``{{superposition.relu.both 0.0 []}}`` has one decimal and its interval,
``{{rotary:KEY 0 %}}`` is in percent (other units are ``million`` and ``万``), and of another study
than the default one, ``{{KEY p}}`` is a p-value. ``{{table:masks}}`` is a table that a benchmark
wrote. In LaTeX a number is beside its key, ``\\recorded{rotary:KEY}{25.7 [13.8, 37.7]}``, and has
the form that is written there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from posenc.artifacts.files import ArtifactError, write_text
from posenc.report.records import Recorded

TEMPLATES = "docs/templates"
TABLES = f"{TEMPLATES}/tables"
"""Tables that benchmarks write, each as ``NAME.md``."""
STUDY = "default"
"""The study whose numbers have no study before their key."""
KEY = r"(?:(?P<study>\w+):)?(?P<key>[^\s{}]+?)"
MARKED = re.compile(rf"\{{\{{{KEY} (?P<form>[^{{}}]+)\}}\}}")
TABLE = re.compile(r"\{\{table:(?P<name>\w+)\}\}\n")
RECORDED = re.compile(rf"(?P<before>\\recorded\{{{KEY}\}}\{{)(?P<form>[^{{}}]*)\}}")
"""The marks of templates, and those of LaTeX."""
NOTE = "\n<!-- Written from {template} by `posenc pages`: edit that file. -->\n"
"""The last line of a page that has a template."""
UNITS = {"%": 100.0, "million": 1e-6, "万": 1e-4}
"""Of forms, and what a number is multiplied by to be in them."""
LEAST_P = 1e-3
"""Below it a p-value is a bound: permutations are a few thousand."""
Records = Mapping[str, Mapping[str, Recorded]]


def fill(text: str, records: Records) -> str:
    """A template, or LaTeX, with its numbers as they are recorded.

    Parameters
    ----------
    text
        With marks.
    records
        By study, what its record holds by key.

    Raises
    ------
    ArtifactError
        If a key is of no number, or of one that was not run.
    """

    def number(match: re.Match[str]) -> str:
        study, key = match["study"] or STUDY, match["key"]
        entry = records.get(study, {}).get(key)
        if entry is None:
            raise ArtifactError(f"no number {key!r} was recorded of the study {study!r}")
        if "not_run" in entry:
            raise ArtifactError(f"{key} of {study} was not run: {entry['not_run']}")
        return as_in(match["form"], entry)

    def in_latex(match: re.Match[str]) -> str:
        return f"{match['before']}{number(match)}}}".replace("%", r"\%")

    return RECORDED.sub(in_latex, MARKED.sub(number, text))


def as_in(form: str, entry: Recorded) -> str:
    """A number with the decimals of a form, and the unit and the interval that it names."""
    if form == "p":
        value = entry["value"]
        return "p < 0.001" if value < LEAST_P else f"p = {value:.2g}"
    decimals = len(form.split()[0].partition(".")[2])
    factor, unit = next(
        ((factor, f" {unit}") for unit, factor in UNITS.items() if unit in form), (1.0, "")
    )

    def said(value: float) -> str:
        rounded = round(factor * value, decimals) or 0.0  # no minus before nothing
        return f"{rounded:,.{decimals}f}".replace("-", "−")

    interval = f" [{said(entry['low'])}, {said(entry['high'])}]" if "[" in form else ""
    return said(entry["value"]) + unit + interval


def sources(root: Path) -> dict[Path, Path]:
    """By page, what it is written from: its template, or the document itself."""
    by_page = {path: path for path in root.glob("paper/*.tex")}
    for template in root.glob(f"{TEMPLATES}/*.md"):
        folder = root if template.name.startswith("README") else root / "docs"
        by_page[folder / template.name] = template
    return dict(sorted(by_page.items()))


def written(source: Path, records: Records) -> str:
    """A page as its source, the tables beside it and the records have it.

    Raises
    ------
    ArtifactError
        If the source names a table or a number that there is not.
    """
    is_template = source.suffix == ".md"
    text = source.read_text(encoding="utf-8")
    try:
        if is_template:
            text = TABLE.sub(lambda match: table(match["name"], source.parent), text)
        text = fill(text, records)
    except ArtifactError as error:
        raise ArtifactError(f"{source}: {error}") from None
    return text + NOTE.format(template=f"{TEMPLATES}/{source.name}") if is_template else text


def table(name: str, templates: Path) -> str:
    """A table of the folder beside the templates."""
    path = templates / Path(TABLES).name / f"{name}.md"
    if not path.is_file():
        raise ArtifactError(f"{path}: no benchmark wrote this table")
    return path.read_text(encoding="utf-8")


def fill_pages(records: Records, root: Path) -> list[Path]:
    """Write all pages of a checkout with their numbers; return those that changed.

    Raises
    ------
    ArtifactError
        If a page names what was not recorded. Then no page is written.
    """
    new = {page: written(source, records) for page, source in sources(root).items()}
    changed = [
        page
        for page, text in new.items()
        if not page.is_file() or page.read_text(encoding="utf-8") != text
    ]
    for page in changed:
        write_text(page, new[page])
    return changed
