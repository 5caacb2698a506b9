"""One's own files: read as what they are, whatever they are called, or refused with the cure."""

from __future__ import annotations

import contextlib
import gzip

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posenc.datasets import imdb, lines, truthfulqa
from posenc.datasets.documents import read_documents
from posenc.datasets.errors import DatasetError
from posenc.datasets.fetch import checksum_of
from posenc.datasets.parsing import PARSERS, parse
from posenc.datasets.raw_file import RawFile
from posenc.datasets.section import Content, Dataset, HubSource, Origin, PathSource, UrlSource

from .damage import call
from .own_files import (
    COMPRESSIONS,
    csv_bytes,
    json_array,
    json_lines,
    parquet_bytes,
    zip_bytes,
    zstd,
)
from .raw_files import REVIEWS, archive, content

EXAMPLES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
TEXT = st.text(CHARACTERS, min_size=1, max_size=30).filter(str.strip)
TEXTS = st.lists(TEXT, min_size=1, max_size=5)
NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=40
).filter(lambda name: name.strip(".") and len(name.encode()) < 200)
MISLEADING = st.sampled_from(
    ["a.txt", "b.parquet", "c.csv.gz", "d.zip", "e", "日本 語'\";&$#{},.json"]
)
COLUMNS = st.sampled_from(["text", "本文", "the text", "a.b", "Text"])
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"])


def texts_of(path, column=None) -> list[str]:
    named = None if column == "text" else column
    return [document["text"] for document in lines.parse(path, named)]


def written(folder, name: str, body: bytes):
    path = folder / name
    path.write_bytes(body)
    return path


# --- Formats --------------------------------------------------------------------------------------


@EXAMPLES
@given(
    TEXTS, COLUMNS, MISLEADING, ENCODINGS, st.sampled_from(sorted(COMPRESSIONS)),
    st.sampled_from([",", "\t", ";"]), st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_a_table_of_values_is_read_as_one(
    tmp_path, texts, column, name, encoding, packed, delimiter, end, is_quoted, is_alone, has_blank
):
    rows = [{column: text} if is_alone else {"id": 7, column: text, "note": ""} for text in texts]
    body = csv_bytes(
        rows, delimiter=delimiter, end=end, is_quoted=is_quoted, encoding=encoding,
        blank=end if has_blank else "",
    )  # fmt: skip
    path = written(tmp_path, name, COMPRESSIONS[packed](body))
    assert texts_of(path, column) == texts


@EXAMPLES
@given(
    TEXTS, COLUMNS, MISLEADING, ENCODINGS, st.sampled_from(sorted(COMPRESSIONS)),
    st.sampled_from(["lines", "lines in ASCII", "array", "array on one line"]),
)  # fmt: skip
def test_json_is_read_as_such(tmp_path, texts, column, name, encoding, packed, form):
    rows = [{"id": 7, column: text, "more": {"a": [1]}} for text in texts]
    body = {
        "lines": lambda: json_lines(rows, encoding),
        "lines in ASCII": lambda: json_lines(rows, encoding, is_ascii=True),
        "array": lambda: json_array(rows, encoding),
        "array on one line": lambda: json_array(rows, encoding, indent=None),
    }[form]()
    path = written(tmp_path, name, COMPRESSIONS[packed](body))
    assert texts_of(path, column) == texts


@EXAMPLES
@given(
    TEXTS, COLUMNS, MISLEADING, st.sampled_from(sorted(COMPRESSIONS)),
    st.sampled_from([
        None, pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()),
    ]),
)  # fmt: skip
def test_parquet_is_read_as_such(tmp_path, texts, column, name, packed, kind):
    body = parquet_bytes([{"id": 7, column: text} for text in texts], kind)
    path = written(tmp_path, name, COMPRESSIONS[packed](body))
    assert texts_of(path, column) == texts
    # It says itself which column holds text.
    assert texts_of(path) == texts


@EXAMPLES
@given(
    st.lists(st.text(CHARACTERS, max_size=20), min_size=1, max_size=5), NAMES, ENCODINGS,
    st.sampled_from(sorted(COMPRESSIONS)), st.sampled_from(["\n", "\r\n", "\r"]),
)  # fmt: skip
def test_lines_of_prose_are_documents(tmp_path, texts, name, encoding, packed, end):
    """Commas, quotation marks and brackets in sentences make no table of them."""
    texts = [f"“{text}”, she said." for text in texts]
    texts = [" ".join(text.split("\n")).replace("\r", " ") for text in texts]
    body = (end.join(texts) + end).encode(encoding)
    path = written(tmp_path, name, COMPRESSIONS[packed](body))
    assert texts_of(path) == texts


