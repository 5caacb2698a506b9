"""The examples of data sets in docs/studies.md are read as the page says."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from posenc.datasets import imdb, lines, truthfulqa
from posenc.datasets.errors import DatasetError
from posenc.datasets.fetch import check_path, fetch
from posenc.datasets.section import PathSource
from tests.copies import ROOT

PAGE = (ROOT / "docs/studies.md").read_text()
BLOCKS: dict[str, str] = {}
for kind, text in re.findall(r"(?s)```(jsonl|csv|tree)\n(.*?)```", PAGE):
    BLOCKS[f"{kind}, shorter" if kind in BLOCKS else kind] = text
REVIEWS = {
    "aclImdb/train/pos/0_9.txt": ("train", "pos", 9),
    "aclImdb/train/neg/0_2.txt": ("train", "neg", 2),
    "aclImdb/train/unsup/0_0.txt": ("unsup", None, None),
    "aclImdb/test/pos/0_8.txt": ("test", "pos", 8),
    "aclImdb/test/neg/0_3.txt": ("test", "neg", 3),
}
"""What the example of reviews holds."""


def test_there_is_an_example_of_each_format():
    assert set(BLOCKS) == {"jsonl", "csv", "csv, shorter", "tree"}


def test_an_object_per_line(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text(BLOCKS["jsonl"])
    assert [row["split"] for row in lines.parse(path)] == ["train", "test"]


def test_questions_with_answers(tmp_path):
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
    assert described(path) == REVIEWS


def described(path: Path) -> dict:
    return {row["file"]: (row["split"], row["label"], row["rating"]) for row in imdb.parse(path)}


def test_questions_alone(tmp_path):
    path = tmp_path / "questions.csv"
    path.write_text(BLOCKS["csv, shorter"])
    rows = list(truthfulqa.parse(path))
    assert [row["text"] for row in rows] == [
        "Does Monday come before Tuesday?",
        "Is the sea made of salt, or of water?",
    ]
    assert all(row.keys() == {"document_id", "split", "text"} for row in rows)


@pytest.fixture
def folder(tmp_path) -> Path:
    """The example reviews as a folder of another name, with files that are no reviews."""
    reviews = tmp_path / "reviews/aclImdb"
    junk = [".DS_Store", "train/pos/._0_9.txt", "test/Thumbs.db", "__MACOSX/a", "desktop.ini"]
    others = ["a file", "train/words.feat", *junk]
    for name in [*BLOCKS["tree"].split(), *(f"aclImdb/{name}" for name in others)]:
        path = tmp_path / "reviews" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return reviews.rename(tmp_path / "mine")


def source_of(folder: Path, sha256: str = "") -> PathSource:
    """The folder as a source, with the checksum that the command of the page prints."""
    (line,) = re.findall(r"(?m)^cd \S+ && (find .*)$", PAGE)
    printed = subprocess.check_output(["bash", "-c", line], cwd=folder, text=True)
    return PathSource(kind="path", path=str(folder), sha256=sha256 or printed.split()[0])


def test_a_folder_of_reviews(folder, tmp_path):
    source = source_of(folder)
    check_path(source, "imdb", "mine")
    fetch(source, "imdb", tmp_path / "once.tar.gz", name="mine")
    fetch(source, "imdb", tmp_path / "again.tar.gz", name="mine")
    assert described(tmp_path / "once.tar.gz") == REVIEWS
    assert (tmp_path / "once.tar.gz").read_bytes() == (tmp_path / "again.tar.gz").read_bytes()


@pytest.mark.parametrize("change", ["content", "another file", "another name"])
def test_a_folder_that_changed_is_noticed(folder, tmp_path, change):
    source, review = source_of(folder), folder / "test/pos/0_8.txt"
    if change == "content":
        review.write_text("another text")
    elif change == "another file":
        review.with_name("1_8.txt").write_text("one more")
    else:
        review.rename(review.with_name("0_7.txt"))
    now = source_of(folder).sha256
    for look in (
        lambda: check_path(source, "imdb", "mine"),
        lambda: fetch(source, "imdb", tmp_path / "a.tar.gz", name="mine"),
    ):
        with pytest.raises(DatasetError, match=rf"sha256 {now}, but datasets\.mine\.source\.sha"):
            look()
    assert not (tmp_path / "a.tar.gz").exists()


def test_a_folder_that_cannot_be_read_is_explained(folder, tmp_path):
    source = source_of(folder, "0" * 64)
    with pytest.raises(DatasetError, match=r"is a folder, which format: truthfulqa does not read"):
        fetch(source, "truthfulqa", tmp_path / "a.txt")
    above = PathSource(kind="path", path=str(folder / "train"), sha256="0" * 64)
    with pytest.raises(DatasetError, match=r"has no review in train/pos, .* that holds train and"):
        fetch(above, "imdb", tmp_path / "a.tar.gz")
    (folder / "test/pos/1_8.txt").symlink_to(folder / "test/pos/0_8.txt")
    for look in (check_path, lambda *of: fetch(source, "imdb", tmp_path / "a.tar.gz")):
        with pytest.raises(DatasetError, match=r"1_8\.txt is a symbolic link"):
            look(source, "imdb", "mine")
