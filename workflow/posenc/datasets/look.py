"""What a file or folder of one's own holds, before it is a data set."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from posenc.datasets import imdb
from posenc.datasets.errors import listed
from posenc.datasets.members import FOLDER, kind_of, members
from posenc.datasets.parsing import parse
from posenc.datasets.raw_file import RawFile
from posenc.datasets.rows import EMPTY_ROWS, Table
from posenc.datasets.section import Content, Format, Text
from posenc.datasets.streams import PARQUET, TEXT, opened
from posenc.datasets.tables import table_of

SPLITS = ("test", "validation", "train", "unsup")
"""Which split is evaluated of several that are as large."""
AS_THEY_ARE = Text(line_breaks="keep", normalization="none")


@dataclass(frozen=True)
class Look:
    """What a file or folder holds.

    Attributes
    ----------
    format
        That it is read as.
    documents
        How many, by split.
    summary
        All of it in a line.
    """

    format: Format
    documents: Counter[str]
    summary: str

    @property
    def largest_split(self) -> tuple[str, int]:
        """The split ``test`` if it has two documents or more, else the largest; its documents."""
        if self.documents["test"] >= 2:
            return "test", self.documents["test"]
        split = max(SPLITS, key=lambda name: (self.documents[name], -SPLITS.index(name)))
        return split, self.documents[split]


def look(path: Path, column: str | None = None) -> Look:
    """Read a file or folder as a whole, as what it seems to be.

    Questions with a column ``Question``, and reviews in the layout of the published archive or with
    the columns ``review`` and ``sentiment``, are read as such; everything else is text.

    Parameters
    ----------
    path
        The file or folder.
    column
        The column of a table that holds the texts.

    Raises
    ------
    DatasetError
        If it cannot be read, or it is not clear which column holds the texts.
    """
    raw = RawFile(path)
    kind = kind_of(raw)
    if kind in (PARQUET, TEXT):
        table = table_of(raw, named=() if column is None else (column,))
        format, parts = _format_of(table, column), _parts(raw, table)
    else:
        names = [member.name for member in members(raw) if not member.kind]
        is_packed = any(map(imdb.cell_of, names))
        if kind == FOLDER and is_packed:
            raise raw.fault(f"has its reviews in {imdb.TOP}", f"name {path / imdb.TOP}")
        is_imdb = is_packed or (kind == FOLDER and any(imdb.cell_of(name, "") for name in names))
        format, parts = "imdb" if is_imdb else "text", [f"{kind} of {len(names):,} files"]
    raw.skipped.clear()  # they are counted again
    content = Content(format=format, text=AS_THEY_ARE, column=column)
    documents: Counter[str] = Counter()
    characters = 0
    for document in parse(raw, content):
        documents[document["split"]] += 1
        characters += len(document["text"])
    splits = ", ".join(f"{split} {count:,}" for split, count in documents.items())
    rows = documents.total() + raw.skipped[EMPTY_ROWS]
    parts += [f"{rows:,} rows"] if kind in (PARQUET, TEXT) else []
    parts += [
        f"{documents.total():,} documents" + (f" ({splits})" if len(documents) > 1 else ""),
        f"{characters:,} characters",
        f"{_size(path):,} bytes",
        f"read as format: {format}",
    ]
    return Look(format, documents, "; ".join([f"{path}: {', '.join(parts)}", *_skipped(raw)]))


def _format_of(table: Table, column: str | None) -> Format:
    columns = set(table.columns)
    if column is None and ("Question" in columns or {"question", "best_answer"} <= columns):
        return "truthfulqa"
    if column is None and {"review", "sentiment"} <= columns:
        return "imdb"
    return "text"


def _parts(raw: RawFile, table: Table) -> list[str]:
    with opened(raw) as stream:
        compression = stream.compression
    parts = [table.kind, table.encoding, f"compressed by {compression}" if compression else ""]
    if not table.is_plain:
        parts.append(f"columns {listed(table.columns)}")
    return [part for part in parts if part]


def _skipped(raw: RawFile) -> list[str]:
    return [note.removeprefix(f"{raw}: ") for note in raw.notes()]


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
