"""The Japanese sample corpus: alike on every machine, in two widths, labelled by its order."""

from __future__ import annotations

import hashlib
import io
import random
import re
import statistics
import subprocess
import sys
import tarfile
import unicodedata

import pytest
from pydantic import ValidationError

from posenc.datasets import imdb
from posenc.datasets.fetch import fetch
from posenc.datasets.generated.japanese import (
    BAD,
    DEEDS,
    GOOD,
    NAMES,
    OBJECTS,
    ORDINALS,
    PASSAGES,
    PEOPLE,
    RUN,
    passages,
    review,
)
from posenc.datasets.generated.reviews import RATINGS
from posenc.datasets.generated.sample import imdb_archive
from posenc.datasets.section import Dataset, SampleSource

COUNTS = {"train": 301, "test": 40}
BREAK = "<br /><br />"


def nfkc(text):
    return unicodedata.normalize("NFKC", text)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "aclImdb_v1.tar.gz"
    source = SampleSource(kind="sample", seed=22, documents=COUNTS, language="ja")
    fetch(source, "imdb", path)
    return list(imdb.parse(path))


@pytest.fixture(scope="module")
def ordinary(reviews):
    """All of the corpus in ordinary widths."""
    return "\n".join(nfkc(document["text"]).replace(BREAK, "") for document in reviews)


