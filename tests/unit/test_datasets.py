"""Parsing raw files: the published formats, the hub's exports, damaged ones, the real ones."""

from __future__ import annotations

import collections
import csv
import gzip
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posenc.artifacts.files import write_checksums
from posenc.datasets import imdb, lines, text_files, truthfulqa
from posenc.datasets.documents import read_documents, write_documents
from posenc.datasets.errors import DatasetError
from posenc.datasets.generated.sample import imdb_archive, truthfulqa_csv
from posenc.datasets.members import HEADER_BYTES
from posenc.datasets.parsing import parse
from posenc.datasets.section import Content

from .damage import call
from .raw_files import REVIEWS, archive, content, hub

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("POSENC_SHARED", ROOT / ".." / "shared")) / "data"
HEADER = "Type,Category,Question,Best Answer,Correct Answers,Incorrect Answers,Source"


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"the real data is not here: {path} (POSENC_SHARED names another folder)")
    return path


# --- IMDB ---------------------------------------------------------------------------------------


def test_reviews_have_their_identity_and_order(tmp_path):
    documents = list(imdb.parse(archive(tmp_path / "a.tar.gz", REVIEWS)))
    identities = [
        (d["document_id"], d["split"], d["label"], d["rating"], d["file"]) for d in documents
    ]
    assert identities == [
        ("train/neg/0_4", "train", "neg", 4, "aclImdb/train/neg/0_4.txt"),
        ("test/neg/2_1", "test", "neg", 1, "aclImdb/test/neg/2_1.txt"),
        ("test/pos/2_10", "test", "pos", 10, "aclImdb/test/pos/2_10.txt"),
        ("test/pos/10_9", "test", "pos", 9, "aclImdb/test/pos/10_9.txt"),
        ("unsup/7_0", "unsup", None, None, "aclImdb/train/unsup/7_0.txt"),
    ]
    assert documents[1]["text"] == "bad\r\ntwo"
    assert documents[3]["text"] == "Ten<br /><br />Ａ"


def test_the_order_is_not_that_of_the_archive(tmp_path):
    forwards = list(imdb.parse(archive(tmp_path / "a.tar.gz", REVIEWS)))
    backwards = list(imdb.parse(archive(tmp_path / "b.tar.gz", dict(reversed(REVIEWS.items())))))
    assert forwards == backwards


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.99, 0.9999])
def test_a_truncated_archive_is_an_error(tmp_path, share):
    # Random text: what compresses well would be whole long before its end.
    noise = {f"aclImdb/test/pos/{n}_7.txt": os.urandom(2000).hex().encode() for n in range(20)}
    path = archive(tmp_path / "a.tar.gz", noise)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(
        DatasetError,
        match=r"a\.tar\.gz (is truncated .*; get it again|has no rev|is plain)",
    ):
        list(imdb.parse(path))


def test_damage_anywhere_in_an_archive_is_noticed_or_harmless(tmp_path):
    path = archive(tmp_path / "a.tar.gz", REVIEWS)
    whole, expected = path.read_bytes(), list(imdb.parse(path))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DatasetError):
            list(imdb.parse(path))
    # After gzip's header, whose time and name mean nothing. A flip may still be harmless: in the
    # bits that fill the last byte, or in a distance that points at other zeros.
    positions = range(whole.index(b"\x00", 10) + 1, len(whole))
    noticed = 0
    for position in positions:
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        try:
            assert list(imdb.parse(path)) == expected
        except DatasetError:
            noticed += 1
    assert noticed > 0.95 * len(positions)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"other/test/pos/0_7.txt": b"x"}, r"has no review in aclImdb/\{train,test\}/\{pos,neg\}"),
        ({"aclImdb/test/pos/nine.txt": b"x"}, r"test/pos/nine\.txt is not named ID_RATING\.txt"),
        ({"aclImdb/test/pos/1_11.txt": b"x"}, r"1_11\.txt is not named .* 0 to 10"),
        ({"aclImdb/test/pos/1_7.md": b"x"}, r"1_7\.md is not named"),
        ({"aclImdb/test/pos/1_7.txt": b"caf\xe9!"}, r"1_7\.txt, line 1, is not UTF-8 \(byte 3"),
        ({"aclImdb/test/pos/1_7.txt": b" \n"}, r"1_7\.txt is empty"),
        ({"aclImdb/test/pos/1_7.txt": b"x", "./aclImdb/test/pos/1_7.txt": b"y"}, "1_7.txt twice"),
    ],
)
def test_an_archive_of_another_make_is_explained(tmp_path, files, message):
    with pytest.raises(DatasetError, match=message) as caught:
        list(imdb.parse(archive(tmp_path / "a.tar.gz", files)))
    assert "a.tar.gz" in str(caught.value)


