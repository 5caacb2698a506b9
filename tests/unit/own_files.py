"""Text files in every form that people keep them in, made for the tests."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

Rows = Sequence[Mapping[str, object]]


def csv_bytes(
    rows: Rows,
    *,
    delimiter: str = ",",
    end: str = "\n",
    is_quoted: bool = False,
    encoding: str = "utf-8",
    blank: str = "",
) -> bytes:
    """A table as in RFC 4180; ``blank`` stands between its lines."""

    def field(value: object) -> str:
        text = str(value)
        if is_quoted or text == "" or any(character in text for character in f'\r\n"{delimiter}'):
            return '"' + text.replace('"', '""') + '"'
        return text

    lines = [rows[0].keys(), *(row.values() for row in rows)]
    return blank.join(delimiter.join(map(field, line)) + end for line in lines).encode(encoding)


def json_lines(rows: Rows, encoding: str = "utf-8", is_ascii: bool = False) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=is_ascii) + "\n" for row in rows).encode(encoding)


def json_array(rows: Rows, encoding: str = "utf-8", indent: int | None = 1) -> bytes:
    return json.dumps(rows, ensure_ascii=False, indent=indent).encode(encoding)


def parquet_bytes(rows: Rows, kind: pa.DataType | None = None) -> bytes:
    """A Parquet file, whose texts are of an Arrow type."""
    table = pa.Table.from_pylist(list(rows))
    if kind is not None:
        fields = [
            pa.field(part.name, kind if pa.types.is_string(part.type) else part.type)
            for part in table.schema
        ]
        columns = [
            column.dictionary_encode()
            if pa.types.is_dictionary(field.type)
            else column.cast(field.type)
            for column, field in zip(table.columns, fields, strict=True)
        ]
        table = pa.table(dict(zip(table.column_names, columns, strict=True)))
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


COMPRESSIONS = {"": bytes, ".gz": gzip.compress, ".zst": zstd}
"""By the ending of a file, how it is compressed."""