@pytest.mark.parametrize(
    "line",
    [
        '"Hello," she said.',
        "[Music] A song, of old.",
        "{sic} It was, so to say, cold.",
        "a, b, c",
        "Hello, you",
        "Yes,no.",
    ],
)
def test_prose_is_no_table(tmp_path, line):
    path = written(tmp_path, "notes.csv", f"{line}\nWell, then.\n{line}\n".encode())
    assert texts_of(path) == [line, "Well, then.", line]


def test_a_single_column_may_hold_commas_without_quotation_marks(tmp_path):
    path = written(tmp_path, "a.csv", b"text\nHello, world\nBye\n")
    assert texts_of(path) == ["Hello, world", "Bye"]


def test_a_table_that_is_longer_than_what_is_looked_at(tmp_path):
    texts = [f"Line {number}, the first,\nand the second." for number in range(5000)]
    body = csv_bytes([{"number": 1, "body": text} for text in texts])
    assert texts_of(written(tmp_path, "a", body), "body") == texts
    with pytest.raises(DatasetError, match=r"has no column 'text' \(it has 'number', 'body'\)"):
        texts_of(tmp_path / "a")


def test_rows_without_any_value_are_counted(tmp_path):
    raw = RawFile(written(tmp_path, "a.csv", b"text,label\nOne,1\n,\n , \n\nTwo,0\n"))
    assert [document["text"] for document in lines.parse(raw)] == ["One", "Two"]
    assert list(raw.notes()) == [f"{raw}: skipped rows without a value (2)"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_rows_name_their_split(tmp_path, form):
    rows = [{"text": "a", "split": "train"}, {"text": "b", "split": "test"}]
    body = {"csv": csv_bytes, "jsonl": json_lines, "parquet": parquet_bytes}[form](rows)
    documents = list(lines.parse(written(tmp_path, "a", body)))
    assert [(document["split"], document["document_id"]) for document in documents] == [
        ("train", "train/0000000"),
        ("test", "test/0000000"),
    ]
    wrong = {"csv": csv_bytes, "jsonl": json_lines, "parquet": parquet_bytes}[form](
        [*rows, {"text": "c", "split": "dev"}]
    )
    with pytest.raises(DatasetError, match=r"(line 4|line 3|row 3) has the split 'dev'"):
        list(lines.parse(written(tmp_path, "b", wrong)))


# --- Labelled reviews and questions ---------------------------------------------------------------

LABELLED = [
    {"review": "Good.<br />", "sentiment": "positive"},
    {"review": "Bad,\nreally.", "sentiment": "negative"},
]


@pytest.mark.parametrize("packed", sorted(COMPRESSIONS))
@pytest.mark.parametrize("write", [csv_bytes, json_lines, json_array, parquet_bytes])
def test_a_table_of_reviews_has_labels(tmp_path, write, packed):
    path = written(tmp_path, "archive.zip", COMPRESSIONS[packed](write(LABELLED)))
    assert [
        (document["text"], document["label"], document["split"]) for document in imdb.parse(path)
    ] == [
        ("Good.<br />", "pos", "test"),
        ("Bad,\nreally.", "neg", "test"),
    ]


@pytest.mark.parametrize(
    ("value", "label"),
    [(0, "neg"), (1, "pos"), (-1, None), ("0", "neg"), ("Positive", "pos"), (" neg ", "neg")],
)
def test_labels_mean_the_same_in_words_and_numbers(tmp_path, value, label):
    path = written(tmp_path, "a", parquet_bytes([{"body": "x", "stars": value}]))
    (document,) = imdb.parse(path, "body", "stars")
    assert document["label"] == label


def test_the_hubs_own_file_of_reviews(tmp_path):
    """Without a column of splits, as the hub has them: a file a split."""
    path = written(
        tmp_path, "a", parquet_bytes([{"text": "a", "label": 0}, {"text": "b", "label": 1}])
    )
    assert [tuple(document.values()) for document in imdb.parse(path)] == [
        ("test/00000", "test", "a", "neg"),
        ("test/00001", "test", "b", "pos"),
    ]


QUESTIONS = [
    {
        "type": "Adversarial", "category": "Rows", "question": "Who, then?", "best_answer": "Anna",
        "correct_answers": ["Anna", "It was Anna"], "incorrect_answers": ["Boris"], "source": "",
    }
]  # fmt: skip


@pytest.mark.parametrize("write", [json_lines, json_array, parquet_bytes])
def test_the_hubs_own_file_of_questions(tmp_path, write):
    (document,) = truthfulqa.parse(written(tmp_path, "a", write(QUESTIONS)))
    assert document["text"] == "Who, then?" and document["split"] == "validation"
    assert document["correct_answers"] == ["Anna", "It was Anna"]


@pytest.mark.parametrize("packed", sorted(COMPRESSIONS))
def test_a_zip_of_the_archive_is_the_archive(tmp_path, packed):
    expected = list(imdb.parse(archive(tmp_path / "a.tar.gz", REVIEWS)))
    path = written(tmp_path, "reviews", COMPRESSIONS[packed](zip_bytes(REVIEWS)))
    assert list(imdb.parse(path)) == expected


JUNK = {
    "aclImdb/.DS_Store": b"\x00\x01",
    "aclImdb/test/.DS_Store": b"\x00",
    "aclImdb/test/pos/._2_10.txt": b"\x00",
    "aclImdb/test/pos/Thumbs.db": b"\x00",
    "__MACOSX/aclImdb/test/pos/3_9.txt": b"\x00",
}
NOTE = "skipped .DS_Store (2), ._* (1), Thumbs.db (1), __MACOSX (1)"


def test_what_systems_leave_behind_is_skipped_and_counted(tmp_path):
    expected = list(imdb.parse(archive(tmp_path / "a.tar.gz", REVIEWS)))
    archive(tmp_path / "b.tar.gz", {**JUNK, **REVIEWS})
    written(tmp_path, "b.zip", zip_bytes({**JUNK, **REVIEWS}))
    for name in ("b.tar.gz", "b.zip"):
        raw = RawFile(tmp_path / name)
        assert list(imdb.parse(raw)) == expected
        assert list(raw.notes()) == [f"{raw}: {NOTE}"]


# --- Folders and archives of text -----------------------------------------------------------------


def test_each_file_of_a_folder_is_a_document(tmp_path):
    folder = tmp_path / "my notes"
    for name, body in {"b.txt": "two\r\nlines\n", "a/日記.md": "one", ".DS_Store": "\0"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body.encode())
    raw = RawFile(folder)
    documents = list(lines.parse(raw))
    assert [(document["file"], document["text"]) for document in documents] == [
        ("a/日記.md", "one"),
        ("b.txt", "two\nlines"),
    ]
    assert list(raw.notes()) == [f"{folder}: skipped .DS_Store (1)"]
    body = zip_bytes({"a/日記.md": b"one", "b.txt": b"two\nlines"})
    packed = list(lines.parse(written(tmp_path, "z", body)))
    assert [document["text"] for document in packed] == ["one", "two\nlines"]


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("a.pdf", b"%PDF-1.7", r"a\.pdf is a PDF, and a folder holds plain text, or tables"),
        ("a.zip", zip_bytes({"a": b"b"}), r"a\.zip is ZIP, and a folder holds plain text"),
        ("a.txt", b"ok\nno\x00\n", r"a\.txt, line 2, holds a NUL character \(character 3\)"),
        ("a.txt", b"ok\ncaf\xe9\n", r"a\.txt, line 2, holds the byte 0xe9"),
        ("a.txt", b" \n", r"a\.txt is empty"),
    ],
)
def test_a_file_of_a_folder_that_is_no_text_is_named(tmp_path, name, body, message):
    (tmp_path / "texts").mkdir()
    written(tmp_path / "texts", name, body)
    with pytest.raises(DatasetError, match=rf"^{tmp_path}/texts: {message}"):
        list(lines.parse(tmp_path / "texts"))


