"""What opens the page: findings with their controls, in words that their intervals allow."""

from __future__ import annotations

import copy
import dataclasses
import html
import re

import pytest

from posenc.artifacts.numbers import NotRun, Number
from posenc.figures.catalogue import FIGURES
from posenc.report import page
from posenc.report.gathered import read
from posenc.report.headlines import FINDINGS, HEADLINES, WITHOUT
from posenc.report.links import ways_in
from posenc.report.page_findings import MARGIN, findings, headlines
from posenc.report.page_materials import synthetic as generated
from posenc.report.page_rows import rows_of
from posenc.report.records import Place
from posenc.steps import page as step

from . import synthetic
from .test_page import PUBLISHED, VERSIONS, Document, cells, planted_figure

SHARE = Number(0.75, 0.7, 0.8)
CLOSED, FIRST, FITTED = FINDINGS
NAMES = {"rotary_decoder": "smollm2", "table_decoder": "decoder", "reviews": "sample_reviews"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of the default study, with controls of the fit of its first decoder."""
    written = synthetic.write_inputs(tmp_path_factory.mktemp("study"))
    made = read(written["study"], PUBLISHED, VERSIONS, synthetic.measured(written))
    planted = copy.deepcopy(made)
    (measurement,) = [
        one
        for one in planted.of("conditions")
        if one["run"] == {"model": "decoder", "dataset": "sample_reviews"}
    ]
    (entry,) = [one for one in measurement["conditions"] if one["condition"] == "zero_fitted"]
    entry["adaptation"] = {
        f"{name}{share}": synthetic.estimate(value, 0.02)
        for name, value in (("interaction", 0.9), ("placebo_interaction", 0.1),
                            ("beyond_placebo", 0.8))
        for share in ("", "_share")
    }  # fmt: skip
    return planted


@pytest.fixture(scope="module")
def rows(results):
    """The numbers of its page."""
    return rows_of(results)


@pytest.fixture(scope="module")
def text(results, rows):
    """Its page, with two figures."""
    drawn = [page.Figure(name, planted_figure(), ()) for name in ("rotary_masks", "perplexity")]
    return page.page(results, rows, drawn, "data")


def named(place: Place) -> Place:
    """A place with names in the place of roles, and a file."""
    model, dataset = NAMES[place.model], NAMES[place.dataset]
    return dataclasses.replace(place, model=model, dataset=dataset, files=("f.json",))


def found_of(share, control, finding=CLOSED, study=None):
    """What is told of two entries of a finding."""
    rows = {named(finding.place): share, named(finding.control): control}
    return findings(study or synthetic.study_file(), rows, {finding.figure: 7})


@pytest.mark.parametrize("finding", FINDINGS)
@pytest.mark.parametrize(
    ("control", "which"),
    [
        (Number(0.1, 0.05, 0.15), 0),
        (Number(0.95, 0.9, 0.99), 1),
        (Number(0.6, 0.5, 0.71), 2),  # lower, and its interval overlaps
        (Number(0.9, 0.79, 0.99), 2),
        (Number(0.6, 0.5, 0.7), 2),  # the intervals touch
        (Number(0.1), 0),  # a number without an interval
    ],
)
def test_a_sentence_says_what_the_intervals_carry(finding, control, which):
    (one,) = found_of(SHARE, control, finding)
    assert one["said"] == finding.sentences[which]
    assert "less" in finding.less and "more" in finding.more
    assert "not distinguishable" in finding.alike and not re.search("less|more", finding.alike)


def test_a_share_is_told_in_percent_with_its_interval_and_control():
    (one,) = found_of(SHARE, Number(-0.24, -0.28, -0.2))
    assert one["number"] == {"value": "75.0\N{NO-BREAK SPACE}%", "low": "70.0", "high": "80.0"}
    said = one["said"].format(*one["of"])
    assert (
        "recovers 75.0\N{NO-BREAK SPACE}% [70.0, 80.0] of what SmolLM2 loses on sample reviews"
        in said
    )
    assert said.endswith(
        "masks of other heads recover less, −24.0\N{NO-BREAK SPACE}% [−28.0, −20.0]."
    )
    assert one["figure_number"] == 7


def test_the_drawing_has_the_numbers_at_their_places():
    (one,) = found_of(SHARE, Number(-1.0, -1.0, -0.5))
    drawing, width = one["drawing"], 100 * (1 - 2 * MARGIN)
    assert drawing["one"] - drawing["zero"] == pytest.approx(width / 2, abs=0.02)  # of −1 to 1
    own, control = drawing["rows"]
    assert own["dot"] - drawing["zero"] == pytest.approx(0.75 * width / 2, abs=0.02)
    assert own["width"] == pytest.approx(0.1 * width / 2, abs=0.02)
    assert control["left"] == control["dot"] == pytest.approx(100 * MARGIN, abs=0.02)


@pytest.mark.parametrize("lacking", [NotRun("no rotation"), None])
def test_what_is_not_measured_with_its_control_is_no_finding(lacking):
    for pair in ((SHARE, lacking), (lacking, SHARE)):
        assert found_of(*pair) == []


def test_a_study_without_the_model_has_no_finding_of_it():
    study = synthetic.study_file()
    study["study"]["models"] = ["minilm", "decoder"]
    assert found_of(SHARE, SHARE, study=study) == []
    assert len(found_of(SHARE, SHARE, FITTED, study)) == 1
    study["study"]["models"] = ["smollm2"]  # its decoder has no table of positions
    assert found_of(SHARE, SHARE, FITTED, study) == []


def test_findings_are_of_numbers_and_figures_that_there_are(rows):
    measured = {dataclasses.replace(place, files=()) for place in rows}
    for finding in FINDINGS:
        for place in (finding.place, finding.control):
            assert dataclasses.replace(named(place), files=()) in measured
        assert finding.figure in FIGURES


def test_the_page_opens_with_the_findings_and_their_figures(results, rows, text):
    glance = html.unescape(text.split('id="glance"')[1].split("</section>")[0])
    assert glance.count("<article>") == 3 and 'class="headlines"' not in text
    for one in findings(results.study, rows, {}):
        assert one["said"].format(*one["of"]) in glance
    # Of both fits, less what they give the intact model.
    assert "90.0\N{NO-BREAK SPACE}% [88.0, 92.0] of what decoder loses" in glance
    assert "recovers less, 10.0\N{NO-BREAK SPACE}% [8.0, 12.0]" in glance
    # To the figure, where the page has it.
    assert glance.count('href="#figure-rotary-masks"') == glance.count(">Figure ") == 2
    (number,) = set(re.findall(r"Figure (\d+)\.", glance))
    figure = text.split('<figure id="figure-rotary-masks">')[1].split("</figure>")[0]
    assert f"Figure {number}.</span>" in figure


def test_findings_stand_first_and_what_was_not_run_last(text):
    document = Document(text)
    sections = [one["attrs"]["id"] for one in document.all("section")]
    kinds = ["section" if name.startswith("section-") else name for name in sections]
    assert list(dict.fromkeys(kinds)) == [
        "glance", "section", "heads", "compare", "published", "further", "study", "made",
        "not-run",
    ]  # fmt: skip
    contents = [
        one["attrs"]["href"].removeprefix("#")
        for one in document.all("a")
        if any(outer["tag"] == "nav" for outer in one["within"])
    ]
    assert contents == sections


def test_the_header_says_that_texts_are_generated(results, text):
    header = html.unescape(re.sub("<[^>]+>", "", text.split("</header>")[0]))
    said = "These texts are synthetic, generated by the workflow: "
    assert f"{said}sample reviews, sample questions." in header
    study = copy.deepcopy(dict(results.study))
    study["datasets"]["sample_reviews"]["source"] = {"kind": "path", "path": "notes.txt"}
    assert generated(study) == ["sample_questions"]


def test_the_page_leads_to_the_documents_that_its_study_has():
    def leads_to(documents):
        return {one["title"]: one["href"] for one in ways_in(documents)}

    checkout = {
        "Documentation": "../../../site/index.html",
        "Repository": "../../../README.md",
    }
    assert leads_to([]) == checkout
    assert leads_to(["slides", "paper"]) == {
        "Paper": "paper.pdf", "Slides": "slides.pdf", **checkout,
    }  # fmt: skip


@pytest.mark.parametrize("part", ["loss", "start", "intact"])
def test_the_masks_of_an_encoder_have_no_loss_in_nats(text, part):
    labels = {
        (model, row[1])
        for (model, *_, quantity), row in cells(text).items()
        if quantity == f"conditions.masks.closed.{part}"
    }
    of_encoder = {label for model, label in labels if model == "minilm"}
    of_decoder = {label for model, label in labels if model == "decoder"}
    assert len(of_encoder) == len(of_decoder) == 1
    assert "cosine" in str(of_encoder) and "nats" not in str(of_encoder)
    assert "nats per token" in str(of_decoder)


@pytest.mark.parametrize("more", [0, 1])
def test_a_page_of_more_than_4_million_bytes_is_written_and_said(
    results, monkeypatch, tmp_path, capsys, more
):
    letters = 3_999_999 + more
    monkeypatch.setattr(step, "read", lambda *_: results)
    monkeypatch.setattr(step, "rows_of", lambda _: {})
    monkeypatch.setattr(
        page, "page", lambda *_: "\N{LATIN SMALL LETTER E WITH ACUTE}" + "x" * (letters - 1)
    )
    step.main(PUBLISHED, PUBLISHED, VERSIONS, tmp_path / "index.html", [])
    assert (tmp_path / "index.html").stat().st_size == 4_000_000 + more
    assert ("browsers open it slowly" in capsys.readouterr().err) == (more == 1)


@pytest.mark.parametrize("positions", WITHOUT)
def test_numbers_say_what_a_model_lacks_without_positions(results, rows, positions):
    """By its own kind of position, whatever the other models have."""
    study = results.study
    models = {**study["models"], "decoder": {**study["models"]["decoder"], "positions": positions}}
    made = headlines({**study, "models": models}, rows)
    texts = {one["title"]: one["text"] for one in made}
    assert list(texts) == [one.title for one in HEADLINES]
    assert WITHOUT[positions] in texts["Token cosine, decoder"]
    assert WITHOUT["table"] in texts["Token cosine, encoder"]
    assert not re.search(r"[{}]|none", "".join(texts.values()))