def with_member(path: Path, **fields) -> Path:
    """An archive of a review and of one more member, which has only a header."""
    with tarfile.open(path, "w:gz") as writer:
        first = tarfile.TarInfo("aclImdb/test/pos/0_7.txt")
        first.size = 4
        writer.addfile(first, io.BytesIO(b"good"))
        member = tarfile.TarInfo()
        for field, value in fields.items():
            setattr(member, field, value)
        writer.addfile(member)
    return path


def test_a_review_that_would_fill_the_memory_is_not_read(tmp_path):
    """Its header says how large it is: what follows, here nothing, is not read."""
    path = with_member(tmp_path / "a.tar.gz", name="aclImdb/test/pos/1_7.txt", size=600_000_000)
    with pytest.raises(DatasetError, match=r"1_7\.txt has 600,000,000 .* raise REVIEW_BYTES in"):
        list(imdb.parse(path))
    # What is no review is passed over.
    path = with_member(tmp_path / "b.tar.gz", name="aclImdb/labeledBow.feat", size=600_000_000)
    with pytest.raises(DatasetError, match="truncated"):
        list(imdb.parse(path))


@pytest.mark.parametrize(("limit", "largest"), [("REVIEW_BYTES", 10), ("REVIEWS_BYTES", 24)])
def test_reviews_up_to_the_limits_are_read(tmp_path, monkeypatch, limit, largest):
    files = {f"aclImdb/test/pos/{n}_7.txt": b"x" * n for n in (8, 6, 10)}
    path = archive(tmp_path / "a.tar.gz", files)
    monkeypatch.setattr(imdb, limit, largest)
    assert len(list(imdb.parse(path))) == 3
    monkeypatch.setattr(imdb, limit, largest - 1)
    with pytest.raises(DatasetError, match=rf"10_7\.txt ha.* more than the .* raise {limit} in"):
        list(imdb.parse(path))


def test_other_files_of_an_archive_may_have_any_size(tmp_path):
    files = {"aclImdb/imdb.vocab": b"x" * 3 * HEADER_BYTES, **REVIEWS}
    documents = list(imdb.parse(archive(tmp_path / "a.tar.gz", files)))
    assert documents == list(imdb.parse(archive(tmp_path / "b.tar.gz", REVIEWS)))


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_header_that_would_fill_the_memory_is_not_read(tmp_path, format):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=format) as writer:
        writer.addfile(tarfile.TarInfo(f"aclImdb/{'x' * 3 * HEADER_BYTES}"))
    with pytest.raises(DatasetError, match=r"a\.tar\.gz has more than .* bytes of headers"):
        list(imdb.parse(path))


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"type": tarfile.SYMTYPE, "linkname": "../neg/0_1.txt"}, "a symbolic link"),
        ({"type": tarfile.SYMTYPE, "linkname": "/etc/hostname"}, "a symbolic link"),
        ({"type": tarfile.LNKTYPE, "linkname": "aclImdb/test/pos/0_7.txt"}, "a hard link"),
        ({"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}, "a device"),
        ({"type": tarfile.BLKTYPE}, "a device"),
        ({"type": tarfile.FIFOTYPE}, "a named pipe"),
        ({"type": tarfile.DIRTYPE}, "a folder"),
        ({"type": b"Z"}, "of another kind"),
        # Pax, version 0.1: one byte of data at place 0 of a file of 10^12 bytes.
        (
            {"pax_headers": {"GNU.sparse.map": "0,1", "GNU.sparse.size": "1000000000000"}},
            "a sparse file",
        ),
    ],
)
@pytest.mark.parametrize("name", ["aclImdb/test/pos/1_7.txt", "aclImdb/other"])
def test_what_is_no_plain_file_is_named(tmp_path, name, fields, kind):
    path = with_member(tmp_path / "a.tar.gz", name=name, **fields)
    if kind == "a folder" and name == "aclImdb/other":
        assert len(list(imdb.parse(path))) == 1
        return
    with pytest.raises(DatasetError, match=rf"a\.tar\.gz: {name} is {kind}, .* or without"):
        list(imdb.parse(path))


