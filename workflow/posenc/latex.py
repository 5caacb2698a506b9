"""Whether the documents can be built here, and what to say when they cannot."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PROGRAMS = ("latexmk", "lualatex", "bibtex", "kpsewhich")
STYLES = ("luatexja-preset.sty", "siunitx.sty", "booktabs.sty", "beamer.cls")
DOCUMENTS = (Path("paper/paper.pdf"), Path("paper/slides.pdf"))
INSTALL = (
    "apt-get install --no-install-recommends latexmk texlive-luatex "
    "texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended texlive-science "
    "texlive-pictures texlive-bibtex-extra texlive-lang-japanese lmodern poppler-utils"
)


def missing() -> list[str]:
    """Programs and style files that the documents need and this machine lacks."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return absent
    found = subprocess.run(["kpsewhich", *STYLES], capture_output=True, text=True).stdout
    return [style for style in STYLES if style not in found]


def closing_line() -> str:
    """The last line of a run: where the documents are, or what is missing and how to get it."""
    absent = missing()
    if not absent:
        made = [str(path) for path in DOCUMENTS if path.exists()]
        return f"Documents: {' and '.join(made)}" if made else "Documents: not built yet"
    return (
        f"Everything but the paper and the slides was made: {', '.join(absent)} missing. "
        f"Install with: {INSTALL}"
    )
