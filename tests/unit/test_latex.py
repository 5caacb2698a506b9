"""The documents are built whole, in the same bytes, or with an error that names what is wrong."""

from __future__ import annotations

import functools
import importlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from posenc.artifacts.files import (
    DamagedError,
    read_json,
    read_sealed,
    write_json,
    write_sealed,
)
from posenc.figures.catalogue import DOCUMENTS, FIGURES, module_of, numbered
from posenc.report import latex as availability
from posenc.steps import latex, typeset
from posenc.study import plan
from tests.budget import quick

from . import synthetic
from .damage import call, flip, found_and_marked
from .test_choices import study_with

MISSING = availability.missing()
needs_latex = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
needs_pdftotext = pytest.mark.skipif(
    shutil.which("pdftotext") is None,
    reason="not installed: pdftotext; `make setup` installs it with Chromium",
)


FOLDER = Path("data/studies/default")
"""Of the study, below the project."""


def text_of(built, *options):
    """What pdftotext reads in a document."""
    command = ["pdftotext", *options, built, "-"]
    return subprocess.run(command, capture_output=True, text=True).stdout


def write_article(path, text):
    """A short document that has the study's numbers."""
    path.write_text(
        "\\documentclass{article}\n\\usepackage{siunitx}\n\\input{generated/numbers}\n"
        f"\\begin{{document}}\n{text}\n\\end{{document}}\n"
    )


def make_project(root, models=None, study="default", **chosen):
    """A project with made-up measurements: figures, numbers, tables and the documents' text.

    ``chosen`` are keys of the study, which leaves something out.
    """
    if chosen:
        params = study_with(**chosen)
        files, drawn = synthetic.write_chosen(root, params), plan.figures(params)
    else:
        files, drawn = synthetic.write_inputs(root, study, models), list(FIGURES)
    for name in drawn:
        make_figure(root, name, synthetic.inputs_of(name, files))
    typeset.main(
        study=files["study"],
        published=synthetic.PROJECT / "paper/published.yaml",
        versions=synthetic.PROJECT / "docs/mask-versions.json",
        output_numbers=root / FOLDER / "generated/numbers.tex",
        output_tables=root / FOLDER / "generated/tables",
        metrics=root / FOLDER / "metrics.json",
        plots=root / FOLDER / "plots",
        inputs=synthetic.measured(files),
    )
    (root / "paper").mkdir()
    for path in (synthetic.PROJECT / "paper").glob("*.[tb][ei][xb]"):
        shutil.copy(path, root / "paper")
    return root


