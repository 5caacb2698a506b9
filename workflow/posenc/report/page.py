"""The report page: what was found, every figure with its numbers, in one HTML file."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TypedDict

from jinja2 import Environment, PackageLoader, StrictUndefined

from posenc.artifacts.numbers import Entry, NotRun, Number
from posenc.artifacts.places import STUDIES
from posenc.artifacts.precision import note, precisions
from posenc.config.labels import display, labelled
from posenc.figures.catalogue import FIGURES, heading_of, numbered
from posenc.report import quantities as keys
from posenc.report.asked import has_documents
from posenc.report.collection import collect
from posenc.report.links import ways_in
from posenc.report.page_findings import findings, headlines
from posenc.report.page_heads import heads
from posenc.report.page_materials import ShownCoverage, coverages, cut_behind, materials, synthetic
from posenc.report.page_numbers import shown, typographic
from posenc.report.page_pictures import Pictures
from posenc.report.page_tables import Row, embedded_json, packed, table
from posenc.report.quantities import weights_of
from posenc.report.records import Numbers, Place, Results
from posenc.report.versions import described as described_versions
from posenc.report.versions import versions_of
from posenc.report.words import anchor, spoken_parts

MOST_BYTES = 4_000_000
"""A larger page is still written, but the step says so."""
identity = itemgetter("model", "data_set", "condition", "measurement", "quantity")
"""Which number a row is of: a number in two tables counts once."""
JAPANESE = "page.ja.json"
"""The fixed texts of the page, and what they are in Japanese.

