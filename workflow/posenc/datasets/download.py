"""Download one file over HTTP: resumed after a break or a kill, verified before it appears."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from posenc.artifacts.files import sha256_file
from posenc.datasets.errors import DatasetError

CHUNK_BYTES = 1 << 20
TIMEOUT_S = (20, 60)
"""Seconds to wait for the connection, and for the next bytes."""


BUSY = (429, 500, 502, 503, 504)
"""Answers of a server that may answer otherwise a little later."""


class _Broken(Exception):
    """The connection failed or ended early; trying again may help."""


def progress_bar(name: str, total: int | None, done: int = 0):
    """Return a tqdm bar in bytes on stderr; in a log file it prints a line every ten seconds."""
    from tqdm import tqdm

    return tqdm(
        total=total,
        initial=done,
        desc=name,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        mininterval=0.2 if sys.stderr.isatty() else 10.0,
    )


def part_path(target: Path) -> Path:
    """Return the file that holds what has arrived so far, under the name of the target's folder.

    Of ``data/raw/NAME/raw`` it is ``data/partial/NAME.part``: outside ``data/raw``, which DVC
    empties before it runs the stage again.
    """
    folder = target.absolute().parent
    return folder.parent / "partial" / f"{folder.name}.part"


def download(
    url: str,
    check: str | Callable[[Path], None],
    target: Path,
    *,
    key: str,
    tries: int = 6,
    backoff_s: float = 1.0,
) -> None:
    """Download a file to ``target``, continuing from its ``part_path`` where there is one.

    Parameters
    ----------
    url
        Address of the file.
    check
        SHA-256 that the file must have, or what raises a ``DatasetError`` of another file than
        the one that is meant.
    target
        Where the file goes; it appears whole and verified, or not at all.
    key
        The key of ``params.yaml`` that holds the source, for messages.
    tries
        How many connections in a row may fail without a mebibyte of new data.
    backoff_s
        Seconds before the second try; doubled for each further one.

    Raises
    ------
    DatasetError
        If the server cannot be reached, refuses, keeps breaking off, or sends another file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = part_path(target)
    part.parent.mkdir(exist_ok=True)
    is_resumed = part.exists()
    while True:
        _complete(url, part, key=key, tries=tries, backoff_s=backoff_s)
        try:
            _check_digest(url, check, part, key) if isinstance(check, str) else check(part)
        except DatasetError:
            part.unlink()
            if not is_resumed:
                raise
            # The start may be of another version of the file: it is not worth an error yet.
            is_resumed = False
        else:
            part.replace(target)
            return


def _check_digest(url: str, sha256: str, part: Path, key: str) -> None:
    actual = sha256_file(part)
    if actual != sha256:
        raise DatasetError(
            f"{url} is not the file that was expected: sha256 {actual}, but {key}.sha256 in "
            f"params.yaml says {sha256}. The download was deleted. Run again; if this comes back, "
            f"the publisher changed the file: check it and correct {key}.sha256"
        )


def _complete(url: str, part: Path, *, key: str, tries: int, backoff_s: float) -> None:
    """Fill ``part`` to the file's end over as many connections as it takes, within bounds."""
    session = _session(backoff_s)
    furthest = part.stat().st_size if part.exists() else 0
    failures = 0
    while True:
        try:
            return _receive(session, url, part, key)
        except _Broken as error:
            size = part.stat().st_size if part.exists() else 0
            if size >= furthest + CHUNK_BYTES:
                furthest, failures = size, 0
            failures += 1
            if failures >= tries:
                raise DatasetError(
                    f"{url}: the download failed {failures} times in a row after {size} bytes "
                    f"({error}). Run again to continue from there, or name a local copy in "
                    f"params.yaml: {key}: {{kind: path, path: ..., sha256: ...}}"
                ) from error
            time.sleep(backoff_s * 2 ** (failures - 1))


def _session(backoff_s: float):
    """Return a session which repeats a request twice that a busy server turns away."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    retry = Retry(
        total=2,
        backoff_factor=backoff_s,
        status_forcelist=BUSY,
        raise_on_status=False,
    )
    session = requests.Session()
    session.mount("http://", HTTPAdapter(max_retries=retry))
    session.mount("https://", HTTPAdapter(max_retries=retry))
    return session


def _receive(session, url: str, part: Path, key: str) -> None:
    """Make one request and append what comes to ``part``; return at the file's end."""
    import requests
    import urllib3

    done = part.stat().st_size if part.exists() else 0
    # The bytes of the archive itself are wanted, whatever a server thinks of its encoding.
    headers = {"Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    try:
        response = session.get(url, headers=headers, stream=True, timeout=TIMEOUT_S)
    except requests.RequestException as error:
        raise _Broken(f"no answer: {error}") from error
    with response:
        if response.status_code == 416 and done:
            # Nothing lies beyond what is there; the checksum decides whether that is the file.
            return
        if response.status_code in BUSY:
            raise _Broken(f"HTTP {response.status_code} {response.reason}")
        if response.status_code not in (200, 206):
            raise DatasetError(
                f"{url}: the server answers HTTP {response.status_code} {response.reason}; "
                f"correct {key}.url in params.yaml or name a local copy there "
                f"({{kind: path, path: ..., sha256: ...}})"
            )
        if response.status_code == 200:
            done = 0
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            part.unlink(missing_ok=True)
            raise _Broken("the server sent another range than the one that was asked for")
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        try:
            with (
                open(part, "ab" if done else "wb") as file,
                progress_bar(part.stem, total, done) as bar,
            ):
                for chunk in response.raw.stream(CHUNK_BYTES, decode_content=False):
                    file.write(chunk)
                    bar.update(len(chunk))
        except (urllib3.exceptions.HTTPError, ConnectionError, TimeoutError) as error:
            raise _Broken(f"the connection broke: {error}") from error
    size = part.stat().st_size
    if total is not None and size < total:
        raise _Broken(f"the connection ended at {size} of {total} bytes")


def copy(source: Path, temporary: Path) -> str:
    """Copy a file with a progress bar and return the SHA-256 of the bytes that were copied."""
    digest = hashlib.sha256()
    with (
        open(source, "rb") as reader,
        open(temporary, "wb") as writer,
        progress_bar(source.name, source.stat().st_size) as bar,
    ):
        while chunk := reader.read(CHUNK_BYTES):
            digest.update(chunk)
            writer.write(chunk)
            bar.update(len(chunk))
    return digest.hexdigest()
