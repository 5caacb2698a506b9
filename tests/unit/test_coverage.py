"""Documents that are longer than a model reads: in the plan, the log, the numbers, the page."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from posenc.artifacts.files import write_checksums
from posenc.artifacts.tables import read_table, write_table
from posenc.cli import app
from posenc.config.labels import display, labelled
from posenc.datasets.documents import write_documents
from posenc.report import page, typeset
from posenc.study.cut import estimated, lines
from posenc.study.new import write_study
from posenc.study.params import load
from posenc.study.storage import tokens_path
from posenc.tokens.coverage import Coverage, coverage_of
from posenc.tokens.tokenize import tokenize, train_bpe
from tests.copies import copy_params

from . import synthetic
from .damage import call
from .raw_files import content
from .test_page import default, results_of  # noqa: F401  (a fixture)

WORDS = [
    "the",
    "old",
    "house",
    "by",
    "the",
    "sea",
    "was",
    "cold",
    "and",
    "we",
    "left",
    "it",
    "in",
    "spring",
]
TEXTS = [" ".join(WORDS), "the sea " * 40, "", "cold", "海辺の古い家は寒かった。" * 9]


@pytest.fixture(scope="module")
def bpe():
    return train_bpe([" ".join(WORDS)] * 5, 300)


def encoder(bpe):
    """The same tokenizer with two special tokens around each text, as BERT has them."""
    from tokenizers import Tokenizer, processors

    copy = Tokenizer.from_str(bpe.to_str())
    copy.add_special_tokens(["[CLS]", "[SEP]"])
    ends = [(name, copy.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    copy.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    return copy


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(TEXTS) | st.text(max_size=60), min_size=1, max_size=6),
    st.integers(4, 60),
    st.booleans(),
)
def test_what_is_left_out_is_what_the_library_makes_of_the_rest(bpe, texts, longest, is_decoder):
    """Counted by the library alone, without a limit and without special tokens."""
    tokenizer = bpe if is_decoder else encoder(bpe)
    whole = [len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    room = longest - (1 if is_decoder else 2)
    names = [str(number) for number in range(len(texts))]
    table = tokenize(tokenizer, names, texts, longest, is_decoder)
    assert table["left_out"].to_pylist() == [max(0, length - room) for length in whole]
    assert coverage_of(table) == Coverage(
        len(texts),
        sum(length > room for length in whole),
        sum(min(length, room) for length in whole),
        sum(whole),
    )
    unlimited = tokenize(tokenizer, names, texts, None, is_decoder)
    assert coverage_of(unlimited) == Coverage(len(texts), 0, sum(whole), sum(whole))


@pytest.mark.parametrize(
    ("coverage", "said"),
    [
        (Coverage(3, 2, 518, 2_500_016), "2 of 3 documents cut, 0.0207 % of the tokens read"),
        (Coverage(1200, 1100, 3, 4), "1,100 of 1,200 documents cut, 75 % of the tokens read"),
        (Coverage(5, 0, 9, 9), "0 of 5 documents cut, 100 % of the tokens read"),
        (Coverage(5, 1, 99_999, 100_000), "1 of 5 documents cut, 99.9 % of the tokens read"),
        (Coverage(1, 0, 0, 0), "0 of 1 documents cut, 100 % of the tokens read"),
    ],
)
def test_coverage_in_words(coverage, said):
    assert str(coverage) == said


def test_the_estimate_is_exact_where_tokens_have_four_bytes():
    assert estimated([400, 40, 8], 12, None) == Coverage(3, 1, 10 + 10 + 2, 100 + 10 + 2)
    # Half of them are drawn.
    assert estimated([400, 400, 40, 40], 12, 2) == Coverage(2, 1, 20, 110)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """The shipped parameters, with a study of a file whose documents are too long."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    copy_params(Path())
    notes = tmp_path / "notes.txt"
    notes.write_text("a" * 400_000 + "\n" + "b" * 400_000 + "\nshort\n")
    write_study(Path("params.yaml"), "mine", "minilm", notes)
    return tmp_path / "project"


def test_the_plan_says_what_is_cut(project, bpe):
    params = load(Path("params.yaml"), {"study": "mine"})
    room = params.models["minilm"].max_tokens - 2
    share = (2 * room + 1.25) / (200_000 + 1.25)
    (line,) = lines(params)
    assert line.startswith("minilm on mine (estimated): 2 of 3 documents cut, ")
    assert float(re.search(r", (\S+) %", line)[1]) == pytest.approx(100 * share, rel=0.01)
    # Once there are tokens, they are counted.
    table = tokenize(bpe, ["a", "b"], ["the sea " * 99, "cold"], 9, True)
    write_table(table, tokens_path(params, "minilm", "mine"), {})
    assert list(lines(params)) == [f"minilm on mine: {coverage_of(table)}"]
    assert coverage_of(table).cut == 1


def test_what_is_not_cut_is_not_told_before_a_run(project):
    notes = project.parent / "short.txt"
    notes.write_text("One.\nTwo.\n")
    write_study(Path("params.yaml"), "brief", "minilm", notes)
    assert list(lines(load(Path("params.yaml"), {"study": "brief"}))) == []


def test_check_says_what_is_cut(project):
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(re.sub(r"(?m)^study: .*$", "study: mine", text))
    Path("dvc.yaml").write_text((synthetic.PROJECT / "dvc.yaml").read_text())
    done = CliRunner().invoke(app, ["check"])
    assert "  minilm on mine (estimated): 2 of 3 documents cut, " in done.output


