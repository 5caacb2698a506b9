"""A data set with two splits as files: its documents, a tokenizer of its words, and tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

from posenc.artifacts.files import CHECKSUMS, sha256_file, write_checksums
from posenc.artifacts.tables import write_table
from posenc.datasets.documents import write_documents
from posenc.tokens.tokenize import END_OF_TEXT, tokenize

from .raw_files import content

WORDS = [f"w{number}" for number in range(37)]


def split_texts(tmp_path: Path) -> dict[str, Path]:
    """Six documents are evaluated; 41 are in the split ``train``, one of them evaluated too.

    Returns
    -------
    Folders of ``documents`` and ``tokens``, in which the data set is called ``text``, and the file
    of the ``tokenizer``, which has 40 tokens.
    """
    vocabulary = {END_OF_TEXT: 2, "[UNK]": 0, **{word: 3 + n for n, word in enumerate(WORDS)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    write_checksums(folder / CHECKSUMS, "tokenizer.json")
    generator = np.random.default_rng(8)

    def text(length: int) -> str:
        return " ".join(generator.choice(WORDS, length))

    tests = [text(length) for length in (9, 4, 10, 6, 8, 11)]
    trains = [text(length) for length in generator.integers(4, 12, 40)]
    rows = [
        {"document_id": f"{split}/{number}", "split": split, "text": document}
        for split, texts in (("test", tests), ("train", [*trains, tests[2]]))
        for number, document in enumerate(texts)
    ]
    source = tmp_path / "documents/text.parquet"
    source.parent.mkdir()
    write_documents(rows, source, content("imdb"), {})
    table = tokenize(tokenizer, [row["document_id"] for row in rows[:6]], tests, 12, True)
    path = tmp_path / "tokens/text.parquet"
    path.parent.mkdir()
    write_table(
        table, path,
        {"bos": True, "evaluation": {"split": "test"},
         "inputs": {"documents": sha256_file(source)}},
    )  # fmt: skip
    return {
        "tokens": path.parent,
        "documents": source.parent,
        "tokenizer": folder / "tokenizer.json",
    }
