"""Small raw files for the tests of the data sets."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from posenc.datasets.section import Content, Text

TEXT = Text(line_breaks="newline", normalization="NFKC")


def content(format: str, **text: str) -> Content:
    return Content(format=format, text=TEXT.model_copy(update=text))


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as writer:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            writer.addfile(member, io.BytesIO(body))
    return path


REVIEWS = {
    "aclImdb/README": b"about",
    "aclImdb/test/urls_pos.txt": b"http://www.example.invalid/\n",
    "aclImdb/test/pos/10_9.txt": "Ten<br /><br />Ａ".encode(),
    "aclImdb/test/pos/2_10.txt": b"two",
    "aclImdb/test/neg/2_1.txt": b"bad\r\ntwo",
    "./aclImdb/train/neg/0_4.txt": b"zero",
    "aclImdb/train/unsup/7_0.txt": b"seven",
}


def hub(path: Path, columns: dict) -> Path:
    pq.write_table(pa.table(columns), path)
    return path
