"""Build a document with LuaLaTeX: the same bytes each time, or one clear error."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import run
from posenc.artifacts.files import (
    CHECKSUMS,
    ArtifactError,
    atomic_file,
    if_whole,
    read_json,
    sha256_file,
    verify,
    write_json,
)
from posenc.artifacts.receipts import inputs_digest

SOURCES = ("params.yaml", "studies", "Snakefile", "workflow", "paper", "docs/mask-versions.json")
"""What documents are made of. A commit of anything else leaves them as they are."""
COMMAND = (
    "latexmk", "-norc", "-gg", "-lualatex", "-bibtex", "-interaction=nonstopmode",
    "-halt-on-error", "-file-line-error",
)  # fmt: skip
"""No settings of the user's own, and from nothing: what an earlier build left has no influence."""
ENVIRONMENT = {
    "SOURCE_DATE_EPOCH": "0",
    "FORCE_SOURCE_DATE": "1",
    "TZ": "UTC",
    # Lines of the log are not broken, so that they can be read here.
    "max_print_line": "10000",
    # A study may have some 400,000 numbers, and each is a name to TeX.
    "max_strings": "2000000",
    "hash_extra": "2000000",
}
MOST_ERRORS = 3


class LatexError(RuntimeError):
    """The document cannot be built, or would have holes in it."""

    is_user_error = True


def main(
    document: Annotated[Path, typer.Option(help="the .tex file")],
    output: Annotated[Path, typer.Option(help="the .pdf file")],
    inputs: Annotated[list[Path] | None, typer.Argument(metavar="INPUT...")] = None,
    study: Annotated[Path | None, typer.Option(help="the study's folder, if not OUTPUT's")] = None,
) -> None:
    """Build DOCUMENT in the folder `build` beside it and copy the result to OUTPUT.

    Figures, numbers and tables are those in the study's folder. With every file that
    the document shows given as INPUT, it is built only when one of them changed since the last
    build: a measurement that comes out the same rebuilds nothing.
    """
    for path in inputs or []:
        check(path)
    folder = study or output.parent
    built = built_in(document, folder)
    receipt = built.with_suffix(".receipt.json")
    read = {str(path): sha256_file(path) for path in [document, *(inputs or []), Path(__file__)]}
    if inputs and is_current(receipt, read, built):
        print(f"{document}: nothing that it shows changed")
    else:
        earlier = kept(receipt, built)
        try:
            build(document, folder, named(document, read), dated(document))
        except LatexError as error:
            # What runs this has removed the output already.
            hint = f"; the last one that was built is {earlier}" if earlier.exists() else ""
            raise LatexError(f"{error}{hint}") from None
        write_json(receipt, {"inputs": read, "pdf": sha256_file(built)})
    with atomic_file(output) as temporary:
        shutil.copyfile(built, temporary)


def check(path: Path) -> None:
    """Compare a file that the workflow made with its checksum, where it has one.

    Raises
    ------
    DamagedError
        If it was altered.
    """
    for checksums in (CHECKSUMS, f"{path.stem}.json"):
        if path.with_name(checksums).exists():
            verify(path, checksums)


def is_current(receipt: Path, read: dict[str, str], built: Path) -> bool:
    """Whether the last build read these very files, and its result is still there."""
    if not (receipt.exists() and built.exists()):
        return False
    try:
        return read_json(receipt) == {"inputs": read, "pdf": sha256_file(built)}
    except ArtifactError:
        return False


def kept(receipt: Path, built: Path) -> Path:
    """Where the last whole result is kept while another one is built."""
    earlier = built.with_suffix(".earlier.pdf")
    known = if_whole(receipt, read_json) or {}
    if built.exists() and known.get("pdf") == sha256_file(built):
        shutil.copyfile(built, earlier)
    return earlier


def built_in(document: Path, folder: Path) -> Path:
    """Where the document of a study is built: studies do not share what LaTeX leaves behind."""
    return document.parent / "build" / folder.name / document.with_suffix(".pdf").name


