"""No number in the text of the documents is typed by hand: each comes from a measurement."""

from __future__ import annotations

import re

import pytest

from posenc.figures.catalogue import DOCUMENTS, FIGURES

from . import synthetic

# What may hold digits and why.
ALLOWED = {
    "names": r"GPT-[12]|SmolLM2(?:-135M)?|Gemma~3(?: 270M)?|\$R\^2\$",
    # Their arguments are keys, labels or files; they print generated text.
    "references": (
        r"\\(?:measured|ifmeasured|interval|percent|percentinterval|published|studied|study|name"
        r"|condition|label|ref|eqref|cite|includegraphics|fittable|showfigure\*?|finding|control|guide)\s*(?:\[[^]]*\])*\{[^{}]*\}"
    ),
    "comparisons": r"\\(?:compare|compared)\s*(?:\{[^{}]*\}){2}",
    # Written by `posenc record`, and compared with the record in test_findings.py.
    "records": r"\\recorded\{[^{}]*\}\{[^{}]*\}",
    # Lengths: of boxes, and of spaces.
    "layout": (
        r"\\begin\{(?:minipage|column)\}\{[^{}]*\}|\\setlength\s*\\\w+\{[^{}]*\}|\\\\\[[^]]*\]"
    ),
}
# In displayed definitions: single digits that are not part of a decimal number or a longer one.
STRUCTURAL = r"(?<![\d.])[0-3](?![\d.])"
DISPLAYED = re.compile(r"\\begin\{(equation\*?)\}.*?\\end\{\1\}", flags=re.DOTALL)


def typed_numbers(text):
    """Lines of a document's body that hold digits typed by hand.

    Parameters
    ----------
    text : str
        The whole document.

    Returns
    -------
    list of (int, str)
        Line numbers, and the lines without what is allowed.
    """

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    start = text.index(r"\begin{document}")
    body = re.sub(r"[^\n]", " ", text[:start]) + text[start:]
    body = re.sub(r"(?<!\\)%.*", "", body)
    for pattern in ALLOWED.values():
        # Arguments may begin on the next line.
        body = re.sub(pattern.replace(r"(?:\{", r"(?:\s*\{"), blank, body)
    body = DISPLAYED.sub(lambda match: re.sub(STRUCTURAL, " ", match.group()), body)
    lines = enumerate(body.splitlines(), start=1)
    return [(number, line.strip()) for number, line in lines if re.search(r"\d", line)]


def read(document):
    """The text of a document."""
    return (synthetic.PROJECT / "paper" / f"{document}.tex").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_number_is_typed_by_hand(document):
    assert typed_numbers(read(document)) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_study_that_is_named_is_there(document):
    named = set(re.findall(r"\\study\{(\w+)\}", read(document)))
    assert named <= {path.stem for path in (synthetic.PROJECT / "studies").glob("*.yaml")}
    if document == "paper":
        cited = set(re.findall(r"\\recorded\{(\w+):", read(document)))
        assert cited - named <= {"headline"}, "each study whose numbers stand here is named"


def test_no_number_is_typed_in_a_caption():
    with_digits = {name for name, entry in FIGURES.items() if re.search(r"\d", entry.caption)}
    assert not with_digits


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize(
    "number", ["0.77", "12", "the cosine is 0.7702", r"\num{712014.3125}", "７", r"\(c = 1\)"]
)
def test_a_typed_number_is_found(document, number):
    text = read(document)
    end = text.index(r"\end{document}")
    lines = typed_numbers(text[:end] + number + "\n" + text[end:])
    assert len(lines) == 1
    assert lines[0][0] == text[:end].count("\n") + 1


@pytest.mark.parametrize("number", ["0.77", "1.5", "12", "5"])
def test_a_number_in_a_displayed_equation_is_found(number):
    text = read("supplement").replace(r"\end{equation}", rf"= {number} \end{{equation}}", 1)
    assert len(typed_numbers(text)) == 1