TABLES = {
    "a.csv": lambda rows: csv_bytes(rows),
    "b.jsonl": lambda rows: json_lines(rows),
    "c/d.parquet": lambda rows: parquet_bytes(rows),
    "e.json": lambda rows: json_array(rows),
}


@given(st.lists(TEXTS, min_size=1, max_size=4), st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_folder_or_zip_of_tables_is_all_their_rows(tmp_path_factory, parts, is_zip):
    folder = tmp_path_factory.mktemp("tables")
    files = {
        name: make([{"id": 1, "body": text} for text in texts])
        for (name, make), texts in zip(TABLES.items(), parts, strict=False)
    }
    for name, body in files.items():
        (folder / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "data" / name).write_bytes(body)
    path = written(folder, "data.zip", zip_bytes(files)) if is_zip else folder / "data"
    documents = list(lines.parse(path, "body"))
    assert [document["text"] for document in documents] == [
        text for texts in parts for text in texts
    ]
    assert len({document["document_id"] for document in documents}) == len(documents)


def test_a_fault_of_a_table_in_an_archive_names_both(tmp_path):
    rows = [{"id": 1, "review": "One."}, {"id": 2, "review": ""}]
    path = written(tmp_path, "archive.zip", zip_bytes({"IMDB Dataset.csv": csv_bytes(rows)}))
    with pytest.raises(DatasetError, match=r"archive\.zip/IMDB Dataset\.csv has no column 'text'"):
        list(lines.parse(path))
    message = r"archive\.zip/IMDB Dataset\.csv: line 3, column 'review' is empty; give it a text"
    with pytest.raises(DatasetError, match=message):
        list(lines.parse(path, "review"))


@pytest.mark.parametrize("names", [("a.csv", "b.txt"), ("b.csv", "a.txt")])
def test_texts_and_tables_are_not_mixed(tmp_path, names):
    for name, body in zip(names, (b"text,n\nOne.,1\n", b"A text.\n"), strict=True):
        written(tmp_path, name, body)
    first, second = sorted(names)
    with pytest.raises(DatasetError, match=rf"{second} is .+, and {first} is .+ of their own"):
        list(lines.parse(tmp_path))


def test_a_column_of_a_folder_of_texts_is_refused(tmp_path):
    written(tmp_path, "a.txt", b"A text.\n")
    with pytest.raises(DatasetError, match="has no table, and column: names 'body'"):
        list(lines.parse(tmp_path, "body"))


# --- Faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"fine\nno\x00\n", r"line 2 holds a NUL character \(character 3\); remove it"),
        ("fine\nalso fine\n".encode("utf-16-le"), "line 1 holds NUL .* UTF-16 without a mark"),
        ("fine\nalso fine\n".encode("utf-16-be"), "line 1 holds NUL .* UTF-16 without a mark"),
        ("文書\n".encode("utf-16-le"), "line 1 holds the byte"),
        (b"\xff\xfef\x00\x00\xd8f\x00", "line 1 or one soon after it is no text"),
        (b"text,label\nx,\x00\n", r"line 2, column 'label' holds a NUL character"),
        (b'text,label\n"a\nb",1\nc\xe9,1\n', r"line 4, column 'text' holds the byte 0xe9"),
        (b'text,label\n"a\nb",1\nc\n', r"line 4 has 1 field, and the first line names 2; put"),
        (b'text,label\n"a\nb",1\n"c,2\n', "line 4 begins a row that cannot be read .*; close"),
        (b'text,label\n"a" b,1\n', "line 2 begins a row that cannot be read"),
        (b"text,text\na,b\n", "has the column 'text' more than once"),
        (b"text,label\n,1\n", r"line 2, column 'text' is empty; give it a text, or remove the row"),
        (b"caf\xe9,text\na,b\n", "line 1 holds the byte 0xe9"),
        (b'{"text": "a"}\n{"text": "b", "text": "c"}\n', "line 2: the key 'text' stands twice"),
        (b'{"text": "a"}\n\n{"id": 1}\n', r"line 3 has no 'text' \(it has 'id'\)"),
        (b'{"text": "a"}\n{"text": 1}\n', "line 2, column 'text' holds 1, which is no text"),
        (b'{"text": "a"} {"text": "b"}\n', r"line 1 is not JSON \(Extra data, character 15\)"),
        (b'{"text": "\xe9"}\n', "line 1 holds the byte 0xe9"),
        (b'{"a": 1}\n', r"has no column 'text' \(it has 'a'\): name the one with the text as"),
        (b'{\n "data": [\n  1\n ]\n}', r"is one JSON object with the keys 'data'; write an array"),
        (b'[\n {"text": "a"},\n {"text": "b",\n  "text": "c"}]', r"row 2 \(line 3\): the key "),
        (b'[{"text": "a"}\n {"text": "b"}]', r"row 1 \(line 1\) is followed neither by a comma"),
        (b'[{"text": "a"},\n]', r"row 2 \(line 2\) is not JSON"),
        (b'[{"text": "a"}] x', "line 1 ends the array, and more follows"),
        (b'[{"text": "a"},\n{"text": 3}]', r"row 2 \(line 2\), column 'text' holds 3"),
        (b'["a",\n "b"]', r"row 1 \(line 1\) must be an object"),
        (parquet_bytes([{"text": "a"}, {"text": None}]), "row 2, column 'text' is empty"),
        (parquet_bytes([{"text": b"a"}]), "row 1, column 'text' holds b'a', which is no text"),
        (parquet_bytes([{"a": "x", "b": "y"}]), r"no column 'text' \(it has 'a', 'b'\)"),
        (parquet_bytes([{"text": "a"}])[:-9], "is truncated or corrupt"),
        (gzip.compress(b"some text\n", mtime=0)[:-5], r"is truncated or corrupt \(.*\); get it"),
        (zstd(b"some text\n")[:-3], r"is truncated or corrupt \(.*\); get it again"),
        (b"%PDF-1.7 x", "is a PDF, which is not read; save its text as UTF-8 text, CSV"),
        (zip_bytes({"[Content_Types].xml": b"", "word/document.xml": b"x"}), "office program"),
        (zip_bytes({"reviews.csv": b"a,b\nc,d\n"}), r"/reviews\.csv has no column 'text'"),
        (b"", "holds no document"),
    ],
)
def test_a_fault_is_named_with_its_place_and_the_cure(tmp_path, body, message):
    source = PathSource(kind="path", path="../my notes.txt", sha256="0" * 64)
    raw = RawFile.of_source(source, "mine", written(tmp_path, "raw", body))
    with pytest.raises(DatasetError, match=message) as caught:
        list(lines.parse(raw))
    said = str(caught.value)
    # The user's own file, not the copy of it.
    assert said.startswith("../my notes.txt") and str(tmp_path) not in said
    assert (
        said.endswith("and run `posenc repin mine`") or "more than once" in said or "--col" in said
    )