def test_what_is_no_archive_is_an_error(tmp_path):
    (tmp_path / "page.tar.gz").write_text("<html>not here</html>")
    with pytest.raises(DatasetError, match=r"page\.tar\.gz is plain text"):
        list(imdb.parse(tmp_path / "page.tar.gz"))


def test_the_hubs_export_of_reviews(tmp_path):
    columns = {
        "text": ["u", "t0", "r", "t1"],
        "label": [-1, 0, 1, 1],
        "split": ["unsupervised", "test", "train", "test"],
    }
    documents = list(imdb.parse(hub(tmp_path / "hub.parquet", columns)))
    assert [tuple(d.values()) for d in documents] == [
        ("train/00000", "train", "r", "pos"),
        ("test/00000", "test", "t0", "neg"),
        ("test/00001", "test", "t1", "pos"),
        ("unsup/00000", "unsup", "u", None),
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"text": ["a"], "split": ["test"]},
            r"no column 'label' or 'sentiment' \(it has 'text', 'split'\)",
        ),
        ({"text": ["a"], "label": [3], "split": ["test"]}, "row 1, column 'label' holds 3"),
        ({"text": ["a"], "label": [1], "split": ["dev"]}, "has the split 'dev'"),
        ({"text": [" "], "label": [1], "split": ["test"]}, "row 1, column 'text' is empty"),
        (
            {"text": ["a", "b"], "label": [-1, -1], "split": ["unsup", "unsupervised"]},
            "has the splits 'unsup' and 'unsupervised', which are two names of one",
        ),
    ],
)
def test_a_hub_export_of_another_make_is_explained(tmp_path, columns, message):
    with pytest.raises(DatasetError, match=message):
        list(imdb.parse(hub(tmp_path / "hub.parquet", columns)))


def test_a_hub_export_with_a_column_twice_is_explained(tmp_path):
    table = pa.table([["a"], ["b"], [1], ["test"]], names=["text", "text", "label", "split"])
    pq.write_table(table, tmp_path / "hub.parquet")
    with pytest.raises(DatasetError, match="has the column 'text' more than once"):
        list(imdb.parse(tmp_path / "hub.parquet"))


def test_a_truncated_hub_export_is_an_error(tmp_path):
    path = hub(tmp_path / "hub.parquet", {"text": ["a"], "label": [1], "split": ["test"]})
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DatasetError, match=r"hub\.parquet is truncated or corrupt"):
        list(imdb.parse(path))


# --- TruthfulQA ---------------------------------------------------------------------------------


