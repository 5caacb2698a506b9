"""Documents: cleaned text with its identity and labels, in one Parquet file for a data set."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from posenc.artifacts.files import (
    SEAL,
    UNSEALED,
    ArtifactError,
    atomic_file,
    check_parquet,
    seal_parquet,
)
from posenc.datasets.errors import DatasetError
from posenc.datasets.fields import Document
from posenc.datasets.section import Content, Evaluation

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
METADATA_KEY = b"posenc"
BATCH_ROWS = 4096


class RawInput(TypedDict):
    """A raw file."""

    name: str
    sha256: str


class Metadata(TypedDict):
    """What a documents file says that it was made from."""

    schema_version: int
    dataset: Mapping[str, object]
    """The data set's format and how its text was cleaned (:class:`Content`)."""
    inputs: Mapping[str, RawInput]
    """What it was made from; ``raw`` is the raw file."""


def schema() -> pa.Schema:
    """Return the Arrow schema of ``documents.parquet``; fields that a format lacks are null."""
    import pyarrow as pa

    def required(name: str) -> pa.Field:
        return pa.field(name, pa.string(), nullable=False)

    return pa.schema(
        [
            required("document_id"),
            required("split"),
            required("text"),
            pa.field("label", pa.string()),
            pa.field("rating", pa.int8()),
            pa.field("file", pa.string()),
            pa.field("category", pa.string()),
            pa.field("type", pa.string()),
            pa.field("best_answer", pa.string()),
            pa.field("correct_answers", pa.list_(pa.string())),
            pa.field("incorrect_answers", pa.list_(pa.string())),
            pa.field("source", pa.string()),
        ]
    )


def write_documents(
    documents: Iterable[Document], path: Path, content: Content, provenance: Mapping[str, RawInput]
) -> int:
    """Write documents to a Parquet file, atomically, and return how many.

    Parameters
    ----------
    documents
        Their fields are those of ``schema()``; absent ones become null.
    path
        The file to write.
    content
        The data set's format and how its text was cleaned, stored in the file's metadata.
    provenance
        What the documents were made from.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata: Metadata = {
        "schema_version": SCHEMA_VERSION,
        "dataset": content.model_dump(mode="json"),
        "inputs": provenance,
    }
    encoded = json.dumps(metadata, sort_keys=True, ensure_ascii=False).encode()
    table_schema = schema().with_metadata({METADATA_KEY: encoded, SEAL: UNSEALED})
    count = 0
    iterator = iter(documents)
    with atomic_file(path) as temporary:
        with pq.ParquetWriter(
            temporary, table_schema, compression="zstd", write_page_checksum=True
        ) as writer:
            while batch := list(itertools.islice(iterator, BATCH_ROWS)):
                writer.write_table(pa.Table.from_pylist(batch, table_schema))
                count += len(batch)
        seal_parquet(temporary)
    return count


def read_documents(
    path: Path, split: str | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read documents, verified by the file's own checksum.

    Parameters
    ----------
    path
        A file of ``write_documents``.
    split
        Only this split; all of them without.
    columns
        Only these columns; all of them without.

    Returns
    -------
    pyarrow.Table
        The documents in the file's order.

    Raises
    ------
    DamagedError
        If the file is truncated or altered.
    ArtifactError
        If it is absent, or of another version of the schema.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    wanted = list(columns) if columns is not None else schema().names
    check_parquet(path)
    with pq.ParquetFile(path) as file:
        _check_metadata(path, file.schema_arrow)
        table = file.read(list(dict.fromkeys([*wanted, "split"])))
    if split is not None:
        table = table.filter(pc.equal(table["split"], split))
    return table.select(wanted)


def training_documents(
    path: Path, split: str, documents: int | None, validation_share: float, seed: int
) -> tuple[pa.Table, pa.Table]:
    """Draw the documents of a split that a model learns from, and hold a share of them out.

    Returns
    -------
    training, validation
        Of so many documents (None: all), in random order; at least one document each.

    Raises
    ------
    DatasetError
        If there are fewer documents than asked for, or fewer than two.
    """
    import numpy as np

    table = read_documents(path, split=split, columns=["document_id", "text"])
    check_enough(len(table), documents, split, f"the source of a model, trained on {path.stem},")
    order = np.random.default_rng(seed).permutation(len(table))[:documents]  # [documents]
    held_out = max(1, round(validation_share * len(order)))
    return table.take(order[held_out:]), table.take(order[:held_out])


def read_metadata(path: Path) -> Metadata:
    """What a documents file says that it was made from.

    Parameters
    ----------
    path
        A file of ``write_documents``.

    Raises
    ------
    ArtifactError
        If the file is damaged, or of another version of the schema.
    """
    import pyarrow.parquet as pq

    check_parquet(path)
    return _check_metadata(path, pq.read_schema(path))


def _check_metadata(path: Path, table_schema: pa.Schema) -> Metadata:
    try:
        metadata: Metadata = json.loads((table_schema.metadata or {})[METADATA_KEY])
    except (KeyError, ValueError) as error:
        raise ArtifactError(
            f"{path} does not say what made it: it is not a documents file; delete it and rerun"
        ) from error
    if metadata.get("schema_version") != SCHEMA_VERSION or not table_schema.equals(schema()):
        raise ArtifactError(
            f"{path} is of version {metadata.get('schema_version')} of the documents' schema, or "
            f"its columns were altered; this program reads version {SCHEMA_VERSION}: delete it "
            f"and rerun"
        )
    return metadata


def splits_of(path: Path) -> Counter[str]:
    """How many documents each split has in a file that was read and found whole."""
    import pyarrow.parquet as pq

    return Counter(pq.read_table(path, columns=["split"])["split"].to_pylist())


def check_enough(available: int, asked: int | None, split: str, where: str) -> None:
    """Refuse a split that has fewer documents than asked for, or fewer than two.

    Raises
    ------
    DatasetError
        It says which section of ``params.yaml`` asks for them.
    """
    if asked is not None and available < asked:
        raise DatasetError(
            f"{where} asks for {asked} documents of the split {split!r}, which has {available}: "
            f"lower its `documents` in params.yaml"
        )
    if available < 2:
        raise DatasetError(
            f"{where} reads the split {split!r}, which has {available} documents, and needs two: "
            f"name another split in params.yaml, or give the data set more text"
        )


def select(table: pa.Table, evaluation: Evaluation, where: str = "evaluation") -> pa.Table:
    """Draw the documents that the study measures on, at random without replacement.

    Parameters
    ----------
    table
        Documents with a column ``split``, or documents of the evaluation split alone.
    evaluation
        Its split, how many documents (null for all), and the seed.
    where
        The section of ``params.yaml`` that asks for them, for errors.

    Returns
    -------
    pyarrow.Table
        The drawn rows in the table's order.

    Raises
    ------
    DatasetError
        If there are fewer documents than asked for, or fewer than two.
    """
    import numpy as np
    import pyarrow.compute as pc

    if "split" in table.column_names:
        table = table.filter(pc.equal(table["split"], evaluation.split))
    available, asked = table.num_rows, evaluation.documents
    check_enough(available, asked, evaluation.split, where)
    if asked is None:
        return table
    drawn = np.random.default_rng(evaluation.seed).choice(available, size=asked, replace=False)
    return table.take(np.sort(drawn))