@pytest.mark.parametrize(
    ("source", "cure"),
    [
        (PathSource(kind="path", path="../a", sha256="0" * 64),
         r"^\.\./a: line 1 .*; remove it, and run `posenc repin mine`$"),
        (UrlSource(kind="url", url="https://e.invalid/a", sha256="0" * 64),
         r"^https://e\.invalid/a: line 1 .*; name another one under datasets\.mine\.source in par"),
        (HubSource(kind="hub", id="a/b", revision="0" * 40),
         r"^a/b at 0{40}: line 1 .*; delete \S+/raw and run again, which fetches it, or name"),
    ],
)  # fmt: skip
def test_a_cure_is_one_that_works(tmp_path, source, cure):
    """Only what comes from the hub, whose export has no checksum, may be better the next time."""
    raw = RawFile.of_source(source, "mine", written(tmp_path, "raw", b"some text\x00"))
    with pytest.raises(DatasetError, match=cure):
        list(lines.parse(raw))


def test_plain_text_has_no_columns(tmp_path):
    path = written(tmp_path, "a.csv", b"Some words.\nMore of them.\n")
    with pytest.raises(DatasetError, match=r"is plain text .*column: names 'body': leave out"):
        texts_of(path, "body")


@EXAMPLES
@given(
    st.sampled_from(sorted(PARSERS)),
    st.sampled_from([
        b"", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PAR1", b"[", b'[{"text": "a"}',
        b'{"',
        b"text,label\n", b"\xff\xfe", b"\xef\xbb\xbf", b"Question\n", b"review\tsentiment\n",
    ]),
    st.binary(max_size=200),
)  # fmt: skip
def test_any_bytes_are_read_or_refused(tmp_path, format, start, rest):
    path = written(tmp_path, "raw", start + rest)
    try:
        for document in parse(path, content(format)):
            assert document["text"].strip()
    except DatasetError as error:
        assert "\n" not in str(error)


@EXAMPLES
@given(st.data())
def test_what_is_cut_short_anywhere_is_refused_or_shorter(tmp_path, data):
    rows = [{"text": f"text {number}", "label": number % 2} for number in range(50)]
    write = data.draw(st.sampled_from([csv_bytes, json_lines, json_array, parquet_bytes]))
    pack = COMPRESSIONS[data.draw(st.sampled_from(sorted(COMPRESSIONS)))]
    whole = pack(write(rows))
    path = written(tmp_path, "raw", whole[: data.draw(st.integers(0, len(whole) - 1))])
    with contextlib.suppress(DatasetError):
        texts = [document["text"] for document in imdb.parse(path)]
        *complete, last = texts or [""]
        expected = [row["text"] for row in rows]
        assert complete == expected[: len(complete)]
        assert expected[len(complete)].startswith(last)


# --- The steps ------------------------------------------------------------------------------------


def fetched(folder, path, format: str, **columns):
    """The workflow's copy of a file, under a name that says nothing, and what its job reads."""
    config = folder / "config/mine"
    config.mkdir(parents=True)
    source = PathSource(kind="path", path=str(path), sha256=checksum_of(path))
    (config / "fetch.json").write_text(Origin(format=format, source=source).model_dump_json())
    section = Content(format=format, text=content(format).text, **columns)
    (config / "documents.json").write_text(section.model_dump_json())
    copy = folder / "raw"
    done = call("posenc.steps.fetch", name="mine", config=config / "fetch.json", output=copy)
    assert done.returncode == 0, done.stderr
    return copy, config / "documents.json"


def documents_step(folder, copy, config):
    return call(
        "posenc.steps.documents", config=config, raw=copy, output=folder / "documents.parquet"
    )


@pytest.mark.parametrize("form", ["csv", "zip", "folder"])
def test_the_steps_read_whatever_it_is_called(tmp_path, form):
    if form == "folder":
        path = tmp_path / "my notes"
        path.mkdir()
        for name in ("1.txt", "2.txt", ".DS_Store"):
            (path / name).write_text(f"Text of {name}")
        expected, columns = ["Text of 1.txt", "Text of 2.txt"], {}
    elif form == "zip":
        files = {name: name.encode() for name in ("1.txt", "2.txt", "__MACOSX/._1.txt")}
        path = written(tmp_path, "notes.csv", zip_bytes(files))
        expected, columns = ["1.txt", "2.txt"], {}
    else:
        path = written(
            tmp_path, "notes.zip", gzip.compress("本文,id\n一つ目,1\n二つ目,2\n".encode())
        )
        expected, columns = ["一つ目", "二つ目"], {"column": "本文"}
    copy, config = fetched(tmp_path, path, "text", **columns)
    done = documents_step(tmp_path, copy, config)
    assert done.returncode == 0, done.stderr
    assert f"{path}: 2 documents" in done.stderr
    assert read_documents(tmp_path / "documents.parquet")["text"].to_pylist() == expected
    assert ("skipped __MACOSX (1)" in done.stderr) == (form == "zip")


def test_an_error_of_a_step_names_the_users_file(tmp_path):
    path = written(tmp_path, "my notes.csv", b"text,label\nfine,1\n,0\n")
    copy, config = fetched(tmp_path, path, "text")
    done = documents_step(tmp_path, copy, config)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {path}: line 3, column 'text' is empty; give it a text, or remove the row, and "
        f"run `posenc repin mine`\n"
    )


