"""Text files as lines: their encoding, and the faults that no text may have."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from typing import TextIO

from posenc.datasets.raw_file import RawFile
from posenc.datasets.streams import Stream, opened

LINE_BYTES = 10_000_000
"""Characters that a line, or a field of a table, may have; a longer one is another format."""
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig", "UTF-8 with a mark"),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
"""Byte order marks, the longer ones first; Python's name of the encoding, and people's."""
SAVE = "save it as UTF-8"
_BAD_BYTE = re.compile("[\udc80-\udcff]")
"""What Python makes of a byte that is no text (PEP 383)."""


def encoding_of(head: bytes) -> tuple[str, str]:
    """The encoding of a file by its first bytes: Python's name of it, and people's."""
    for mark, encoding, name in MARKS:
        if head.startswith(mark):
            return encoding, name
    return "utf-8", "UTF-8"


def text_of(stream: Stream, newline: str | None = None) -> TextIO:
    """A file as text; bytes that are none are kept, for :func:`checked`."""
    encoding, _ = encoding_of(stream.head)
    return io.TextIOWrapper(
        stream.file, encoding=encoding, errors="surrogateescape", newline=newline
    )


def checked(raw: RawFile, where: str, text: str) -> str:
    """The text, if a document can hold it.

    Parameters
    ----------
    raw
        The file that it is of.
    where
        Its line or row, and column.
    text
        As read by :func:`text_of`.

    Raises
    ------
    DatasetError
        If it cannot; it names the place and what stands there.
    """
    if "\x00" in text:
        place = text.index("\x00") + 1
        raise raw.fault(f"{where} holds a NUL character (character {place})", "remove it")
    if bad := _BAD_BYTE.search(text):
        byte, place = ord(bad[0]) - 0xDC00, bad.start() + 1
        raise raw.fault(
            f"{where} holds the byte 0x{byte:02x} (character {place}), which is not UTF-8", SAVE
        )
    return text


def check_head(raw: RawFile, head: bytes) -> None:
    """Refuse UTF-16 without a byte order mark, in which every second byte of English is NUL.

    Raises
    ------
    DatasetError
        If the first bytes of the file are such.
    """
    if head.count(b"\x00") >= len(head) / 4 > 0 and encoding_of(head)[0] == "utf-8":
        raise raw.fault("line 1 holds NUL characters, as in UTF-16 without a mark", SAVE)


def lines_of(raw: RawFile, newline: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, from 1.

    Parameters
    ----------
    raw
        The file, compressed or not.
    newline
        As :func:`open` takes it: None makes each line end with a newline, "" leaves ends as they
        are.

    Raises
    ------
    DatasetError
        If the file is damaged, or a line is too long or cannot be decoded. Single bytes that are no
        text are left to :func:`checked`.
    """
    number = 0
    with opened(raw) as stream, text_of(stream, newline) as file:
        while line := _line(raw, file, number + 1):
            number += 1
            yield number, line


def _line(raw: RawFile, file: TextIO, number: int) -> str:
    try:
        line = file.readline(LINE_BYTES + 1)
    except UnicodeError as error:
        what = f"line {number} or one soon after it is no text ({error})"
        raise raw.fault(what, SAVE) from error
    if len(line) > LINE_BYTES:
        raise raw.fault(f"line {number} is longer than {LINE_BYTES:,} characters", "divide it")
    return line
