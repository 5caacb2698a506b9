"""Whether the documents can be built here, and what to say when they cannot."""

from __future__ import annotations

import shutil
import subprocess

PROGRAMS = ("latexmk", "lualatex", "bibtex", "kpsewhich")
STYLES = ("luatexja-preset.sty", "siunitx.sty", "booktabs.sty", "beamer.cls")
FONTS = ("DejaVuSans.ttf", "FreeSerif.otf", "unifont.otf", "unifont_upper.otf")
FALLBACK = (FONTS[0], r"\japanesefont", *FONTS[1:])
"""Fonts that are searched, in this order, for a character that a document's own font lacks."""
INSTALL = (
    "apt-get install --no-install-recommends latexmk texlive-luatex "
    "texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended texlive-science "
    "texlive-pictures texlive-bibtex-extra texlive-lang-japanese lmodern poppler-utils "
    "fonts-dejavu-core fonts-freefont-otf fonts-unifont"
)


def missing() -> list[str]:
    """Programs and style files that the documents need and this machine lacks."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return absent
    paths = subprocess.run(["kpsewhich", *STYLES], capture_output=True, text=True).stdout
    return [style for style in STYLES if f"/{style}\n" not in paths]


def lacking_fonts() -> list[str]:
    """Fonts for titles of any script that this machine lacks; documents are built without them.

    A character that no font has is printed as its code point.
    """
    if shutil.which("kpsewhich") is None:
        return list(FONTS)
    paths = subprocess.run(["kpsewhich", *FONTS], capture_output=True, text=True).stdout
    return [font for font in FONTS if f"/{font}\n" not in paths]


def advice() -> str:
    """What is missing for the documents, and how to get it; empty where nothing is."""
    absent = missing()
    if not absent:
        return ""
    return f"the documents need {', '.join(absent)}, which this machine lacks; install: {INSTALL}"