def test_the_log_says_what_is_cut(tmp_path, bpe):
    rows = [
        {"document_id": name, "split": "test", "text": text}
        for name, text in (("a", "the sea " * 40), ("b", "cold"))
    ]
    write_documents(rows, tmp_path / "documents/mine.parquet", content("text"), {})
    bpe.save(str(tmp_path / "tokenizer.json"))
    write_checksums(tmp_path / "checksums.json", "tokenizer.json")
    text = {
        "dataset": "mine",
        "reading": {"family": "gpt2", "max_tokens": 11},
        "evaluation": {"split": "test", "documents": None, "seed": 0},
    }
    (tmp_path / "job.json").write_text(json.dumps({"texts": {"mine": text}}))
    options = {
        "config": tmp_path / "job.json",
        "tokenizer": tmp_path / "tokenizer.json",
        "documents": tmp_path / "documents",
        "output": tmp_path / "tokens",
    }
    whole = len(bpe.encode("the sea " * 40).ids)
    rest = len(bpe.encode("cold").ids)
    said = str(Coverage(2, 1, 10 + rest, whole + rest))
    for ending in (f"mine.parquet: {said}", f"mine.parquet is current and is kept: {said}"):
        done = call("posenc.steps.tokenize", **options)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines()[-1].endswith(ending)
    assert coverage_of(read_table(tmp_path / "tokens/mine.parquet")[0]).cut == 1


def planted(results):
    """A different coverage for each model and data set."""
    expected = {}
    for place, measurement in enumerate(results.of("conditions")):
        cut = 0 if place == 1 else place + 2
        values = {"documents": 40, "cut": cut, "read": 300 + place, "whole": 1000}
        measurement["coverage"] = values
        expected[measurement["run"]["model"], measurement["run"]["dataset"]] = Coverage(**values)
    return expected


def test_the_numbers_say_what_is_cut(default):  # noqa: F811
    results = copy.deepcopy(results_of(default[1]))
    expected = planted(results)
    numbers = typeset.numbers_json(results)
    for (model, dataset), coverage in expected.items():
        own = {
            key: numbers[f"{model}.{dataset}.coverage.{key}"]["value"]
            for key in ("documents", "cut", "tokens", "share")
        }
        assert own == {
            "documents": 40,
            "cut": coverage.cut,
            "tokens": coverage.read,
            "share": coverage.read / 1000,
        }


def test_the_table_of_data_sets_says_what_is_cut(default):  # noqa: F811
    results = copy.deepcopy(results_of(default[1]))
    expected = planted(results)
    with labelled(results.study["labels"]):
        notes = [
            line for line in typeset.table_tex(results, "datasets").splitlines() if "cut" in line
        ]
        assert len(notes) == sum(coverage.cut > 0 for coverage in expected.values())
        for (model, dataset), counts in expected.items():
            said = (
                rf"\num{{{counts.cut}}} of \num{{40}} documents cut, "
                rf"\qty{{{counts.percent}}}{{\percent}}"
            )
            own = [
                line for line in notes if f"{display(model)}, {display(dataset)}: {said}" in line
            ]
            assert len(own) == (counts.cut > 0)
    for measurement in results.of("conditions"):
        measurement["coverage"]["cut"] = 0
    assert "cut" not in typeset.table_tex(results, "datasets")


def test_the_page_shows_it_in_words(default):  # noqa: F811
    """The made-up documents of each run are cut: 12 of 40, and 6,000 of 8,000 tokens are read."""
    _, written, _, text = default
    results = results_of(written)
    runs = [measurement["run"] for measurement in results.of("conditions")]
    said = "12 of 40 documents cut, 75 % of the tokens read"
    plain = re.sub(r"<[^>]+>", "", text)
    of_study = plain.partition("What is read of them")[2].partition("Activations are kept")[0]
    assert of_study.count(said) == len(runs)
    assert plain.count(said) > len(runs)  # beside figures
    for name, is_of_documents in {"layer_similarity": True, "position_regression": False}.items():
        exhibit = text.partition(f'<div class="exhibit" data-figure="{name}">')[2]
        assert exhibit
        own = exhibit.partition('<div class="exhibit"')[0]
        assert ("Documents are cut" in own) == is_of_documents, name


def test_the_page_says_what_is_cut_beside_each_figure(default):  # noqa: F811
    results = copy.deepcopy(results_of(default[1]))
    expected = planted(results)
    coverage = page.coverages(results)
    assert {run: (shown["cut"], shown["percent"]) for run, shown in coverage.items()} == {
        run: (f"{counts.cut:,}", counts.percent) for run, counts in expected.items()
    }
    of_figures = {
        "position_layers": {"minilm", "decoder", "decoder_2"},
        "recovered_share": {"decoder", "decoder_2"},
        "rotary_masks": {"smollm2"},
        "scaling": set(),
    }
    for figure, models in of_figures.items():
        said = {
            (row["model"], row["dataset"]) for row in page.cut_behind(results, figure, coverage)
        }
        cut = {run for run, counts in expected.items() if counts.cut and run[0] in models}
        assert said == cut, figure
    assert {model for model, _ in expected} >= {"minilm", "decoder", "smollm2"}
