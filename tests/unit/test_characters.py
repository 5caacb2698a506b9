"""A title of any script is printed as it was written, and is never read as a command."""

from __future__ import annotations

import re
import shutil
import subprocess
import unicodedata

import pytest

from posenc.report import characters, latex, typeset
from posenc.report.characters import embedding_levels
from posenc.steps.latex import build, holes_in

needs_latex = pytest.mark.skipif(
    bool(latex.missing()) or shutil.which("pdftotext") is None,
    reason=f"not installed: {', '.join(latex.missing()) or 'pdftotext'}",
)
FAMILY = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"
FLAG = "\N{REGIONAL INDICATOR SYMBOL LETTER J}\N{REGIONAL INDICATOR SYMBOL LETTER P}"
TITLES = {
    "japanese": "日本語の題「位置」、ガ行（か゚）々",
    "emoji": f"a\N{GRINNING FACE}b {FAMILY} {FLAG} \N{HEAVY BLACK HEART}\ufe0f 1\ufe0f\u20e3",
    "marks": "x̌ é q̃ Ελληνικά кириллица",
    "specials": r"\input{/etc/passwd} % $x$ a_b a^b ~ {} & # \end{document}",
    "hebrew": "שלום",
    "arabic": "مرحبا",
    "mixed": "Study שלום end",
    "long": "word " * 59 + "last",
    "unbroken": "x" * 300,
    "unbroken japanese": "語" * 300,
}
"""By kind. Of pictures, the text that is copied from the page is compared."""


def document(root, text, preamble=""):
    """A document that shows a text as the paper does, and includes what the generated file has."""
    setup = typeset.environment().get_template("unicode.tex.jinja").render(fonts=latex.FALLBACK)
    (root / "title.tex").write_text(
        f"\\documentclass{{article}}\n{preamble}\n\\pdfvariable suppressoptionalinfo 608\n{setup}\n"
        f"\\begin{{document}}\n{{\\centering\\large Study: {characters.latex(text)}\\par}}\n"
        "\\noindent after\n\\end{document}\n",
        encoding="utf-8",
    )
    return build(root / "title.tex", root)


def letters(text):
    """What is compared: without spaces and marks of direction, which a page's lines change."""
    return re.sub(r"[\s\u200e\u200f\u202a-\u202e]", "", unicodedata.normalize("NFC", text))


def text_of(pdf):
    """The lines of the page from top to bottom."""
    command = ["pdftotext", "-raw", pdf, "-"]
    return subprocess.run(command, capture_output=True, text=True).stdout


@needs_latex
@pytest.mark.parametrize("preamble", ["", r"\usepackage[haranoaji]{luatexja-preset}"])
@pytest.mark.parametrize("kind", TITLES)
def test_a_title_is_printed_as_it_was_written(tmp_path, kind, preamble):
    pdf = document(tmp_path, TITLES[kind], preamble)
    log = pdf.with_suffix(".log").read_text(encoding="utf-8")
    assert holes_in(log) == []
    assert "Overfull" not in log
    assert letters(text_of(pdf)).startswith(letters(f"Study: {TITLES[kind]}after"))


@needs_latex
def test_a_flag_and_a_family_are_one_picture_each(tmp_path):
    readable = r"\pdfvariable compresslevel 0 \pdfvariable objcompresslevel 0"
    pdf = document(tmp_path, f"{FLAG}{FAMILY}\N{GRINNING FACE}", readable)
    assert len(re.findall(rb"/Subtype */Form", pdf.read_bytes())) == 3


@needs_latex
def test_a_character_that_no_font_has_is_printed_as_its_code_point(tmp_path):
    """Hieroglyphs are in none of the fonts that are searched."""
    pdf = document(tmp_path, "a\U00013000b")
    assert holes_in(pdf.with_suffix(".log").read_text(encoding="utf-8")) == []
    assert "U+13000" in letters(text_of(pdf))


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("abc 12", "000000"),
        # UAX #9: the paragraph runs as its first letter does; a number keeps its own direction.
        ("אב 12", "11122"),
        ("אב 1,5%", "1112222"),
        ("a אב b", "001100"),
        ("a אב 12 b", "001112200"),
        ("אב ab א", "1112211"),
        # N0: both brackets of a pair run alike, as what they enclose or what stands before them.
        ("אב (ab) א", "111122111"),
        ("a (אב) b", "00011000"),
        ("a אב (ב)", "00111111"),
        ("a1 א", "0001"),
    ],
)
def test_directions_are_those_of_the_unicode_algorithm(text, levels):
    assert "".join(map(str, embedding_levels(list(text)))) == levels


def test_plain_text_stays_as_it_is():
    assert characters.latex("Sample corpus – café, “x”") == "Sample corpus – café, “x”"


def test_a_line_of_japanese_ends_where_it_may():
    tex = re.sub(r"\\posencletter\{dflt\}\{\w+\}\{(.)\}", r"\1", characters.latex("あ「い」、ゃう"))
    assert tex.split(r"\allowbreak{}") == ["あ", "「い」、ゃ", "う"]


def test_every_package_of_fonts_is_installed_by_setup(monkeypatch, tmp_path):
    for package in ("fonts-dejavu-core", "fonts-freefont-otf", "fonts-unifont"):
        assert package in latex.INSTALL.split()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert latex.lacking_fonts() == list(latex.FONTS)