def make_figure(root, name, inputs, **changes):
    """A figure with its checksums, as its command leaves it; ``changes`` are of its section."""
    sections = synthetic.params_of().figures
    config, style = (root / f"data/config/figures/{stem}.json" for stem in (name, "style"))
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(getattr(sections, name).model_copy(update=changes).model_dump_json())
    style.write_text(sections.style.model_dump_json())
    output = root / FOLDER / f"figures/{name}.pdf"
    importlib.import_module(module_of(name)).main(config, style, [output], inputs)
    return output


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The default study's project."""
    return make_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The project of a study that leaves out most measurements, an experiment and figures."""
    return make_project(
        tmp_path_factory.mktemp("few"),
        corpora=[],
        matrices=[],
        experiments={"superposition": "digits"},
        measurements=["heads", "embedding_sums"],
        figures=["perplexity"],
    )


def command(document):
    """Run the step as the workflow does."""
    output = document.parents[1] / FOLDER / document.with_suffix(".pdf").name
    return call("posenc.steps.latex", document=document, output=output)


@pytest.fixture(scope="module")
def built(project):
    """The bytes of a document of the project, built when they are first asked for."""
    return functools.cache(
        lambda document: latex.build(
            project / f"paper/{document}.tex", project / FOLDER
        ).read_bytes()
    )


@needs_latex
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_is_whole(project, built, document):
    built(document)
    log = (project / f"paper/build/default/{document}.log").read_text(encoding="utf-8")
    assert latex.holes_in(log) == []
    assert latex.overfull_in(log) == []


@needs_latex
def test_the_argument_of_the_paper_has_eight_pages(project, built):
    built("paper")
    labels = (project / "paper/build/default/paper.aux").read_text(encoding="utf-8")
    pages = {
        label: int(page)
        for label, page in re.findall(r"\\newlabel\{([\w:-]+)\}\{\{.*?\}\{(\d+)\}", labels)
    }
    # References follow, and the appendix.
    body = labels.split(r"\newlabel{sec:mask}")[0]
    figures = re.findall(r"\\newlabel\{(fig:\w+)\}", body)
    assert len(figures) > 3
    assert {label: pages[label] for label in [*figures, "end"] if pages[label] > 8} == {}


@needs_latex
@pytest.mark.parametrize("document", quick("paper", of=DOCUMENTS))
def test_a_document_has_the_same_bytes_each_time(project, built, document, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(project, elsewhere, ignore=shutil.ignore_patterns("build"))
    again = latex.build(elsewhere / f"paper/{document}.tex", elsewhere / FOLDER).read_bytes()
    assert built(document) == again


def supplement_of(root, shown):
    """Build a supplement that shows nothing but some figures."""
    text = root / "paper/supplement.tex"
    preamble = text.read_text().split(r"\begin{document}")[0]
    text.write_text(rf"{preamble}\begin{{document}}{shown}\end{{document}}")
    return latex.build(text, root / FOLDER)


@needs_latex
def test_a_figure_without_a_place_in_the_text_comes_at_the_end(project, tmp_path):
    root = tmp_path / "project"
    shutil.copytree(project, root, ignore=shutil.ignore_patterns("build"))
    supplement_of(root, r"\showfigure*{spectra}\furtherfigures{\showfigure[h]}{\unmeasured}")
    labels = (root / "paper/build/default/supplement.aux").read_text(encoding="utf-8")
    placed = re.findall(r"\\newlabel\{fig:(\w+)\}\{\{\d", labels)
    defined = (root / FOLDER / "generated/numbers.tex").read_text(encoding="utf-8")
    unmeasured = set(re.findall(r"\\posencfurther\{(\w+)\}\{[^}]", defined))
    assert unmeasured == {"unrotated_heads"}, "no model with a rotation has its heads examined"
    drawn = set(DOCUMENTS["supplement"]["figures"]) - synthetic.OF_OTHER_STUDIES - unmeasured
    assert placed[0] == "spectra" and set(placed) == drawn
    assert len(placed) == len(drawn)


@needs_latex
@needs_pdftotext
def test_a_figure_of_which_nothing_was_run_is_a_sentence(project, tmp_path):
    root = tmp_path / "project"
    shutil.copytree(project, root, ignore=shutil.ignore_patterns("build"))
    numbers = root / FOLDER / "generated/numbers.tex"
    defined = numbers.read_text(encoding="utf-8")
    planted = defined.replace(
        r"\posencfurther{lags}{}", r"\posencfurther{lags}{no positions at all}"
    )
    assert planted != defined
    numbers.write_text(planted, encoding="utf-8")
    built = supplement_of(root, r"\furtherfigures{\showfigure[h]}{\unmeasured}")
    words = " ".join(text_of(built).split())
    number = numbered(FIGURES)["lags"]
    assert f"Figure {number}, lags, was not run: no positions at all." in words
    assert f"Figure {number}:" not in words


@pytest.mark.slow
@needs_latex
def test_a_study_without_decoder_is_built_and_marked(tmp_path):
    root = make_project(tmp_path, models=["minilm"])
    built = latex.build(root / "paper/paper.tex", root / FOLDER)
    if shutil.which("pdftotext") is None:
        pytest.skip("not installed: pdftotext; the document was built, its text not read")
    text = text_of(built)
    assert "not run: no decoder in this study" in text


@needs_latex
@needs_pdftotext
@pytest.mark.parametrize("document", quick("paper", "slides", of=DOCUMENTS))
def test_a_study_that_leaves_something_out_is_built_and_says_so(few, document):
    """Sentences go, and references to figures say it."""
    built = latex.build(few / f"paper/{document}.tex", few / FOLDER)
    words = " ".join(text_of(built).split())
    said = {
        "paper": "not run: position_heads: not part of this study",
        "supplement": "not run: memory_networks: not part of this study",
        "slides": "未実行: mask_semantics",
    }
    assert said[document] in words
    assert "??" not in words


@pytest.mark.slow
@needs_latex
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_study_whose_decoder_is_not_captured_is_built_and_marked(tmp_path, document):
    root = make_project(tmp_path, study=synthetic.EVALUATED)
    built = latex.build(root / f"paper/{document}.tex", root / FOLDER)
    log = (root / f"paper/build/default/{document}.log").read_text(encoding="utf-8")
    assert latex.holes_in(log) == latex.overfull_in(log) == []
    if shutil.which("pdftotext") is None:
        pytest.skip("not installed: pdftotext; the document was built, its text not read")
    text = text_of(built)
    words = " ".join(text.split())
    assert "SmolLM2-135M-Instruct (Q4_1)" in words or document == "supplement"
    assert "activations of gpt2 are not kept" in words


WIDEST = r"""
\newlength\widthabove\newlength\widthbelow\newlength\widthotherwise
\AtBeginDocument{\RenewDocumentCommand\compared{m m m m m}{%
  \settowidth{\widthabove}{#3}\settowidth{\widthbelow}{#4}\settowidth{\widthotherwise}{#5}%
  \ifdim\widthabove>\widthbelow \ifdim\widthabove>\widthotherwise #3\else #5\fi
  \else \ifdim\widthbelow>\widthotherwise #4\else #5\fi \fi}}
"""


@pytest.mark.slow
@needs_latex
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_holds_whatever_its_comparisons_say(project, tmp_path, document):
    """Each comparison is printed in the widest of its three wordings."""
    root = tmp_path / "project"
    shutil.copytree(project, root, ignore=shutil.ignore_patterns("build"))
    text = root / f"paper/{document}.tex"
    source = text.read_text(encoding="utf-8")
    begin = r"\begin{document}"
    text.write_text(source.replace(begin, WIDEST + begin, 1), encoding="utf-8")
    latex.build(text, root / FOLDER)
    log = (root / f"paper/build/default/{document}.log").read_text(encoding="utf-8")
    assert latex.holes_in(log) == latex.overfull_in(log) == []


@pytest.mark.slow
@needs_latex
@needs_pdftotext
def test_a_changed_measurement_changes_the_paper_and_the_slides(project, tmp_path):
    root = tmp_path / "edited"
    shutil.copytree(project, root)
    (path,) = root.glob("data/measurements/similarity/minilm/sample_reviews/zero.json")
    value = read_sealed(path)
    shown = {}
    for name, cosine in (("before", None), ("after", 0.4321)):
        if cosine is not None:
            estimate = {"value": cosine, "low": cosine - 0.001, "high": cosine + 0.001}
            value["layers"][-1]["cosine"] = estimate
            write_sealed(path, {key: part for key, part in value.items() if key != "sha256"})
            inputs = sorted(root.glob("data/measurements/**/*.json"))
            inputs += sorted(root.glob("data/studies/**/summary.json"))
            inputs += sorted(root.glob("data/training/**/summary.json"))
            typeset_again(root, inputs)
        for document in DOCUMENTS:
            built = latex.build(root / f"paper/{document}.tex", root / FOLDER)
            shown[name, document] = text_of(built)
    for document in DOCUMENTS:
        assert "0.4321" not in shown["before", document]
        assert "0.4321" in shown["after", document], document


@pytest.mark.slow
@needs_latex
@needs_pdftotext
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_title_may_be_of_any_script(project, tmp_path, document):
    """With the preambles of the documents; single scripts are in test_characters.py."""
    root = tmp_path / "edited"
    shutil.copytree(project, root)
    title = "位置の研究\N{GRINNING FACE} x̌ שלום " + r"\input{/etc/passwd} %$_^~{}&#" + "語" * 200
    study = read_json(root / "data/config/study.json")
    study["study"]["title"] = title
    for kind in ("path", "hub"):
        name = study["study"]["models"][kind == "hub"]
        study["models"][name]["source"] = {"kind": kind, "path": "重み", "id": "重み/\\x"}
    write_json(root / "data/config/study.json", study)
    inputs = sorted(root.glob("data/measurements/**/*.json"))
    inputs += sorted(root.glob("data/studies/**/summary.json"))
    inputs += sorted(root.glob("data/training/**/summary.json"))
    typeset_again(root, inputs)
    built = latex.build(root / f"paper/{document}.tex", root / FOLDER)
    log = (root / f"paper/build/default/{document}.log").read_text(encoding="utf-8")
    assert latex.holes_in(log) == latex.overfull_in(log) == []
    text = text_of(built, "-raw", "-l", "1")
    text = re.sub(r"[\s\u200e\u200f\u202a-\u202e]", "", text)
    assert re.sub(r"\s", "", title) in text


def typeset_again(root, inputs):
    """Write numbers and tables of the same study once more."""
    typeset.main(
        study=root / "data/config/study.json",
        published=synthetic.PROJECT / "paper/published.yaml",
        versions=synthetic.PROJECT / "docs/mask-versions.json",
        output_numbers=root / FOLDER / "generated/numbers.tex",
        output_tables=root / FOLDER / "generated/tables",
        metrics=root / FOLDER / "metrics.json",
        plots=root / FOLDER / "plots",
        inputs=inputs,
    )


@needs_latex
@needs_pdftotext
def test_a_share_is_printed_in_per_cent(project, tmp_path):
    root = tmp_path / "shares"
    shutil.copytree(project, root)
    numbers = root / FOLDER / "generated/numbers.tex"
    lines = [
        r"\posencestimate{a}{\num{0.771}}{[\num{0.748},~\num{0.7921}]}{0.77051}{0.748}{0.7921}",
        r"\posencvalue{b}{\num{-0.000018}}{-1.8e-05}",
        r"\posencnotrun{c}{no decoder}",
    ]
    numbers.write_text("\n".join([numbers.read_text(), *lines]))
    text = r"\percent{a} \percentinterval{a}; \percent{b}; \percent{c} \percentinterval{c}."
    document = root / "paper/shares.tex"
    write_article(document, text)
    built = latex.build(document, root / FOLDER)
    words = re.sub(r"\s+", " ", text_of(built))
    assert words.startswith("77.1 % [74.8, 79.2]; 0.0 %; not run .")


@needs_latex
@needs_pdftotext
def test_a_published_value_is_compared_whatever_the_study_measures(project, tmp_path):
    """Its key holds the name of a measurement that the study leaves out."""
    root = tmp_path / "published"
    shutil.copytree(project, root)
    numbers = root / FOLDER / "generated/numbers.tex"
    lines = [
        r"\posencabsent{never}",
        r"\posencpublished{gpt2.never.mae}{\num{2}}{2.0}",
        r"\posencvalue{a}{\num{1}}{1.0}",
    ]
    before, entries, after = numbers.read_text().partition("\\posencentries\n")
    numbers.write_text("\n".join([before, *lines[:2], f"{entries}{after}", *lines[2:]]))
    document = root / "paper/published.tex"
    compared = r"\compare{a}{published.gpt2.never.mae}; \compare{a}{gpt2.never.mae}"
    write_article(
        document, rf"{compared}; \interval{{gpt2.never.mae}}; \percent{{gpt2.never.mae}}."
    )
    words = re.sub(r"\s+", " ", text_of(latex.build(document, root / FOLDER)))
    assert words.startswith("below; not run ; not run ; not run .")


@needs_latex
@pytest.mark.parametrize(
    ("text", "word"),
    [
        (r"\measured{decoder.reviews.zero.perplexty}", "decoder.reviews.zero.perplexty"),
        (r"\percent{decoder.reviews.zero.perplexty}", "decoder.reviews.zero.perplexty"),
        (r"\compare{constant.zero}{published.no.such}", "published.no.such"),
        (r"\ref{tab:nowhere}", "tab:nowhere"),
        (r"\cite{nobody}", "nobody"),
        (r"\nosuchcommand", "Undefined control sequence"),
    ],
)
def test_a_hole_fails_the_build_and_is_named(few, text, word):
    document = few / "paper/broken.tex"
    write_article(document, text)
    result = command(document)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert word in result.stderr
    if "ref" not in text and "cite" not in text:
        assert re.search(r"broken\.tex:5: ", result.stderr)
    assert not (few / FOLDER / "broken.pdf").exists()


@needs_latex
def test_a_build_that_fails_names_the_last_one_that_did_not(tmp_path):
    document = tmp_path / "paper/short.tex"
    document.parent.mkdir()
    lines = ["\\documentclass{article}", "\\begin{document}", "whole", "\\end{document}"]
    document.write_text("\n".join(lines))
    latex.main(document, tmp_path / "short.pdf")
    whole = (tmp_path / "short.pdf").read_bytes()
    (tmp_path / "short.pdf").unlink()  # as Snakemake does before it makes a file again
    # A reference that is nowhere leaves a PDF with a hole, which is not the last whole one.
    for broken in ("\\nosuchcommand", "\\ref{nowhere}", "\\nosuchcommand"):
        document.write_text("\n".join([*lines[:2], broken, lines[3]]))
        with pytest.raises(latex.LatexError, match=r"the last one .* is (\S+)$") as caught:
            latex.main(document, tmp_path / "short.pdf")
        kept = Path(str(caught.value).rpartition(" ")[2])
        assert kept.read_bytes() == whole and not (tmp_path / "short.pdf").exists()


def test_errors_are_found_in_a_log():
    log = (
        "This is LuaHBTeX\n./paper.tex:12: Package posenc Error: There is no measured value\n"
        "./paper.tex:12:  ==> Fatal error occurred, no output PDF file produced!\n"
    )
    assert latex.errors_in(log) == [
        "paper.tex:12: Package posenc Error: There is no measured value"
    ]
    assert latex.errors_in("! Emergency stop.\n") == ["Emergency stop."]


def test_holes_and_wide_boxes_are_found_in_a_log():
    log = (
        "LaTeX Warning: Reference `tab:a' on page 1 undefined on input line 3.\n"
        "Package natbib Warning: Citation `b' on page 1 undefined on input line 4.\n"
        "Missing character: There is no 類 (U+985E) in font lmroman10!\n"
        "Overfull \\hbox (20.2pt too wide) in paragraph at lines 1--2\n"
        "Overfull \\hbox (0.4pt too wide) in paragraph at lines 3--4\n"
    )
    assert len(latex.holes_in(log)) == 3
    assert len(latex.overfull_in(log)) == 1


def test_an_absent_latexmk_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(latex.shutil, "which", lambda name: None)
    with pytest.raises(latex.LatexError, match="latexmk is not installed"):
        latex.build(tmp_path / "paper.tex", tmp_path)


@pytest.mark.slow
@needs_latex
def test_a_document_is_built_only_when_what_it_shows_changed(
    project, tmp_path, capsys, monkeypatch
):
    builds = []
    original = latex.build
    monkeypatch.setattr(latex, "build", lambda *of: builds.append(of) or original(*of))
    document, output = project / "paper/paper.tex", project / FOLDER / "paper.pdf"
    measured = sorted((project / "data/measurements/perplexity").rglob("*.json"))
    shown = make_figure(project, "perplexity", measured)
    for expected in (1, 1):
        latex.main(document, output, [shown])
        assert len(builds) == expected
    assert "nothing that it shows changed" in capsys.readouterr().out
    unchanged = output.read_bytes()
    try:
        make_figure(project, "perplexity", measured, height=2.9)
        latex.main(document, output, [shown])
        assert len(builds) == 2
        assert output.read_bytes() != unchanged
    finally:
        make_figure(project, "perplexity", measured)
    (project / "paper/build/default/paper.pdf").write_bytes(b"damaged")
    latex.main(document, output, [shown])
    assert len(builds) == 3
    assert output.read_bytes() == unchanged


@pytest.mark.parametrize(
    "damaged",
    [
        "figures/rotary_masks.pdf",
        "figures/rotary_masks.json",
        "generated/numbers.tex",
        "generated/tables/published.tex",
        "generated/tables/checksums.json",
    ],
)
def test_what_a_document_shows_is_compared_with_its_checksum(project, tmp_path, damaged):
    """Before anything is built: it needs no LaTeX, and an older result stays as it is."""
    root = tmp_path / "project"
    for part in ("figures", "generated"):
        shutil.copytree(project / FOLDER / part, root / FOLDER / part)
    (root / "paper").mkdir()
    shutil.copy(project / "paper/paper.tex", root / "paper")
    output = root / FOLDER / "paper.pdf"
    output.write_bytes(b"older")
    shown = [
        *(root / FOLDER / f"figures/{name}.pdf" for name in DOCUMENTS["paper"]["figures"]),
        root / FOLDER / "generated/numbers.tex",
        *(root / FOLDER / f"generated/tables/{name}.tex" for name in DOCUMENTS["paper"]["tables"]),
    ]
    for path in shown:
        latex.check(path)
    flip(root / FOLDER / damaged)
    with pytest.raises(DamagedError) as caught:
        for path in shown:
            latex.check(path)
    assert caught.value.path == root / FOLDER / damaged
    options = {"document": root / "paper/paper.tex", "output": output}
    found_and_marked(root / FOLDER / damaged, "posenc.steps.latex", *shown, **options)
    assert output.read_bytes() == b"older"
    assert not (root / "paper/build").exists()


def test_without_latex_the_last_line_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert availability.missing() == list(availability.PROGRAMS)
    line = availability.advice()
    assert "latexmk" in line and line.endswith(availability.INSTALL)
    with pytest.raises(latex.LatexError, match="latexmk is not installed"):
        latex.build(tmp_path / "paper.tex", tmp_path)
