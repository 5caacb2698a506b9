"""Raw files as documents: each format has its parser, and all texts are cleaned alike.

Apart from :mod:`posenc.datasets.documents`, so that what reads documents does not depend on how
each format is parsed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

from posenc.datasets import imdb, lines, tatoeba, truthfulqa
from posenc.datasets.fields import Document
from posenc.datasets.raw_file import RawFile
from posenc.datasets.section import Content, Text

PARSERS: dict[str, Callable[[RawFile, Content], Iterator[Document]]] = {
    "imdb": lambda raw, content: imdb.parse(raw, content.column, content.label),
    "truthfulqa": lambda raw, content: truthfulqa.parse(raw),
    "tatoeba": lambda raw, content: tatoeba.parse(raw),
    "text": lambda raw, content: lines.parse(raw, content.column),
}
"""What reads the raw file of each format."""

_BREAK = r"<\s*/?\s*br\s*/?\s*>"
_BREAKS = re.compile(rf"\s*{_BREAK}(?:\s*{_BREAK})*\s*", re.IGNORECASE)


def clean(text: str, options: Text) -> str:
    """Return the text with its line breaks and its Unicode form as configured.

    Parameters
    ----------
    text
        Raw text, in which ``<br />`` (also ``<br>``, ``<br/>``, ``</br>``) breaks lines.
    options
        ``line_breaks``: a run of breaks with the white space around it becomes one newline or
        one space, or is kept. ``normalization``: the Unicode form, applied first, so that a
        break in full-width characters is one too.

    Examples
    --------
    >>> clean("Ａ<br /><br />b", Text(line_breaks="newline", normalization="NFKC"))
    'A\\nb'
    """
    if options.normalization != "none":
        text = unicodedata.normalize(options.normalization, text)
    if options.line_breaks != "keep":
        text = _BREAKS.sub("\n" if options.line_breaks == "newline" else " ", text)
    return text


def parse(file: RawFile | Path, content: Content) -> Iterator[Document]:
    """Yield a data set's documents, their text cleaned.

    Parameters
    ----------
    file
        The raw file.
    content
        The data set's format, its columns, and how its text is cleaned.

    Raises
    ------
    DatasetError
        If the raw file is damaged or not of the data set's format, or a document has no text
        once it is clean.
    """
    raw = RawFile.of(file)
    for document in PARSERS[content.format](raw, content):
        text = clean(document["text"], content.text)
        if not text.strip():
            raise raw.fault(
                f"{document['document_id']} has no text but line breaks",
                "give it a text, or remove it",
            )
        yield {**document, "text": text}