def test_questions_have_their_fields(tmp_path):
    path = tmp_path / "q.csv"
    row = (
        'Adversarial,Rows,"Who, then?",Anna,Anna; It was Anna;,Boris;  Clara ; ,https://e.invalid/'
    )
    path.write_bytes(f"\ufeff{HEADER}\n{row}".encode())
    assert list(truthfulqa.parse(path)) == [
        {
            "document_id": "validation/0000",
            "split": "validation",
            "text": "Who, then?",
            "type": "Adversarial",
            "category": "Rows",
            "best_answer": "Anna",
            "correct_answers": ["Anna", "It was Anna"],
            "incorrect_answers": ["Boris", "Clara"],
            "source": "https://e.invalid/",
        }
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (HEADER.replace(",Question", "").encode(), "has no column 'Question'"),
        (b"", "has no column 'Question'"),
        (HEADER.replace("Best Answer", "best_answer").encode(), "'best_answer', .* 'Best Answer'"),
        (HEADER.replace("Question", " question").encode(), "' question', .* 'Question': rename"),
        (HEADER.encode(), "holds no question"),
        (
            f"{HEADER}\na,b,c,d,e,f,g\na,b, ,d,e,f,g\n".encode(),
            "line 3, .*'Question' is empty",
        ),
        (f"{HEADER},Question\na,b,c,d,e,f,g,h\n".encode(), "the column 'Question' more than once"),
        (f"{HEADER},Note,Note\na,b,c,d,e,f,g,h,i\n".encode(), "the column 'Note' more than once"),
        (f"{HEADER}\na,b,c,d\n".encode(), r"line 2 has 4 fields, and the first line names 7"),
        (f"{HEADER}\na,b,c,d,e,f,g,h\n".encode(), "line 2 has 8 fields"),
        (f'{HEADER}\na,b,"c,d,e,f,g\n'.encode(), "line 2 begins a row that cannot be read"),
        (
            f"{HEADER}\na,b,caf\xe9,d,e,f,g\n".encode("latin-1"),
            r"line 2, column 'Question' holds the byte 0xe9 \(character 4\)",
        ),
    ],
)
def test_a_csv_of_another_make_is_explained(tmp_path, body, message):
    path = tmp_path / "q.csv"
    path.write_bytes(body)
    with pytest.raises(DatasetError, match=message) as caught:
        list(truthfulqa.parse(path))
    assert "q.csv" in str(caught.value)


def test_columns_without_a_name_are_no_column_twice(tmp_path):
    """Programs for tables end lines with commas."""
    path = tmp_path / "q.csv"
    path.write_text(f"{HEADER},,\na,b,c,d,e,f,g,,\n")
    assert [document["text"] for document in truthfulqa.parse(path)] == ["c"]


def test_the_hubs_export_of_questions_is_the_csvs(tmp_path):
    path = tmp_path / "q.csv"
    path.write_bytes(truthfulqa_csv(1, {"validation": 12}))
    expected = list(truthfulqa.parse(path))
    names = {"text": "question"}
    columns = {
        names.get(field, field): [document[field] for document in expected]
        for field in expected[0]
        if field != "document_id"
    }
    assert list(truthfulqa.parse(hub(tmp_path / "hub.parquet", columns))) == expected


# --- The step and the real data -----------------------------------------------------------------


def run_step(directory: Path, raw: Path, section: Content) -> subprocess.CompletedProcess:
    config = directory / "documents.json"
    config.write_text(section.model_dump_json())
    write_checksums(raw.with_name(f"{raw.name}.json"), raw.name)
    output = directory / "out" / "documents.parquet"
    return call("posenc.steps.documents", config=config, raw=raw, output=output)


def test_the_step_writes_a_sample(tmp_path):
    raw = tmp_path / "aclImdb_v1.tar.gz"
    raw.write_bytes(imdb_archive(1, {"train": 4, "test": 2, "unsup": 1}))
    result = run_step(tmp_path, raw, content("imdb"))
    assert result.returncode == 0, result.stderr
    table = read_documents(tmp_path / "out" / "documents.parquet")
    assert collections.Counter(table["split"].to_pylist()) == {"train": 4, "test": 2, "unsup": 1}
    schema = pq.read_schema(tmp_path / "out" / "documents.parquet")
    inputs = json.loads(schema.metadata[b"posenc"])["inputs"]
    assert inputs["raw"]["name"] == "aclImdb_v1.tar.gz"


def test_the_step_ends_with_one_line_and_nothing_partial(tmp_path):
    raw = tmp_path / "a.tar.gz"
    raw.write_bytes(gzip.compress(b"no archive")[:-1])
    result = run_step(tmp_path, raw, content("imdb"))
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {raw} is truncated or corrupt")
    assert result.stderr.count("\n") == 1
    assert not list((tmp_path / "out").glob("*"))


def test_a_wrong_section_ends_with_one_line(tmp_path):
    (tmp_path / "bad.json").write_text('{"format": "imdb"}')
    options = {"config": tmp_path / "bad.json", "raw": tmp_path / "none", "output": tmp_path / "o"}
    result = call("posenc.steps.documents", **options)
    assert result.returncode == 1
    assert result.stderr.startswith(
        f"error: {tmp_path / 'bad.json'} is not a Content section (text"
    )


