"""The examples of data sets in docs/studies.md are read as the page says."""

from __future__ import annotations

import io
import re
import tarfile

from posenc.datasets import imdb, lines, truthfulqa
from tests.copies import ROOT

BLOCKS = dict(
    re.findall(r"(?s)```(jsonl|csv|tree)\n(.*?)```", (ROOT / "docs/studies.md").read_text())
)


def test_there_is_an_example_of_each_format():
    assert set(BLOCKS) == {"jsonl", "csv", "tree"}


def test_an_object_per_line(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text(BLOCKS["jsonl"])
    assert [row["split"] for row in lines.parse(path)] == ["train", "test"]


def test_questions_whose_unread_columns_are_empty(tmp_path):
    path = tmp_path / "questions.csv"
    path.write_text(BLOCKS["csv"])
    first, second = truthfulqa.parse(path)
    assert first["text"] == "Does Monday come before Tuesday?"
    assert first["best_answer"] == "Yes, it does."
    assert first["incorrect_answers"] == ["No", "Only in May"]
    assert second["correct_answers"] == ["Of salt water"] and second["source"] == ""


def test_an_archive_of_reviews(tmp_path):
    path = tmp_path / "reviews.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in BLOCKS["tree"].split():
            member = tarfile.TarInfo(name)
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    found = {row["file"]: (row["split"], row["label"], row["rating"]) for row in imdb.parse(path)}
    assert found == {
        "aclImdb/train/pos/0_9.txt": ("train", "pos", 9),
        "aclImdb/train/neg/0_2.txt": ("train", "neg", 2),
        "aclImdb/train/unsup/0_0.txt": ("unsup", None, None),
        "aclImdb/test/pos/0_8.txt": ("test", "pos", 8),
        "aclImdb/test/neg/0_3.txt": ("test", "neg", 3),
    }
