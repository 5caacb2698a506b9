"""What readers find at the top of the project, and the last line of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from posenc.artifacts.files import UNFINISHED, write_text
from posenc.artifacts.places import STUDIES
from posenc.drawing.exhibit import DOCUMENTS
from posenc.report import latex

LINKS = {
    **{Path(f"paper/{document}.pdf"): f"pdf/{document}.pdf" for document in DOCUMENTS},
    # Numbers of the documents lead to the page beside them.
    Path("paper/index.html"): "index.html",
    Path("report/index.html"): "index.html",
    **{Path(f"report/{document}.pdf"): f"pdf/{document}.pdf" for document in DOCUMENTS},
    Path("data/metrics.json"): "metrics.json",
}
"""Paths that lead to files of the active study, by their names in its folder."""

CHECKOUT = {"Documentation": "site/index.html", "Repository": "README.md"}
"""What the page of a study leads to in the checkout: the project has no public address."""

PAGES = STUDIES / "studies.js"
"""Which studies have a page. A script, because from a disk a browser reads no other file."""


def list_pages() -> None:
    """Write which studies have a page on disk: the switch of every page reads it when it is opened.

    No page holds the list, so that no page is made again because of another study.
    """
    names = sorted(path.parent.name for path in STUDIES.glob("*/index.html"))
    text = f"globalThis.posencStudies = {json.dumps(names)};\n"
    held = PAGES.read_text(encoding="utf-8") if PAGES.exists() else None
    if held != text and (names or held):
        write_text(PAGES, text)


def link(study: str, is_active: bool = True) -> None:
    """Have the paths at the top lead to the active study's files.

    They are relative symbolic links, so that they say which study they are of, and are never stale
    or half written. There is none to a file that the study does not have.

    Parameters
    ----------
    study
        Its name.
    is_active
        Whether it is the study of params.yaml; that of a single call has links in its folder alone.
    """
    folder = STUDIES / study
    # In the study's folder too: a document's numbers lead to the page beside it.
    own = {folder / Path(name).name: name for name in LINKS.values() if "/" in name}
    for path, name in {**(LINKS if is_active else {}), **own}.items():
        target = folder / name
        if not target.exists():
            if path.is_symlink():
                path.unlink(missing_ok=True)
            continue
        leads_to = os.path.relpath(target, path.parent)
        if path.is_symlink() and os.readlink(path) == leads_to:
            continue
        point(path, leads_to)


def ways_in(documents: Sequence[str]) -> list[dict[str, str]]:
    """What the page leads to: ``title``, ``href`` and, of the checkout's files, their path in it.

    The documents of a study lie beside its page, wherever a link to it is (:data:`LINKS`).

    Parameters
    ----------
    documents
        Those that the study has.
    """
    own = [
        {"title": name.capitalize(), "href": f"{name}.pdf", "path": ""}
        for name in DOCUMENTS
        if name in documents
    ]
    up = "../" * (len(STUDIES.parts) + 1)
    return own + [
        {"title": title, "href": up + path, "path": path} for title, path in CHECKOUT.items()
    ]


def point(path: Path, leads_to: str) -> None:
    """Make a symbolic link, or have one lead elsewhere: at no time is there none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    temporary.symlink_to(leads_to)
    temporary.replace(path)


def elsewhere(target: str, study: str) -> str | None:
    """Why a target is none of the study's: a link, or a file of another study; None where it is.

    Parameters
    ----------
    target
        What Snakemake is asked for, a file or a rule.
    study
        Its name.
    """
    path, folder = Path(target), STUDIES / study
    of_documents = {folder / Path(name).name: name for name in LINKS.values() if "/" in name}
    if (name := {**LINKS, **of_documents}.get(path)) is not None:
        return f"{target} is a link, which no rule makes: ask for {folder / name}"
    if not path.is_relative_to(STUDIES) or path.is_relative_to(folder):
        return None
    name = path.relative_to(STUDIES).parts[0]
    return f"{target} is of another study than {study!r}: add --config study={name}"


def closing_line(study: str, documents: Sequence[str]) -> str:
    """The last line of a run: what there is of its study, and where; what is missing for more.

    Parameters
    ----------
    study
        The name of the run's study, which need not be the active one.
    documents
        Those that it has.
    """
    folder, advice = STUDIES / study, latex.advice() if documents else ""
    files = [] if advice else [f"{document}.pdf" for document in documents]
    outputs = [name for name in ("index.html", *files, "metrics.json") if (folder / name).exists()]
    line = f"Study {study!r}: {', '.join(outputs) or 'no page yet'} in {folder}"
    return f"{line}; {advice}" if advice else line


def closing_lines(study: str, documents: Sequence[str], done: str, log: str) -> list[str]:
    """What a run says last: what it made, and where to look.

    Parameters
    ----------
    study, documents
        As of :func:`closing_line`.
    done
        What was done, with a separator from the rest of its line; may be empty.
    log
        The run's own.
    """
    folder = STUDIES / study
    figures = sorted(path.stem for path in (folder / "figures").glob("*.svg"))
    lines = [
        closing_line(study, documents),
        f"  page: {folder / 'index.html'}, to be opened in a browser",
        f"  figures: {len(figures)} in {folder / 'figures'}, as PDF and SVG",
        f"  numbers: {folder / 'numbers.json'}; `posenc show NUMBER` traces one back",
        f"  {done}logs: logs, a file for each job, and {os.path.relpath(log)}",
    ]
    there = ("", "index.html", "figures" if figures else None, "numbers.json", "")
    return [
        line
        for line, name in zip(lines, there, strict=True)
        if name is not None and (folder / name).exists()
    ]
