"""Cleaning, storing, reading and selecting documents."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc.artifacts.files import (
    ArtifactError,
    DamagedError,
    sha256_file,
    write_checksums,
)
from posenc.artifacts.tables import write_table
from posenc.datasets.documents import read_documents, schema, select, write_documents
from posenc.datasets.errors import DatasetError
from posenc.datasets.parsing import clean, parse
from posenc.datasets.section import Evaluation, Text
from posenc.steps import documents as step

from .damage import flip, flips, found_and_marked
from .raw_files import REVIEWS, TEXT, archive, content, hub

# --- Cleaning -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variant", ["<br />", "<br/>", "<br>", "<BR />", "</br>", "<br  / >", "＜br/＞"]
)
def test_variants_of_a_break(variant):
    assert clean(f"a{variant}b", TEXT) == "a\nb"


def test_runs_of_breaks_become_one():
    text = "a. <br /><br />\t<br> b<br />c < br d"
    assert clean(text, TEXT) == "a.\nb\nc < br d"
    space = Text(line_breaks="space", normalization="none")
    assert clean(text, space) == "a. b c < br d"
    keep = Text(line_breaks="keep", normalization="none")
    assert clean(text, keep) == text


@given(st.text(), st.sampled_from(["NFC", "NFKC"]))
def test_normalization_is_unicodedatas(text, form):
    options = Text(line_breaks="keep", normalization=form)
    assert clean(text, options) == unicodedata.normalize(form, text)


@given(st.lists(st.text("aＡﬁ…é\u0301 "), min_size=1))
def test_a_clean_text_is_normal_and_has_no_break(parts):
    text = clean("<br />".join(parts), TEXT)
    assert unicodedata.is_normalized("NFKC", text)
    assert not re.search("<br", text)
    assert "\n\n" not in text


# --- documents.parquet --------------------------------------------------------------------------


@pytest.fixture
def documents(tmp_path) -> Path:
    raw = archive(tmp_path / "a.tar.gz", REVIEWS)
    path = tmp_path / "documents.parquet"
    write_documents(parse(raw, content("imdb")), path, content("imdb"), {"raw": "0" * 64})
    return path


def test_documents_are_read_as_written(documents):
    table = read_documents(documents)
    assert table.schema.equals(schema())
    assert table["text"].to_pylist() == ["zero", "bad\r\ntwo", "two", "Ten\nA", "seven"]
    assert table["rating"].to_pylist() == [4, 1, 10, 9, None]
    assert table["source"].null_count == 5
    # The other way in: pyarrow alone, which knows nothing of this package.
    assert pq.read_table(documents).to_pylist() == table.to_pylist()


def test_a_split_and_some_columns(documents):
    table = read_documents(documents, split="test", columns=["text", "document_id"])
    assert table.column_names == ["text", "document_id"]
    assert table["document_id"].to_pylist() == ["test/neg/2_1", "test/pos/2_10", "test/pos/10_9"]


def test_documents_say_who_made_them(documents):
    metadata = json.loads(pq.read_schema(documents).metadata[b"posenc"])
    assert metadata["schema_version"] == 1
    assert metadata["inputs"] == {"raw": "0" * 64}
    assert metadata["dataset"] == {
        "format": "imdb",
        "text": {"line_breaks": "newline", "normalization": "NFKC"},
    }


def test_the_same_documents_are_the_same_bytes(documents, tmp_path):
    again = tmp_path / "again.parquet"
    source = parse(tmp_path / "a.tar.gz", content("imdb"))
    assert write_documents(source, again, content("imdb"), {"raw": "0" * 64}) == 5
    assert again.read_bytes() == documents.read_bytes()


def test_every_flipped_byte_is_noticed(documents):
    """Data pages, which have checksums of their own, and all that lies around them."""
    for position in flips(documents, 0x04):
        with pytest.raises(DamagedError, match=re.escape(str(documents))) as caught:
            read_documents(documents)
        assert caught.value.path == documents, position
    assert len(read_documents(documents)) == 5


@pytest.mark.parametrize("length", [0, 3, 100, -1, -400])
def test_truncated_documents_are_an_error(documents, length):
    documents.write_bytes(documents.read_bytes()[:length])
    with pytest.raises(DamagedError, match=r"documents\.parquet does not match") as caught:
        read_documents(documents)
    assert caught.value.path == documents


def test_a_parquet_file_of_someone_else_is_an_error(tmp_path):
    """It is not removed: it is not damaged, and not ours."""
    other = hub(tmp_path / "other.parquet", {"text": ["a"]})
    tokens = tmp_path / "tokens.parquet"
    write_table(pa.table({"text": ["a"]}), tokens, {"schema": 1})
    for path, problem in (
        (other, "not written by this project"),
        (tokens, "its columns were altered.*delete it and rerun"),
    ):
        with pytest.raises(ArtifactError, match=problem) as caught:
            read_documents(path)
        assert not isinstance(caught.value, DamagedError)


def test_absent_documents_are_said_to_be_absent(tmp_path):
    with pytest.raises(ArtifactError, match=r"absent\.parquet does not exist") as caught:
        read_documents(tmp_path / "absent.parquet")
    assert not isinstance(caught.value, DamagedError)


@pytest.mark.parametrize("damaged", ["a.tar.gz", "a.tar.gz.json"])
def test_an_altered_raw_file_is_not_parsed(tmp_path, damaged):
    raw = archive(tmp_path / "a.tar.gz", REVIEWS)
    write_checksums(tmp_path / "a.tar.gz.json", "a.tar.gz")
    (tmp_path / "config.json").write_text(content("imdb").model_dump_json())
    options = {
        "config": tmp_path / "config.json",
        "raw": raw,
        "output": tmp_path / "out/documents.parquet",
    }
    step.main(**options)
    written = options["output"].read_bytes()
    assert json.loads(pq.read_schema(options["output"]).metadata[b"posenc"])["inputs"] == {
        "raw": {"name": "a.tar.gz", "sha256": sha256_file(raw)}
    }
    found_and_marked(flip(tmp_path / damaged), "posenc.steps.documents", **options)
    assert options["output"].read_bytes() == written


def test_an_error_midway_leaves_nothing(tmp_path):
    raw = archive(tmp_path / "a.tar.gz", {**REVIEWS, "aclImdb/test/pos/3_7.txt": b"<br />"})
    with pytest.raises(DatasetError, match="test/pos/3_7 has no text but line breaks"):
        write_documents(parse(raw, content("imdb")), tmp_path / "d", content("imdb"), {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


# --- Selection ----------------------------------------------------------------------------------


def rows(count: int, split: str = "test") -> pa.Table:
    return pa.table(
        {"document_id": [f"{split}/{n}" for n in range(count)], "split": [split] * count}
    )


def test_a_selection_is_random_ordered_and_without_replacement():
    table = pa.concat_tables([rows(50, "train"), rows(1000)])
    drawn = select(table, Evaluation(split="test", documents=100, seed=1))[
        "document_id"
    ].to_pylist()
    numbers = [int(name.removeprefix("test/")) for name in drawn]
    assert len(set(numbers)) == 100
    assert numbers == sorted(numbers)
    expected = np.sort(np.random.default_rng(1).choice(1000, 100, replace=False)).tolist()
    assert numbers == expected
    other = select(table, Evaluation(split="test", documents=100, seed=2))
    assert other["document_id"].to_pylist() != drawn


def test_all_documents_are_selected():
    table = rows(10)
    assert select(table, Evaluation(split="test", documents=None, seed=1)).equals(table)
    assert select(table, Evaluation(split="test", documents=10, seed=1)).equals(table)
    without = table.drop_columns("split")
    assert select(without, Evaluation(split="test", documents=10, seed=1)).equals(without)


def test_more_documents_than_there_are():
    with pytest.raises(
        DatasetError, match=r"^datasets.mine.evaluation asks for 11 .*, which has 10"
    ):
        select(rows(10), Evaluation(split="test", documents=11, seed=1), "datasets.mine.evaluation")
    with pytest.raises(DatasetError, match=r"'unsup', which has 0 documents.* another split"):
        select(rows(10), Evaluation(split="unsup", documents=None, seed=1))
