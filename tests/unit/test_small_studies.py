"""The page and the numbers of a study without documents are about that study, and nothing else."""

from __future__ import annotations

import copy
import dataclasses
import html
import json
import re

import pytest

from posenc.artifacts.numbers import NotRun, Number
from posenc.report import page
from posenc.report.asked import is_asked
from posenc.report.collection import collect
from posenc.report.comparison import compare
from posenc.report.gathered import read
from posenc.report.page_rows import rows_of
from posenc.report.records import Place
from posenc.report.typeset import numbers_json
from posenc.study import plan

from . import synthetic

COSINE = "minilm.sample_reviews.zero.similarity.last.cosine"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of a study with documents, of one encoder."""
    written = synthetic.write_inputs(tmp_path_factory.mktemp("study"), "default", ["minilm"])
    root = synthetic.PROJECT
    published, versions = root / "paper/published.yaml", root / "docs/mask-versions.json"
    return read(written["study"], published, versions, synthetic.measured(written))


@pytest.fixture(scope="module")
def small(whole):
    """The same without documents; its first data set is the user's own file."""
    study = copy.deepcopy(dict(whole.study))
    study["documents"] = []
    study["datasets"]["sample_reviews"] |= {
        "format": "text",
        "source": {"kind": "path", "path": "../my notes.txt", "sha256": "0" * 64},
    }
    return dataclasses.replace(whole, study=study, verifications={"minilm": synthetic.VERIFIED})


@pytest.fixture(scope="module")
def text(small):
    return page.page(small, rows_of(small), [], "data")


def part(text: str, name: str) -> str:
    return text.split(f'<section id="{name}"')[1].split("</section>")[0]


def test_the_cosine_that_was_measured_opens_the_page(small, text):
    glance = part(text, "glance")
    number = collect(small)[COSINE]
    assert page.shown(number)["value"] in glance and "not run" not in glance
    assert "no reviews" not in text and "none (" not in glance


def test_a_study_without_such_numbers_has_no_such_part(small):
    assert page.headlines(small.study, {}) == []


def test_a_model_whose_states_are_not_kept_has_no_cosine(small):
    """As every model of a survey."""
    study = {**small.study, "study": {**small.study["study"], "captured": []}}
    kept = [
        measurement
        for measurement in small.measurements
        if measurement["measurement"] != "similarity"
    ]
    results = dataclasses.replace(small, study=study, measurements=kept)
    titles = [one["title"] for one in page.headlines(small.study, rows_of(small))]
    assert "Token cosine, encoder" in titles
    assert page.headlines(study, rows_of(results)) == []  # nor any other that is made of states


def test_documents_tokens_and_the_path_are_said(small, text):
    run = html.unescape(part(text, "study"))
    assert "../my notes.txt" in run
    coverage = next(measurement["coverage"] for measurement in small.of("conditions"))
    for size in (coverage["documents"], coverage["read"]):
        assert f"{size:,}" in run


def test_how_a_model_compares_with_the_library_is_said(text):
    models = html.unescape(re.sub("<[^>]+>", "", part(text, "study")))
    assert (
        "Compared with transformers 5.1.0 run alone: 2 checks, largest difference 3.2 × 10⁻⁷."
        in models
    )
    assert "Not available: loss: it has no head." in models
    assert "its positions are a table" not in models


def test_what_the_paper_would_speak_of_is_not_missed(small, whole, text):
    reasons = part(text, "not-run")
    for role in ("decoder", "rotary decoder", "questions"):
        assert f"no {role} in this study" not in text
    said = re.sub(r"(?s)<script.*?</script>", "", text)  # whose list of Japanese has all of it
    assert "the text of the documents" not in said and "minilm is not trained here" not in text
    assert "minilm has no language-model head" in reasons, "a measurement's own reason stays"
    with_documents = page.page(whole, rows_of(whole), [], "data")
    assert "the text of the documents" in with_documents


def test_no_published_value_of_another_model_is_shown(small, whole):
    every = page.published(whole, collect(whole), rows_of(whole))
    own = page.published(small, collect(small), rows_of(small))
    assert (
        {row["remark"] for row in own["rows"]}
        <= {"same model"}
        < {row["remark"] for row in every["rows"]} | {"same model"}
    )
    assert {name for name, _ in own["sources"]} == {row["source"] for row in own["rows"]}


def test_every_number_of_its_file_was_measured(small, whole):
    own, every = numbers_json(small), numbers_json(whole)
    assert own and all("value" in entry for entry in own.values())
    assert any("not_run" in entry for entry in every.values())
    measured = {key: entry for key, entry in every.items() if "value" in entry}
    assert own.items() <= measured.items()
    files = collect(whole, roles=False).places
    assert {key for key in measured.keys() - own.keys() if files[key].files} == set()


def test_a_record_with_reasons_agrees_with_a_file_without():
    record = {"a": {"value": 1, "shown": "1"}, "b": {"not_run": "no decoder in this study"}}
    comparison = compare(record, {"a": record["a"]})
    assert (comparison.agreeing, comparison.lacking) == (["a"], [])
    assert compare(record, {"b": record["b"]}).lacking == ["a"]


@pytest.mark.parametrize(
    ("place", "entry", "is_kept"),
    [
        (Place("m", files=("f",), quantity="loss"), Number(1), True),
        (Place("m", quantity="count"), Number(0), False),
        (Place("m", files=("f",), quantity="loss"), NotRun("no head"), True),
        (Place("m", quantity="loss"), NotRun("no decoder in this study"), False),
        (Place("m", files=("f",), measurement="categories", quantity="n"), NotRun("none"), False),
        (Place("m", files=("f",), quantity="masks.a.loss"), NotRun("no mask"), False),
        (Place("m", measurement="probes", quantity="all"), NotRun("a table alone"), True),
    ],
)
def test_what_a_study_asks_for(place, entry, is_kept):
    assert is_asked({"documents": []}, place, entry) == is_kept
    assert is_asked({"documents": ["paper"]}, place, entry)


def test_the_words_of_the_page_have_a_japanese_form(text):
    words = json.loads(re.search(r'id="japanese">(.+?)</script>', text)[1])
    spoken = re.findall(r'<span class="t" data-words="(.+?)"', text)
    assert spoken
    for said in spoken:
        assert html.unescape(said) in words


def test_measurements_without_subjects_are_not_listed():
    params = synthetic.params_of("questions")
    listed = [name for name in params.study.measured if plan.has_files(params, name)]
    assert ("training" in listed) == bool(params.study.trained)
    assert ("scheme_probes" in listed) == bool(params.study.schemes)
    assert "similarity" in listed
