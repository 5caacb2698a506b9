"""What tests of pages share: text and anchors, entries of controls.md, files and commands."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

from posenc.report import findings
from posenc.study import plan
from posenc.study.declared import KINDS

from .synthetic import PROJECT, params_of


def pages() -> list[Path]:
    """The pages of the project that may show numbers."""
    patterns = ("README*.md", "docs/*.md", "paper/*.tex")
    return sorted(path for pattern in patterns for path in PROJECT.glob(pattern))


def text(path: str) -> str:
    return (PROJECT / path).read_text(encoding="utf-8")


@cache
def entries(page: str = "docs/controls.md") -> dict[str, dict[str, str]]:
    """By name, the fields of an entry of controls.md, or of its template."""
    named = re.split(r"(?m)^### (.+)\n", text(page))[1:]
    bodies = [body.partition("\n## ")[0] for body in named[1::2]]
    fields = [dict(re.findall(r"(?m)^- \*\*(\w+)\.\*\* (.+)$", body)) for body in bodies]
    return dict(zip(named[::2], fields, strict=True))


@cache
def made(study: str) -> set[str]:
    """Every measurement file that the rules make for a study."""
    params = params_of(study)
    files = {f"{plan.folder(params)}/{file}" for kind in KINDS for file in plan.files(params, kind)}
    return {file.removeprefix(f"{PROJECT}/") for file in files}


def command(study: str, file: str) -> str:
    """The command that makes a study's file, whichever is active."""
    config = "" if study == findings.STUDY else f" --config study={study}"
    return f"snakemake --cores 8{config} -- {file}"


@cache
def anchors(page: Path) -> set[str]:
    """What a link may name behind # in a page: its own, and those that GitHub gives to headings."""
    written = page.read_text(encoding="utf-8")
    prose = re.sub(r"(?ms)^```.*?^```$", "", written)
    titles = re.findall(r"(?m)^#+ (.+)$", prose)
    names = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    assert max(Counter(names).values(), default=1) == 1, f"{page}: two headings have one anchor"
    return {*names, *re.findall(r'<a id="([\w-]+)"></a>', prose)}
