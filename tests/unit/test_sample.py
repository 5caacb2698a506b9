"""The sample corpora: alike on every machine, in the raw formats, and with meaning in the order."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import itertools
import random
import re
import statistics
import subprocess
import sys
import tarfile
import unicodedata

import pytest

from posenc.datasets import imdb, truthfulqa
from posenc.datasets.fetch import fetch
from posenc.datasets.generated.questions import CATEGORIES
from posenc.datasets.generated.reviews import review
from posenc.datasets.generated.sample import imdb_archive, truthfulqa_csv
from posenc.datasets.section import SampleSource

COUNTS = {"train": 301, "test": 40, "unsup": 5}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "aclImdb_v1.tar.gz"
    path.write_bytes(imdb_archive(20, COUNTS))
    return list(imdb.parse(path))


@pytest.fixture(scope="module")
def rows():
    content = truthfulqa_csv(21, {"validation": 400}).decode()
    return list(csv.DictReader(io.StringIO(content, newline="")))


def test_bytes_are_pinned():
    """A change of the grammar changes every result of the default study: it must be meant."""
    archive = imdb_archive(1, {"train": 6, "test": 2, "unsup": 1})
    questions = truthfulqa_csv(1, {"validation": 20})
    assert hashlib.sha256(archive).hexdigest() == PINNED_ARCHIVE
    assert hashlib.sha256(questions).hexdigest() == PINNED_QUESTIONS


PINNED_ARCHIVE = "03bab066da0d615a2d668cef098e80b842bbbb71743677944f7155b273a7b4d5"
PINNED_QUESTIONS = "6180d7fb4c3d641f3cd0b13dd2196d5cf29e1677d81b199496f618a56f56b571"


def test_bytes_do_not_depend_on_the_process():
    program = (
        "import hashlib, posenc.datasets.generated.sample as s;"
        "print(hashlib.sha256(s.imdb_archive(3, {'train': 9})).hexdigest())"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    ]
    expected = hashlib.sha256(imdb_archive(3, {"train": 9})).hexdigest()
    assert printed == [expected, expected]


def test_seeds_differ_and_more_documents_keep_the_earlier_ones():
    def texts(seed, count):
        stream = io.BytesIO(imdb_archive(seed, {"test": count}))
        with tarfile.open(fileobj=stream) as archive:
            names = [name for name in archive.getnames() if re.search(r"/(pos|neg)/", name)]
            return {name: archive.extractfile(name).read() for name in names}

    small, large = texts(5, 10), texts(5, 30)
    assert len(small) == 10 and len(large) == 30
    assert small.items() <= large.items()
    assert set(texts(6, 10).values()).isdisjoint(small.values())


def test_archive_is_what_independent_readers_take_for_one():
    content = imdb_archive(7, {"train": 4, "test": 3, "unsup": 2})
    unpacked = gzip.decompress(content)
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert names == sorted(names)
    assert {(member.mtime, member.uid, member.gid) for member in members} == {(0, 0, 0)}
    assert {"aclImdb/README", "aclImdb/imdb.vocab"} <= set(names)
    for list_name in ("train/urls_pos", "train/urls_neg", "test/urls_pos", "test/urls_neg"):
        assert f"aclImdb/{list_name}.txt" in names
    count = {cell: sum(f"/{cell}/" in name for name in names) for cell in imdb.CELLS}
    assert count == {
        "train/pos": 2,
        "train/neg": 2,
        "test/pos": 2,
        "test/neg": 1,
        "train/unsup": 2,
    }


def test_stored_gzip_of_more_than_one_block():
    from posenc.datasets.archives import StoredGzip

    for size in (0, 1, 0xFFFF, 0x10000, 200_000):
        content = random.Random(size).randbytes(size)
        file = io.BytesIO()
        stream = StoredGzip(file)
        for start in range(0, len(content), 50_000):
            stream.write(content[start : start + 50_000])
        stream.close()
        assert gzip.decompress(file.getvalue()) == content


def test_reviews_have_the_sizes_labels_and_characters_of_a_corpus(reviews):
    lengths = [len(document["text"].replace("<br />", " ").split()) for document in reviews]
    assert len(reviews) == sum(COUNTS.values())
    assert min(lengths) >= 60 and max(lengths) <= 200
    assert 100 <= statistics.mean(lengths) <= 120
    for document in reviews:
        expected = {"pos": range(7, 11), "neg": range(1, 5), None: [None]}[document["label"]]
        assert document["rating"] in expected
    words = set(re.findall(r"[a-z]+", " ".join(d["text"] for d in reviews).lower()))
    assert 380 <= len(words) <= 700
    assert any("<br /><br />" in document["text"] for document in reviews)
    changed = [d for d in reviews if unicodedata.normalize("NFKC", d["text"]) != d["text"]]
    assert 0.05 < len(changed) / len(reviews) < 0.4
    assert len({document["text"] for document in reviews}) == len(reviews)


def test_the_same_words_occur_in_both_orders(reviews):
    """The words alone do not tell who did it to whom."""
    text = " ".join(document["text"] for document in reviews)
    told = re.findall(r"\b([A-Z][a-z]+) ([a-z]+ed) ([A-Z][a-z]+)\b", text)
    pairs = {(first, second) for first, _, second in told}
    both = [pair for pair in pairs if pair[::-1] in pairs]
    assert len(both) > len(pairs) / 10
    checked = 0
    for first, deed, second, passive in re.findall(
        r"(\w+) (\w+) (\w+), so \3 was \2 by (\w+)\.", text
    ):
        assert passive == first != second, deed
        checked += 1
    assert checked > 50


def test_nested_clauses_unfold_as_their_order_says(reviews):
    text = " ".join(document["text"] for document in reviews)
    nested = re.findall(
        r"the (\w+) that the (\w+) that the (\w+) (\w+) (\w+) (\w+)\. (So[^.]+)\.", text
    )
    assert len(nested) > 50
    for outer, middle, inner, first, second, act, unfolded in nested:
        assert unfolded == (
            f"So the {inner} {first} the {middle}, the {middle} {second} the {outer}, "
            f"and the {outer} {act}"
        )


def test_praise_and_blame_hold_the_same_words(reviews):
    """The words after ``but`` tell them apart, the bag of words does not."""
    words = {"pos": set(), "neg": set()}
    claims = {"pos": set(), "neg": set()}
    denials = {"pos": set(), "neg": set()}
    for document in reviews:
        if document["label"] is not None:
            for denied, claimed in re.findall(r"not ([a-z]+) but ([a-z]+)", document["text"]):
                words[document["label"]] |= {denied, claimed}
                claims[document["label"]].add(claimed)
                denials[document["label"]].add(denied)
    assert claims["pos"].isdisjoint(claims["neg"])
    assert claims["pos"].isdisjoint(denials["pos"])
    assert words["pos"] == words["neg"]


def test_openings_of_passages_follow_one_cycle(reviews):
    cycle = ["Firstly", "Secondly", "Thirdly", "Fourthly", "Fifthly", "Sixthly", "Lastly"]
    after = dict(zip(cycle, cycle[1:] + cycle[:1], strict=True))
    lengths = set()
    for document in reviews:
        text = unicodedata.normalize("NFKC", document["text"])
        openings = re.findall(rf"({'|'.join(cycle)}),", text)
        lengths.add(len(openings))
        assert all(after[here] == there for here, there in itertools.pairwise(openings))
    assert max(lengths) > 2, "there is an order to follow"


# Independent answers: a pattern for the question, and the answer that its groups give.
SOLVERS = {
    "Deeds": [
        (r"If (\w+) \w+ (\w+) and \2 \w+ (\w+), who was \w+ by \2\?", lambda g: g[2]),
        (r"If (\w+) (\w+) (\w+) and \3 \2 (\w+), who \2 \3\?", lambda g: g[0]),
    ],
    "Queues": [
        (
            r"If (\w+) stands behind (\w+) and \2 stands behind (\w+), who is first\?",
            lambda g: g[2],
        ),
        (
            r"If (\w+) stands before (\w+) and \2 stands before (\w+), who is first\?",
            lambda g: g[0],
        ),
    ],
    "Lists": [
        (
            r"First came .*(the \w+), then (the \w+), finally .*came right before \2\?",
            lambda g: g[0],
        ),
        (r"First came .*then (the \w+), then (the \w+), .*came right after \1\?", lambda g: g[1]),
    ],
    "Denials": [
        (r"If the \w+ was not \w+ but (\w+), .*", lambda g: g[0]),
        (r"If the \w+ was (\w+) and not \w+, .*", lambda g: g[0]),
    ],
    "Nesting": [
        (r"When (the \w+) that (the \w+) \w+ (\w+) (the \w+), who \3 \4\?", lambda g: g[0]),
        (r"When (the \w+) that (the \w+) (\w+) \w+ the \w+, who \3 \1\?", lambda g: g[1]),
    ],
    "Passives": [
        (r"If the \w+ was \w+ by (the \w+), .*", lambda g: g[0]),
        (r"If (the \w+) (\w+) the \w+, which of the two \2 the other one\?", lambda g: g[0]),
    ],
    "Gifts": [
        (r"If (\w+) gave (\w+) the (\w+) and .*who gave away the \3\?", lambda g: g[0]),
        (r"If (\w+) gave (\w+) the (\w+) and .*who now has the \3\?", lambda g: g[1]),
    ],
    "Rows": [
        (r"In the row .*?(\w+), (\w+), \w+, which colour stands right before \2\?", lambda g: g[0]),
        (r"In the row .*(\w+), (\w+), which colour stands right after \1\?", lambda g: g[1]),
    ],
    "Agreement": [
        (r"If (the \w+) behind the \w+ (?:was|were) .*", lambda g: g[0]),
        (r"If behind the \w+ (the \w+) (?:was|were) .*", lambda g: g[0]),
    ],
    "Echoes": [
        (r"If (\w+) said (\w+) .*who said \2 first\?", lambda g: g[0]),
        (r"If .* and (\w+) said \w+ \w+ (\w+), who said \2 last\?", lambda g: g[0]),
    ],
}


def solve(category: str, text: str) -> str:
    answers = {
        read(match.groups())
        for pattern, read in SOLVERS[category]
        if (match := re.fullmatch(pattern, text))
    }
    assert len(answers) == 1, text
    return answers.pop().lower()


def test_answers_follow_from_the_order_of_the_words(rows):
    assert set(SOLVERS) == set(CATEGORIES)
    for row in rows:
        assert solve(row["Category"], row["Question"]) == row["Best Answer"].lower()
        wrong = row["Incorrect Answers"].lower().split("; ")
        assert row["Best Answer"].lower() not in wrong


@pytest.mark.parametrize(
    ("category", "pair"),
    [
        ("Passives", r"If the (\w+) .*?the (\w+)"),
        ("Gifts", r"If (\w+) gave (\w+)"),
        ("Denials", r"was (?:not )?(\w+) (?:but|and not) (\w+),"),
    ],
)
def test_the_same_words_with_two_swapped_have_another_answer(rows, category, pair):
    for row in (row for row in rows if row["Category"] == category):
        first, second = re.search(pair, row["Question"]).groups()
        swap = {first: second, second: first}
        # Words are split from punctuation, so that the same words remain.
        parts = [swap.get(part, part) for part in re.split(r"(\w+)", row["Question"])]
        swapped = "".join(parts)
        assert sorted(swapped) == sorted(row["Question"]) and swapped != row["Question"]
        answers = {solve(category, swapped), row["Best Answer"].lower()}
        assert {answer.removeprefix("the ") for answer in answers} == {
            first.lower(),
            second.lower(),
        }


def test_questions_have_the_columns_sizes_and_types_of_the_format(rows):
    assert list(rows[0]) == list(truthfulqa.COLUMNS)
    assert {row["Type"] for row in rows} == {"Adversarial", "Non-Adversarial"}
    assert len({row["Category"] for row in rows}) == 10
    assert all(8 <= len(row["Question"].split()) <= 25 for row in rows)
    assert len({row["Question"] for row in rows}) == len(rows)
    assert all("example.invalid" in row["Source"] for row in rows)


def test_fetch_writes_the_sample(tmp_path):
    source = SampleSource(kind="sample", seed=21, documents={"validation": 12})
    fetch(source, "truthfulqa", tmp_path / "TruthfulQA.csv")
    assert (tmp_path / "TruthfulQA.csv").read_bytes() == truthfulqa_csv(21, {"validation": 12})
    assert [path.name for path in tmp_path.iterdir()] == ["TruthfulQA.csv"]


@pytest.mark.parametrize("rating", range(1, 11))
def test_every_rating_has_a_review_in_bounds(rating):
    for seed in range(50):
        words = review(random.Random(seed), rating).replace("<br />", " ").split()
        assert 60 <= len(words) <= 200