def build(document: Path, folder: Path, made_of: str = "", day: str = "") -> Path:
    """Run latexmk.

    Parameters
    ----------
    document : Path
        The .tex file; paths in it are relative to the study's folder, or else to its own.
    folder : Path
        The study's.
    made_of : str
        The commit that it prints.
    day : str
        The day of that commit, which it prints as well.

    Returns
    -------
    Path
        The .pdf file.

    Raises
    ------
    LatexError
        If latexmk is not installed, LaTeX fails, a reference or citation is undefined, or a font
        lacks a character.
    """
    if shutil.which(COMMAND[0]) is None:
        raise LatexError(f"{document}: {COMMAND[0]} is not installed")
    built = built_in(document, folder)
    built.parent.mkdir(parents=True, exist_ok=True)
    # Not a file that is read: a commit alone builds nothing anew.
    known = rf"\newcommand\projectcommit{{{made_of}}}\newcommand\projectdate{{{day}}}"
    # Relative, because the names of figures are written into the document.
    searched = {"TEXINPUTS": f"{os.path.relpath(folder, document.parent)}:"}
    result = subprocess.run(
        [*COMMAND, f"-outdir=build/{folder.name}", f"-usepretex={known}", document.name],
        cwd=document.parent, env={**os.environ, **ENVIRONMENT, **searched},
        capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    log = built.with_suffix(".log")
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if result.returncode:
        lines = errors_in(text) or last_lines(result.stdout + result.stderr)
        raise LatexError(f"{document} does not build: {'; '.join(lines)} (all of it: {log})")
    holes = holes_in(text)
    if holes:
        raise LatexError(f"{document}: {'; '.join(holes[:MOST_ERRORS])} (all of it: {log})")
    for line in overfull_in(text):
        print(f"warning: {document}: {line}")
    return built


def named(document: Path, read: Mapping[str, str]) -> str:
    """What a document says that it is made of: the commit, or its inputs where that is not enough.

    Before a commit there is none to name. ``posenc record`` writes the digest of the inputs into
    the record, so that ``git log -S DIGEST -- data/records`` finds the commit that came to be.
    """
    revision = commit(document.parent.parent)
    if revision and not revision.endswith("+"):
        return revision
    return f"{revision} (inputs {inputs_digest(read)})".strip()


def commit(folder: Path) -> str:
    """The last commit that changed what documents are made of, 12 digits.

    With a plus sign where something of it is changed and not committed; empty outside a checkout,
    or where git is not installed.
    """
    revision = _git(folder, "log", "-1", "--format=%H")[:12]
    return f"{revision}+" if revision and _git(folder, "status", "--porcelain") else revision


def dated(document: Path) -> str:
    """The day of that commit, as in 2026-11-28; empty where there is none."""
    return _git(document.parent.parent, "log", "-1", "--format=%cs")


def _git(folder: Path, *arguments: str) -> str:
    if shutil.which("git") is None:
        return ""
    command = ["git", *arguments, "--", *SOURCES]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else ""


def errors_in(log: str) -> list[str]:
    """The first errors of a log, each as file, line and message."""
    errors = re.findall(r"^(?:\./)?([^\s:]+\.\w+:\d+: .+)$", log, flags=re.MULTILINE)
    errors = errors or re.findall(r"^! (.+)$", log, flags=re.MULTILINE)
    # The last is TeX's own word that it stops there.
    return [line for line in errors if "==> Fatal error" not in line][:MOST_ERRORS]


def last_lines(text: str) -> list[str]:
    """The end of latexmk's own words, where LaTeX has not come to write a log."""
    return [line.strip() for line in text.splitlines() if line.strip()][-MOST_ERRORS:]


def holes_in(log: str) -> list[str]:
    """Undefined references and citations, and characters that no font has."""
    undefined = r"Warning: ((?:Reference|Citation) [`'].+?' .*?undefined)"
    missing = r"(Missing character: There is no .+)"
    return list(dict.fromkeys(re.findall(undefined, log) + re.findall(missing, log)))


def overfull_in(log: str) -> list[str]:
    """Boxes that stick out by more than a point."""
    boxes = re.findall(r"^(Overfull \\\w+ \(([\d.]+)pt .*)$", log, flags=re.MULTILINE)
    return [line for line, points in boxes if float(points) > 1]


if __name__ == "__main__":
    run(main)