def test_bytes_do_not_depend_on_the_process():
    program = (
        "import hashlib, posenc.datasets.generated.sample as s;"
        "print(hashlib.sha256(s.imdb_archive(3, {'train': 9}, 'ja')).hexdigest())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert printed == hashlib.sha256(imdb_archive(3, {"train": 9}, "ja")).hexdigest()


def test_bytes_are_pinned():
    """Changing the grammar changes every study's results: it must be meant."""
    archive = imdb_archive(1, {"train": 6, "test": 2}, "ja")
    assert hashlib.sha256(archive).hexdigest() == PINNED_ARCHIVE


PINNED_ARCHIVE = "4ee9e67a5f5ff63e79a63994ceb93377284182354914be188101a1b1b2f05e6d"


def test_seeds_differ_and_more_documents_keep_the_earlier_ones():
    def texts(seed, count):
        with tarfile.open(fileobj=io.BytesIO(imdb_archive(seed, {"test": count}, "ja"))) as archive:
            names = [name for name in archive.getnames() if re.search(r"/(pos|neg)/", name)]
            return {name: archive.extractfile(name).read() for name in names}

    small, large = texts(5, 10), texts(5, 30)
    assert len(small) == 10 and small.items() <= large.items()
    assert set(texts(6, 10).values()).isdisjoint(small.values())


def test_reviews_have_the_sizes_and_scripts_of_a_corpus(reviews):
    texts = [document["text"].replace(BREAK, "") for document in reviews]
    assert len(set(texts)) == len(texts) == sum(COUNTS.values())
    assert all(120 <= len(text) <= 500 for text in texts)
    assert 200 <= statistics.mean(map(len, texts)) <= 320
    # Words are not parted.
    assert not any(re.search(r"\s", text) for text in texts)
    assert any(BREAK in document["text"] for document in reviews)
    whole = "".join(texts)
    for script in ("[一-鿿]", "[ぁ-ん]", "[ァ-ヴ]", "[ｦ-ﾟ]", "[A-Z]", "[Ａ-Ｚ]", "[0-9]", "[０-９]"):
        assert len(re.findall(script, whole)) > 100, script


def test_nfkc_gives_the_ordinary_widths_back():
    changed = 0
    for seed in range(200):
        told = "".join(passages(random.Random(seed), 1 + seed % 10))
        assert nfkc(told) == told
        written = review(random.Random(seed), 1 + seed % 10)
        assert nfkc(written).replace(BREAK, "") == told
        changed += written.replace(BREAK, "") != told
    assert 100 < changed <= 200


def test_the_same_words_are_written_in_both_widths(reviews):
    forms = {}
    for document in reviews:
        text = document["text"].replace(BREAK, "")
        for run in re.findall(r"[ｦ-ﾟ]+|[Ａ-Ｚａ-ｚ０-９]+", text) + RUN.findall(text):
            forms.setdefault(nfkc(run), set()).add(run)
    twice = {word for word, written in forms.items() if len(written) == 2}
    assert {"DVD", "10", "ピアノ", "ボリス", "ガードマン"} <= twice
    assert all(len(written) <= 2 for written in forms.values())
    assert len(twice) > len(forms) / 2


def test_the_label_is_that_of_the_order_around_the_negation(reviews):
    verdict = re.compile(r"は(\w+)ではなく(\w+)だった。評価は([A-E])、10点満点で(\d+)点。$")
    for document in reviews:
        text = nfkc(document["text"]).replace(BREAK, "")
        denied, claimed, grade, stars = verdict.search(text).groups()
        is_good = document["label"] == "pos"
        assert int(stars) in RATINGS[document["label"]] and int(stars) == document["rating"]
        assert (grade in "AB") == is_good
        assert (denied in BAD and claimed in GOOD) == is_good
        assert (denied in GOOD and claimed in BAD) == (not is_good)
        # No other sentence of the review says otherwise.
        for denied, claimed in re.findall(r"は(\w+)ではなく(\w+)だった。\2であって、\1では", text):
            assert (denied in BAD and claimed in GOOD) == is_good


def test_praise_and_blame_have_the_same_words():
    assert set(GOOD).isdisjoint(BAD)
    told = {
        is_good: {
            nfkc("".join(passages(random.Random(seed), 9 if is_good else 2))) for seed in range(300)
        }
        for is_good in (True, False)
    }
    for word in GOOD + BAD:
        assert all(any(word in text for text in texts) for texts in told.values()), word


def test_particles_say_who_did_it_to_whom(ordinary):
    people = "|".join(sorted(NAMES + PEOPLE, key=len, reverse=True))
    passive = {past: suffered for past, _, suffered in DEEDS}
    told = re.findall(
        rf"({people})は({people})を({'|'.join(passive)})。つまり({people})は({people})に(\w+?た)。",
        ordinary,
    )
    assert len(told) > 100
    for first, second, deed, other, doer, suffered in told:
        assert (other, doer, suffered) == (second, first, passive[deed]) and first != second
    pairs = {(first, second) for first, second, *_ in told}
    assert any(pair[::-1] in pairs for pair in pairs)


def test_sums_lengths_and_counters_are_right(ordinary):
    sums = re.findall(r"「(\d+)足す(\d+)はいくつか」と尋ねると、\w+は「(\d+)」", ordinary)
    assert len(sums) > 50 and all(int(a) + int(b) == int(c) for a, b, c in sums)
    extras = re.findall(r"には(\w+)が(\d+)分、(\w+)が(\d+)分入っていて、長いのは(\w+)だ", ordinary)
    assert len(extras) > 50
    for first, long, second, short, longer in extras:
        assert longer == (first if int(long) > int(short) else second)
    counted = re.findall(rf"({'|'.join(OBJECTS)})が(\d)(\w)(あり|あった)", ordinary)
    assert len(counted) > 50
    assert all(counter == OBJECTS[thing] for thing, _, counter, _ in counted)


def test_every_passage_occurs_and_they_are_numbered_in_order():
    for make in PASSAGES:
        text = make(random.Random(0), True)
        assert text.endswith("。") and len(text) > 15
    for seed in range(50):
        told = passages(random.Random(seed), 5)
        assert [text.partition("、")[0] for text in told[1:-1]] == list(ORDINALS[: len(told) - 2])


def test_other_formats_have_no_japanese_grammar():
    section = {
        "format": "truthfulqa",
        "source": {"kind": "sample", "seed": 1, "documents": {"validation": 4}, "language": "ja"},
        "text": {"line_breaks": "newline", "normalization": "none"},
        "evaluation": {"split": "validation", "documents": None, "seed": 1},
    }
    with pytest.raises(ValidationError, match=r"source\.language is 'ja'"):
        Dataset.model_validate(section)