It is told by the English text, so that who changes that is asked for the other, and stands apart
from it, so that a word in Japanese draws no figure again.
"""

QUANTITIES_IN_JAPANESE = "quantities.ja.json"
"""The words of quantities, and what they are in Japanese: the same, of what is measured."""


@dataclass(frozen=True)
class Figure:
    """A figure of the page: its SVG, and what it is made of."""

    name: str
    svg: str
    inputs: tuple[str, ...]


class Absence(TypedDict):
    """What was not run and why; ``count`` is None where it is no set of numbers."""

    what: str
    reason: str
    count: int | None


class Theirs(TypedDict):
    """A published value, what it is of, and the name of its source."""

    quantity: str
    condition: str
    model: str
    value: str
    source: str


class Comparison(Theirs):
    """A published value beside ours.

    Attributes
    ----------
    names, number
        What ours is of, and the number as it is shown; none where it was not measured.
    remark
        Whether both are of the same weights, or why ours is not there.
    """

    names: str
    number: dict[str, str] | None
    remark: str


class Published(TypedDict):
    """Published values beside ours, and the titles of their sources by name."""

    rows: list[Comparison]
    sources: list[tuple[str, str]]


class Exhibit(TypedDict):
    """A figure with its numbers.

    Attributes
    ----------
    name, number, id
        In the catalogue, on the page and in its address.
    caption
        Plain text.
    picture
        From :meth:`posenc.report.page_pictures.Pictures.picture`.
    rows
        The numbers behind it.
    cut
        What is cut of the documents behind these.
    inputs
        Files that it is made of.
    command
        What draws it.
    """

    name: str
    number: int
    caption: str
    picture: Mapping[str, object]
    rows: list[Row]
    id: str
    cut: list[ShownCoverage]
    inputs: list[str]
    command: str


class Category(TypedDict):
    """A section of the page."""

    title: str
    id: str
    figures: list[Exhibit]


def environment() -> Environment:
    """Jinja for HTML: what is inserted is escaped, and an undefined name is an error."""
    return Environment(
        loader=PackageLoader("posenc.report"), undefined=StrictUndefined, autoescape=True,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip


def rows_behind(figure: Figure, rows: Mapping[Place, Entry]) -> dict[Place, Entry]:
    """The numbers of the measurements that a figure is made of, and that it is about."""
    inputs, patterns = set(figure.inputs), FIGURES[figure.name].quantities
    return {
        place: entry
        for place, entry in rows.items()
        if inputs.intersection(place.files)
        and any(fnmatch.fnmatchcase(f"{place.measurement}.{place.quantity}", p) for p in patterns)
    }


def not_run(rows: Mapping[Place, Entry], results: Results) -> list[Absence]:
    """What was not run and why: a row for each measurement and reason."""
    counts: dict[tuple[str, str], int] = {}
    for place, entry in rows.items():
        if isinstance(entry, NotRun):
            row = (display(place.measurement), entry.reason)
            counts[row] = counts.get(row, 0) + 1
    # One line for all conditions that are not for a model.
    merged: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for (what, reason), count in counts.items():
        not_for = re.fullmatch(r"(\w+) is not for (\w+)", reason)
        line = (what, f"not for {display(not_for[2])}") if not_for else (what, reason)
        merged.setdefault(line, []).append((display(not_for[1]) if not_for else "", count))
    counted: list[Absence] = [
        {
            "what": what,
            "reason": ": ".join(filter(None, [reason, ", ".join(n for n, _ in each if n)])),
            "count": sum(count for _, count in each),
        }
        for (what, reason), each in merged.items()
    ]
    lacking: list[Absence] = [
        {"what": "the text of the documents", "reason": reason, "count": None}
        for reason in keys.missing_roles(results.study)
    ]
    return counted + (lacking if has_documents(results.study) else [])


def published(results: Results, numbers: Numbers, rows: Mapping[Place, Entry]) -> Published:
    """Published values beside ours, and whether ours are of the same weights."""
    compared: list[Comparison] = []
    for value in results.published["values"].values():
        theirs: Theirs = {
            "quantity": value["quantity"],
            "condition": value["condition"].replace("--", "–"),
            "model": value["model"],
            "value": typographic(value["value"]),
            "source": value["source"],
        }
        if not value["ours"]:
            compared.append({**theirs, "names": "", "number": None, "remark": "no such condition"})
        for key in value["ours"]:
            place = numbers.places.get(key, Place())
            entry = rows.get(place, NotRun("not in this study"))
            if isinstance(entry, NotRun):
                compared.append({**theirs, "names": "", "number": None, "remark": entry.reason})
                continue
            of = (place.model, place.dataset, place.condition)
            names = ", ".join(display(name) for name in of if name)
            same = weights_of(results.study, place.model) in value["weights"]
            remark = "same model" if same else "another model"
            compared.append({**theirs, "names": names, "number": shown(entry), "remark": remark})
    if not has_documents(results.study):
        compared = [row for row in compared if row["remark"] == "same model"]
    named = {row["source"] for row in compared}
    sources = results.published["sources"].items()
    titles = [(name, source["title"]) for name, source in sources if name in named]
    return {"rows": compared, "sources": titles}


def sections(
    results: Results,
    figures: Sequence[Figure],
    rows: Mapping[Place, Entry],
    root: str,
    folder: Path,
    pictures: Pictures,
    coverage: Mapping[tuple[str, str], ShownCoverage],
    encoders: Collection[str] = (),
) -> tuple[list[Category], list[Row]]:
    """Figures by category, with their pictures and tables; and the numbers in none of these."""
    drawn = {figure.name: figure for figure in figures}
    categories: dict[str, list[Figure]] = {}
    numbers = numbered(drawn)
    for name in numbers:
        categories.setdefault(heading_of(name), []).append(drawn[name])
    left = dict(rows)
    titled: list[Category] = []
    for category, members in categories.items():
        here: list[Exhibit] = []
        for figure in members:
            entry, behind = FIGURES[figure.name], rows_behind(figure, rows)
            for place in behind:
                left.pop(place, None)
            here.append(
                {
                    "name": figure.name,
                    "number": numbers[figure.name],
                    "caption": plain(entry.caption),
                    "picture": pictures.picture(figure.svg, entry.alt),
                    "rows": table(behind, root, encoders),
                    "id": f"figure-{anchor(figure.name)}",
                    "cut": cut_behind(results, figure.name, coverage),
                    "inputs": [os.path.relpath(path, root) for path in figure.inputs],
                    "command": f"snakemake --cores 2 -- {folder}/figures/{figure.name}.svg",
                }
            )
        titled.append({"title": category, "id": f"section-{anchor(category)}", "figures": here})
    return titled, table(left, root, encoders)


def short(forms: Mapping[str, str]) -> dict[str, str]:
    """Without the forms of captions and of what pictures look like: these stand beside them."""
    long = {text for entry in FIGURES.values() for text in (plain(entry.caption), entry.alt)}
    return {text: form for text, form in forms.items() if text not in long}


def plain(caption: str) -> str:
    """A caption without its marks of emphasis."""
    return caption.replace("*", "")


def page(
    results: Results,
    rows: Mapping[Place, Entry],
    figures: Sequence[Figure],
    root: str,
) -> str:
    """The text of a study's index.html.

    Parameters
    ----------
    results
        All that is shown.
    rows
        Its numbers, from :func:`posenc.report.page_rows.rows_of`.
    figures
        In any order: the page has that of the catalogue.
    root
        Folder that the files of measurements are named from.

    Returns
    -------
    str
        One HTML file without any other: the same bytes for the same input.
    """
    with labelled(results.study["labels"]):
        return _page(results, rows, figures, root)


def _page(
    results: Results,
    rows: Mapping[Place, Entry],
    figures: Sequence[Figure],
    root: str,
) -> str:
    numbers = collect(results)
    folder = STUDIES / results.study["study"]["name"]
    env = environment()
    parts = (
        "page.css", "page.js", "search.js", "heads.js", "values.js", JAPANESE,
        QUANTITIES_IN_JAPANESE,
    )  # fmt: skip
    assert env.loader is not None
    style, script, search_script, heads_script, values_script, words, of_quantities = (
        env.loader.get_source(env, name)[0] for name in parts
    )
    forms = json.loads(words)
    pictures = Pictures(forms)
    coverage = coverages(results)
    shown_sections, further = sections(
        results, figures, rows, root, folder, pictures, coverage, keys.encoders(results.study)
    )
    shares = sorted({m["confidence"] for m in results.measurements if "confidence" in m})
    precision = note(p for m in results.measurements for p in precisions(m))
    measured = [entry for entry in rows.values() if isinstance(entry, Number)]
    exhibits = [figure for part in shown_sections for figure in part["figures"]]
    tables = {figure["name"]: figure["rows"] for figure in exhibits} | {"further": further}
    listed = {identity(row) for members in tables.values() for row in members}

    number_of = {figure["name"]: figure["number"] for figure in exhibits}
    shown_findings = findings(results.study, rows, number_of)

    def names(kind: str) -> list[str]:
        return [n for n in dict.fromkeys(getattr(place, kind) for place in rows) if n]

    shown_names = {n for place in rows for n in (place.model, place.dataset, place.condition)}
    labels = {
        name: label
        for name, label in results.study["labels"].items()
        if name in shown_names and label != name
    }
    return env.get_template("page.html.jinja").render(
        style=style,
        looks=pictures.css(),
        script=script,
        search_script=search_script,
        forms=forms,
        japanese=embedded_json(short(forms)),
        quantities=embedded_json(
            spoken_parts(
                {row["label"] for members in tables.values() for row in members},
                {**forms, **json.loads(of_quantities)},
            )
        ),
        numbers_data=embedded_json(packed(tables)),
        labels=labels,
        display=display,
        heads=heads(results),
        heads_script=heads_script,
        values_script=values_script,
        study=results.study["study"],
        about={name: said for name, said in results.study["about"].items() if name in shown_names},
        materials=materials(results),
        coverage=list(coverage.values()),
        digest=results.study["parameters"],
        made_with=described_versions(versions_of(results.measurements)),
        root=root,
        folder=folder,
        confidence=" and ".join(f"{100 * share:.4g} %" for share in shares),
        precision=precision,
        synthetic=synthetic(results.study),
        ways=ways_in(results.study["documents"]),
        findings=shown_findings,
        headlines=[] if shown_findings else headlines(results.study, rows),
        sections=shown_sections,
        further=further,
        not_run=not_run(rows, results),
        published=published(results, numbers, rows),
        filters={
            "Models": names("model"),
            "Data sets": names("dataset"),
            "Conditions": names("condition"),
        },
        counts={
            "numbers": len(measured),
            "files": len({path for place in rows for path in place.files}),
            "rows": len(listed),
        },
    )
