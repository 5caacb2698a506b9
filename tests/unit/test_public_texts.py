"""Published data sets are known by their documents, whatever file holds them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posenc.datasets import public
from posenc.datasets.errors import DatasetError
from posenc.datasets.fetch import fetch
from posenc.datasets.parsing import parse
from posenc.datasets.raw_file import RawFile
from posenc.datasets.section import Content, PublicSource, Text
from tests.budget import PATIENCE
from tests.copies import copy_params

from .synthetic import PROJECT

REVIEWS = {
    "train/pos/0_9.txt": "A good one.<br />Twice.",
    "train/neg/0_2.txt": "A bad one.",
    "train/unsup/0_0.txt": "Of any kind.",
    "test/pos/0_8.txt": "Seen again.",
    "test/pos/10_10.txt": "Ｗide letters.",
    "test/neg/2_1.txt": "Never.",
}
QUESTIONS = [("Who?", "Nobody.", "He; she"), ("What, then?", 'A "thing".', "None")]
PLAIN = Text(line_breaks="keep", normalization="none")


def archive(
    path: Path, files: dict[str, str], mode: str = "w:gz", more: tuple[str, ...] = ()
) -> Path:
    """Reviews in the published layout, in the given order, and files other than reviews."""
    with tarfile.open(path, mode) as tar:
        for name, text in [*files.items(), *((name, "0:1 1:4") for name in more)]:
            data = text.encode()
            header = tarfile.TarInfo(f"aclImdb/{name}")
            header.size, header.mtime = len(data), len(files)
            tar.addfile(header, io.BytesIO(data))
    return path


def csv(path: Path, questions=QUESTIONS) -> Path:
    rows = ["Question,Best Answer,Correct Answers"]
    rows += [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in questions]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def of(path: Path, format: str = "imdb") -> str:
    return public.digest(RawFile(path), format)[0]


def source(path: Path | None, known: str, url: str = "http://127.0.0.1:9/a.tar.gz") -> PublicSource:
    given = None if path is None else str(path)
    return PublicSource(kind="public", url=url, contents=known, path=given)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def serving(folder: Path):
    """A local server of a folder, in place of the publisher's."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# --- What counts ---------------------------------------------------------------------------------


def test_the_checksum_is_of_identities_splits_and_texts(tmp_path):
    """Computed here from the reviews alone, in the order of reading."""
    path = archive(tmp_path / "a.tar.gz", REVIEWS)
    split = {"train/unsup/0_0.txt": "unsup"}
    listing, seen = hashlib.sha256(), set()
    for document in parse(RawFile(path), Content(format="imdb", text=PLAIN)):
        name = document["file"].removeprefix("aclImdb/")
        seen.add(name)
        line = [document["document_id"], split.get(name, name.partition("/")[0]), REVIEWS[name]]
        listing.update(f"{json.dumps(line)}\n".encode())
    assert seen == set(REVIEWS)
    assert public.digest(RawFile(path), "imdb") == (listing.hexdigest(), 6)


def test_how_reviews_are_packed_does_not_count(tmp_path):
    known = of(archive(tmp_path / "a.tar.gz", REVIEWS))
    backwards = dict(reversed(REVIEWS.items()))
    bags = ("train/labeledBow.feat", "test/labeledBow.feat", "imdbEr.txt", "README")
    assert of(archive(tmp_path / "b.tar.gz", backwards, more=bags)) == known
    assert of(archive(tmp_path / "c.tar", REVIEWS, "w")) == known
    with zipfile.ZipFile(tmp_path / "e.zip", "w") as packed:
        for name, text in backwards.items():
            packed.writestr(f"aclImdb/{name}", text)
    assert of(tmp_path / "e.zip") == known


def renamed(name: str) -> dict[str, str]:
    """The reviews, the last under another name."""
    return {**{key: text for key, text in REVIEWS.items() if text != "Never."}, name: "Never."}


@pytest.mark.parametrize(
    "other",
    [
        {**REVIEWS, "test/neg/2_1.txt": "Never!"},
        {**REVIEWS, "test/pos/10_10.txt": "Wide letters."},
        {**REVIEWS, "train/pos/0_9.txt": "A good one.<br/>Twice."},
        {name: text for name, text in REVIEWS.items() if "10_10" not in name},
        {**REVIEWS, "test/pos/3_9.txt": "One more."},
        renamed("test/neg/2_2.txt"),
        renamed("train/neg/2_1.txt"),
    ],
    ids=["a letter", "its form", "a tag", "one less", "one more", "a rating", "a split"],
)
def test_other_documents_have_another_checksum(tmp_path, other):
    assert of(archive(tmp_path / "a.tar.gz", REVIEWS)) != of(archive(tmp_path / "b.tar.gz", other))


def test_questions_are_known_as_csv_and_as_parquet(tmp_path):
    known = of(csv(tmp_path / "q.csv"), "truthfulqa")
    table = pa.table(
        {
            "question": [question for question, _, _ in QUESTIONS],
            "best_answer": [answer for _, answer, _ in QUESTIONS],
        }
    )
    pq.write_table(table, tmp_path / "validation-00000-of-00001.parquet")
    assert of(tmp_path / "validation-00000-of-00001.parquet", "truthfulqa") == known
    assert of(csv(tmp_path / "r.csv", QUESTIONS[::-1]), "truthfulqa") != known


# --- Where it comes from -------------------------------------------------------------------------