def test_what_a_finder_leaves_changes_no_checksum(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    before = checksum_of(folder)
    (folder / ".DS_Store").write_bytes(b"\x00")
    assert checksum_of(folder) == before
    (folder / "b.txt").write_text("two")
    assert checksum_of(folder) != before


def test_documents_made_without_columns_say_nothing_of_them():
    """A data set that names none thus has the same documents as before, byte for byte."""
    assert set(content("text").model_dump()) == {"format", "text"}
    named = Content(format="text", text=content("text").text, column="本文")
    assert named.model_dump()["column"] == "本文" and "label" not in named.model_dump()


@pytest.mark.parametrize(
    ("format", "columns", "message"),
    [
        ("truthfulqa", {"column": "q"}, "column is 'q', but format: truthfulqa names no column"),
        ("text", {"label": "l"}, "label is 'l', but format: text names no column: .* format: imdb"),
    ],
)
def test_columns_are_of_tables_alone(format, columns, message):
    split = "validation" if format == "truthfulqa" else "test"
    with pytest.raises(ValueError, match=message):
        Dataset(
            format=format,
            text=content(format).text,
            **columns,
            source={"kind": "path", "path": "a", "sha256": "0" * 64},
            evaluation={"split": split, "documents": None, "seed": 0},
        )