def test_the_real_questions(tmp_path):
    path = shared("TruthfulQA.csv")
    documents = list(truthfulqa.parse(path))
    assert len(documents) == 817
    types = collections.Counter(document["type"] for document in documents)
    assert types == {"Adversarial": 437, "Non-Adversarial": 380}
    with open(path, encoding="utf-8", newline="") as file:
        expected = [row["Question"] for row in csv.DictReader(file)]
    assert [document["text"] for document in documents] == expected
    assert [document["document_id"] for document in documents][::816] == [
        "validation/0000",
        "validation/0816",
    ]
    for document in documents:
        assert document["correct_answers"] and document["incorrect_answers"]
    output = tmp_path / "documents.parquet"
    assert write_documents(parse(path, content("truthfulqa")), output, content("truthfulqa"), {})
    assert read_documents(output).num_rows == 817


def test_the_real_reviews():
    cells = collections.Counter()
    ratings = collections.Counter()
    identities = set()
    for document in imdb.parse(shared("aclImdb_v1.tar.gz")):
        cells[document["split"], document["label"]] += 1
        ratings[document["label"], document["rating"]] += 1
        identities.add(document["document_id"])
    assert cells == {
        ("train", "pos"): 12_500,
        ("train", "neg"): 12_500,
        ("test", "pos"): 12_500,
        ("test", "neg"): 12_500,
        ("unsup", None): 50_000,
    }
    assert set(ratings) == {(None, None)} | {
        *(("pos", stars) for stars in range(7, 11)),
        *(("neg", stars) for stars in range(1, 5)),
    }
    assert len(identities) == 100_000


def test_lines_of_plain_text_are_documents(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("\ufeffFirst one.\r\n\n  \n二つ目の文書。\nno newline at the end", "utf-8")
    documents = list(lines.parse(path))
    assert [document["text"] for document in documents] == [
        "First one.",
        "二つ目の文書。",
        "no newline at the end",
    ]
    assert [document["document_id"] for document in documents] == [
        "test/0000000",
        "test/0000001",
        "test/0000002",
    ]


def test_lines_of_json_name_their_split(tmp_path):
    path = tmp_path / "mine.jsonl"
    rows = [{"text": "a\nb", "split": "train"}, {"text": "c", "more": 1}, {"text": "d"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [
        (document["split"], document["document_id"], document["text"])
        for document in lines.parse(path)
    ] == [
        ("train", "train/0000000", "a\nb"),
        ("test", "test/0000000", "c"),
        ("test", "test/0000001", "d"),
    ]


def test_the_hubs_export_of_texts(tmp_path):
    path = tmp_path / "hub.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "split": ["test", "train"], "id": [1, 2]}), path)
    assert [(document["split"], document["text"]) for document in lines.parse(path)] == [
        ("train", "b"),
        ("test", "a"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b" \n\n", "holds no document; write one per line"),
        ("a.txt", b"ok\ncaf\xe9\n", r"line 2 holds the byte 0xe9 \(character 4\), which"),
        ("a.txt", b"x" * 101, r"a\.txt: line 1 is longer than 100 characters"),
        ("a.jsonl", b'{"text": "a"}\n{"text"\n', r"a\.jsonl: line 2 is not JSON"),
        ("a.jsonl", b"[" * 90, r"a\.jsonl: row 1 \(line 1\) is not JSON"),
        ("a.jsonl", b'["a"]', r"row 1 \(line 1\) must be an object with a text"),
        ("a.jsonl", b'{"text": 1}', r"line 1, column 'text' holds 1, which is no text"),
        ("a.jsonl", b'{"text": "a", "split": "dev"}', "line 1 has the split 'dev', and the"),
        ("a.jsonl", b'{"text": "\\ud800"}', r"line 1, column 'text' holds half a character"),
        ("a.jsonl", b'{"text": " "}', "line 1, column 'text' is empty"),
    ],
)
def test_lines_of_another_make_are_explained(tmp_path, monkeypatch, name, content, message):
    monkeypatch.setattr(text_files, "LINE_BYTES", 100)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        list(lines.parse(tmp_path / name))