def fetched(here: Path, given: PublicSource, name: str = "reviews") -> set[str]:
    target = here / "data/raw/raw"
    fetch(given, "imdb", target, name=name)
    assert [path.name for path in target.parent.iterdir()] == ["raw"]
    return {
        document["text"] for document in parse(RawFile(target), Content(format="imdb", text=PLAIN))
    }


def test_the_place_on_this_machine_comes_before_the_address(here):
    known = of(archive(here / "a.tar.gz", REVIEWS))
    assert fetched(here, source(here / "a.tar.gz", known)) == set(REVIEWS.values())


def test_a_folder_of_reviews_will_do(here):
    known = of(archive(here / "a.tar.gz", REVIEWS))
    for name, text in REVIEWS.items():
        path = here / "aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert fetched(here, source(here / "aclImdb", known)) == set(REVIEWS.values())


def test_it_is_downloaded_where_this_machine_has_none(here):
    known = of(archive(here / "a.tar.gz", REVIEWS))
    (here / "published").mkdir()
    archive(here / "published/b.tar.gz", dict(reversed(REVIEWS.items())), more=("README",))
    with serving(here / "published") as address:
        given = source(here / "absent.tar.gz", known, f"{address}/b.tar.gz")
        assert fetched(here, given) == set(REVIEWS.values())


def test_what_was_published_since_is_refused_and_leaves_nothing(here):
    known = of(archive(here / "a.tar.gz", REVIEWS))
    (here / "published").mkdir()
    archive(here / "published/b.tar.gz", {**REVIEWS, "test/neg/2_1.txt": "Ever."})
    with serving(here / "published") as address:
        given = source(None, known, f"{address}/b.tar.gz")
        with pytest.raises(DatasetError) as caught:
            fetch(given, "imdb", here / "data/raw/raw", name="reviews")
    assert list((here / "data/raw").iterdir()) == []
    said = str(caught.value)
    assert f"{address}/b.tar.gz is not the data set that was published" in said
    assert "datasets.reviews.source.contents in params.yaml" in said and known in said
    assert "`posenc take reviews PATH`" in said and "6 documents" in said


def test_another_file_at_the_place_is_refused_by_its_own_name(here):
    known = of(archive(here / "a.tar.gz", REVIEWS))
    archive(here / "b.tar.gz", {**REVIEWS, "test/neg/2_1.txt": "Ever."})
    with pytest.raises(DatasetError) as caught:
        fetch(source(here / "b.tar.gz", known), "imdb", here / "data/raw/raw", name="reviews")
    assert str(caught.value).startswith(f"{here}/b.tar.gz is not the data set")
    assert list((here / "data/raw").iterdir()) == []


def test_a_damaged_copy_is_named(here):
    path = archive(here / "a.tar.gz", REVIEWS)
    known = of(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DatasetError, match=r"a\.tar\.gz is truncated or corrupt"):
        fetch(source(path, known), "imdb", here / "data/raw/raw", name="reviews")


# --- A copy of the user's ------------------------------------------------------------------------


def take(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "posenc.cli", "take", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "workflow")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.fixture
def project(tmp_path):
    """A project whose `imdb_public` has six reviews."""
    folder = tmp_path / "project"
    folder.mkdir()
    copy_params(folder)
    path = folder / "studies/headline.yaml"
    text = path.read_text(encoding="utf-8")
    known = of(archive(tmp_path / "a.tar.gz", REVIEWS))
    section = text[text.index("    imdb_public:") : text.index("    truthfulqa_public:")]
    declared = next(line for line in section.splitlines() if "contents:" in line)
    path.write_text(text.replace(declared.split()[-1], known), encoding="utf-8")
    return folder


def test_a_copy_is_taken_and_comes_first(project, tmp_path, monkeypatch):
    done = take(project, "imdb_public", "../a.tar.gz")
    assert done.returncode == 0, done.stderr
    assert "has the documents that were published" in done.stdout
    monkeypatch.chdir(project)
    known = of(tmp_path / "a.tar.gz")
    archive(tmp_path / "b.tar.gz", {**REVIEWS, "test/neg/2_1.txt": "Ever."})
    given = source(tmp_path / "b.tar.gz", known)
    assert fetched(project, given, "imdb_public") == set(REVIEWS.values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("imdb_public", "../b.tar.gz"), "../b.tar.gz is not the data set that was published"),
        (("imdb_public", "../absent"), "../absent: no such file or folder"),
        (("truthfulqa_public", ".."), "..: is a folder, which format: truthfulqa does not read"),
        (("imdb", "../a.tar.gz"), "'imdb' is no data set with `kind: public`: imdb_public"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_one_line(project, tmp_path, arguments, said):
    archive(tmp_path / "b.tar.gz", {**REVIEWS, "test/neg/2_1.txt": "Ever."})
    done = take(project, *arguments)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert said in done.stderr
    assert not (project / public.OWN_COPIES).exists()


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ([], []),
        (
            ["IMDB=../my texts/a.tar.gz", "TRUTHFULQA=q.csv"],
            ['imdb_public "../my texts/a.tar.gz"', 'truthfulqa_public "q.csv"'],
        ),
    ],
)
def test_make_headline_takes_the_copies_that_it_is_given(given, taken):
    command = ["make", "--dry-run", "--directory", str(PROJECT), "headline", *given]
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout
    assert [
        line.partition("posenc take ")[2] for line in said.splitlines() if "take" in line
    ] == taken
    steps = [
        "check headline",
        "study=headline",
        "headline.svg",
        "recovered headline",
        "compare headline",
    ]
    places = [said.index(step) for step in steps]
    assert places == sorted(places)
