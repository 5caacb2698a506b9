"""Fetching raw files: interrupted, refused, altered and unreachable sources."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posenc.artifacts.files import verify
from posenc.datasets import download as download_module
from posenc.datasets.download import download, part_path
from posenc.datasets.errors import DatasetError
from posenc.datasets.fetch import fetch
from posenc.datasets.parsing import parse
from posenc.datasets.section import Content, HubSource, PathSource, Text, UrlSource
from tests.budget import PATIENCE, wait_for

CONTENT = random.Random(0).randbytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
KEY = "datasets.reviews.source"
REVISION = "0" * 40


class Server(ThreadingHTTPServer):
    """A loopback server which can break off, ignore Range, be busy, or send something else."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.has_ranges = True
        self.breaks: list[int] = []  # bytes after which the next answers break off
        self.statuses: list[int] = []  # what the next answers are instead of the file
        self.pause_s = 0.0
        self.ranges: list[str | None] = []  # the Range header of each request

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/some/aclImdb_v1.tar.gz"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        server = self.server
        asked = self.headers.get("Range")
        server.ranges.append(asked)
        if server.statuses:
            self.send_response(server.statuses.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if not server.has_ranges:
            start = 0
        if start >= len(server.content) > 0:
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        # Some servers label an archive so; the bytes on disk must stay the archive's own.
        self.send_header("Content-Encoding", "gzip")
        if start:
            last = len(server.content) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{last + 1}")
        self.end_headers()
        sent = server.breaks.pop(0) if server.breaks else len(body)
        for position in range(0, sent, 100_000):
            try:
                self.wfile.write(body[position : min(position + 100_000, sent)])
            except OSError:
                return
            time.sleep(server.pause_s)
        self.close_connection = True


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def get(server, target, *, sha256=SHA256, tries=4):
    download(server.url, sha256, target, key=KEY, tries=tries, backoff_s=0.001)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write_part(target: Path, content: bytes) -> None:
    """What an interrupted download has left."""
    part_path(target).parent.mkdir()
    part_path(target).write_bytes(content)


def test_a_url_is_downloaded_whole(server, tmp_path, capsys):
    target = tmp_path / "raw" / "file.tar.gz"
    fetch(UrlSource(kind="url", url=server.url, sha256=SHA256), "imdb", target, name="reviews")
    assert target.read_bytes() == CONTENT
    assert names(target.parent) == ["file.tar.gz"]
    assert server.ranges == [None]
    assert "2.86M/2.86M" in capsys.readouterr().err


def test_a_broken_connection_is_continued_where_it_stopped(server, tmp_path):
    server.breaks = [1_200_000, 700_000]
    get(server, tmp_path / "raw/file")
    assert (tmp_path / "raw/file").read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1200000-", "bytes=1900000-"]
    assert names(tmp_path / "raw") == ["file"]


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.has_ranges = False
    server.breaks = [1_000_000]
    get(server, tmp_path / "raw/file")
    assert (tmp_path / "raw/file").read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1000000-"]


def test_breaks_without_progress_are_bounded_and_keep_what_came(server, tmp_path):
    server.has_ranges = False
    server.breaks = [500_000] * 50
    with pytest.raises(DatasetError, match=r"4 times in a row after 500000 bytes.*Run again"):
        get(server, tmp_path / "raw/file")
    assert len(server.ranges) == 4
    assert names(tmp_path / "raw") == [] and names(tmp_path / "partial") == ["raw.part"]
    server.breaks, server.has_ranges = [], True
    get(server, tmp_path / "raw/file")
    assert server.ranges[-1] == "bytes=500000-"
    assert (tmp_path / "raw/file").read_bytes() == CONTENT


def test_many_breaks_with_progress_are_not_an_error(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "CHUNK_BYTES", 100_000)
    server.breaks = [200_000] * 14
    get(server, tmp_path / "raw/file", tries=2)
    assert (tmp_path / "raw/file").read_bytes() == CONTENT
    assert len(server.ranges) == 15


def test_a_complete_part_needs_no_byte_more(server, tmp_path):
    write_part(tmp_path / "raw/file", CONTENT)
    get(server, tmp_path / "raw/file")
    assert (tmp_path / "raw/file").read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(CONTENT)}-"]


def test_a_part_of_another_file_is_thrown_away(server, tmp_path):
    write_part(tmp_path / "raw/file", b"another version")
    get(server, tmp_path / "raw/file")
    assert (tmp_path / "raw/file").read_bytes() == CONTENT
    assert server.ranges == ["bytes=15-", None]


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    server.content = CONTENT[:-1] + b"!"
    actual = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(DatasetError) as caught:
        get(server, tmp_path / "raw/file")
    message = str(caught.value)
    for part in (server.url, SHA256, actual, f"{KEY}.sha256", "Run again"):
        assert part in message
    assert names(tmp_path / "raw") == names(tmp_path / "partial") == []


def test_a_busy_server_is_asked_again(server, tmp_path):
    server.statuses = [503, 429, 500, 503]
    get(server, tmp_path / "raw/file")
    assert (tmp_path / "raw/file").read_bytes() == CONTENT


def test_a_missing_page_is_an_error_at_once(server, tmp_path):
    server.statuses = [404]
    with pytest.raises(DatasetError, match=rf"404.*{KEY}\.url"):
        get(server, tmp_path / "raw/file")
    assert len(server.ranges) == 1
    assert names(tmp_path / "raw") == names(tmp_path / "partial") == []


def test_nobody_listens(server, tmp_path):
    url = server.url
    server.server_close()
    with pytest.raises(DatasetError, match=r"no answer.*kind: path"):
        download(url, SHA256, tmp_path / "raw/file", key=KEY, tries=2, backoff_s=0.001)


def step(
    config: dict, name: str, target: Path, directory: Path, format: str = "imdb", **options
) -> subprocess.Popen:
    """Start the step as the workflow does."""
    path = directory / f"config/{name}.fetch.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": format, "source": config}))
    given = ["--name", name, "--config", path, "--output", target]
    command = [sys.executable, "-m", "posenc.steps.fetch", *given]
    options.setdefault("preexec_fn", _heed)
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=directory, **options)


def _heed() -> None:
    """Let Ctrl-C end a program, also where the tests themselves run in a shell's background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_download_is_continued(server, tmp_path, kill):
    server.pause_s = 0.3
    (tmp_path / "raw").mkdir()
    target = tmp_path / "raw" / "file"
    config = {"kind": "url", "url": server.url, "sha256": SHA256}
    process = step(config, "reviews", target, tmp_path)
    part = part_path(target)
    wait_for(lambda: process.poll() is not None or (part.exists() and part.stat().st_size > 0))
    process.send_signal(kill)
    _, errors = process.communicate(timeout=PATIENCE)
    codes = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
    assert process.returncode == codes[kill], errors
    assert "Traceback" not in errors
    assert names(target.parent) == []
    had = part.stat().st_size
    assert 0 < had < len(CONTENT)
    # DVC empties the folder before it runs the stage again.
    target.parent.rmdir()
    server.pause_s = 0.0
    process = step(config, "reviews", target, tmp_path)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert server.ranges[-1] == f"bytes={had}-"
    assert target.read_bytes() == CONTENT
    assert names(target.parent) == ["file", "file.json"]
    assert not part.exists()
    assert verify(target, "file.json") == target


def test_the_step_ends_with_one_line(tmp_path):
    process = step(
        {"kind": "path", "path": "absent.tar.gz", "sha256": SHA256},
        "mine",
        tmp_path / "f",
        tmp_path,
    )
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert errors.startswith("error: absent.tar.gz: no such file") and errors.count("\n") == 1
    assert "datasets.mine.source.path" in errors


def test_a_full_disk_ends_with_one_line_and_nothing_partial(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "source").write_bytes(CONTENT)
    process = step(
        {"kind": "path", "path": "source", "sha256": SHA256},
        "mine",
        tmp_path / "raw" / "f",
        tmp_path,
        # A limit on the size of files fails a write as a full disk does.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)),
    )
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("error: [Errno 27] File too large")
    assert "Traceback" not in errors
    assert names(tmp_path / "raw") == []


def test_a_path_is_copied_and_verified(tmp_path):
    (tmp_path / "source").write_bytes(CONTENT)
    source = PathSource(kind="path", path=str(tmp_path / "source"), sha256=SHA256)
    fetch(source, "imdb", tmp_path / "raw" / "file")
    assert (tmp_path / "raw" / "file").read_bytes() == CONTENT
    assert not os.path.samefile(tmp_path / "source", tmp_path / "raw" / "file")


def test_a_path_with_another_content_leaves_nothing(tmp_path):
    (tmp_path / "source").write_bytes(b"else")
    source = PathSource(kind="path", path=str(tmp_path / "source"), sha256=SHA256)
    with pytest.raises(
        DatasetError,
        match=rf"source is not what was expected.*source\.sha256.*{SHA256}.*`posenc repin reviews`",
    ):
        fetch(source, "imdb", tmp_path / "raw" / "file", name="reviews")
    assert names(tmp_path / "raw") == []


def test_a_path_that_is_a_directory(tmp_path):
    source = PathSource(kind="path", path=str(tmp_path), sha256=SHA256)
    with pytest.raises(DatasetError, match="is a folder, which format: truthfulqa does not read"):
        fetch(source, "truthfulqa", tmp_path / "raw/file")


def test_all_splits_of_the_hub_go_to_one_file(tmp_path, monkeypatch):
    import datasets

    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )
    splits = {
        "test": {"text": ["c"], "label": [1]},
        "train": {"text": [f"t{i}" for i in range(5000)], "label": [0] * 5000},
        "unsupervised": {"text": ["u"], "label": [-1]},
    }
    asked = []

    def load_dataset(*arguments, **options):
        asked.append((arguments, options))
        return datasets.DatasetDict(
            {name: datasets.Dataset.from_dict(rows, features) for name, rows in splits.items()}
        )

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    source = HubSource(kind="hub", id="a/b", revision=REVISION, configuration="plain")
    fetch(source, "imdb", tmp_path / "hub.parquet")
    assert asked == [(("a/b", "plain"), {"revision": REVISION})]
    rows = pq.read_table(tmp_path / "hub.parquet").to_pylist()
    expected = [
        {"text": text, "label": label, "split": name}
        for name, columns in splits.items()
        for text, label in zip(columns["text"], columns["label"], strict=True)
    ]
    assert rows == expected
    assert names(tmp_path) == ["hub.parquet"]


def test_an_unreachable_hub_is_named(tmp_path):
    program = (
        "from posenc.datasets.section import HubSource; from posenc.datasets.fetch import fetch;"
        "from pathlib import Path;"
        f"s = HubSource(kind='hub', id='some/thing', revision='{REVISION}');"
        f"fetch(s, 'imdb', Path('hub.parquet'), name='far')"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("posenc.datasets.errors.DatasetError: the data set some/thing")
    assert "cannot be reached" in last and "datasets.far.source: {kind: path" in last
    assert not (tmp_path / "hub.parquet").exists()


def table(columns: dict[str, list]) -> bytes:
    """A Parquet file, as the hub's rows are kept."""
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


REVIEWS = {"text": ["Fine.", "Bad."], "label": [1, 0], "split": ["test", "test"]}
SENTENCES = b'{"text": "One.", "split": "train"}\n{"text": "Two.", "split": "test"}\n'


@pytest.mark.parametrize(
    ("format", "file", "content", "documents"),
    [
        ("text", "a b;.txt", b"One.\nTwo.\n", [("test", "One."), ("test", "Two.")]),
        ("text", "mine.jsonl", SENTENCES, [("train", "One."), ("test", "Two.")]),
        ("text", "hub.parquet", table({"text": ["One."], "split": ["train"]}), [("train", "One.")]),
        ("imdb", "hub.parquet", table(REVIEWS), [("test", "Fine."), ("test", "Bad.")]),
    ],
)
def test_a_raw_file_has_one_name_and_is_read_as_what_it_is(
    tmp_path, format, file, content, documents
):
    """Nothing depends on what its source calls it, and no file is read as one of another kind."""
    (tmp_path / file).write_bytes(content)
    source = {"kind": "path", "path": file, "sha256": hashlib.sha256(content).hexdigest()}
    raw = tmp_path / "data/raw/mine/raw"
    process = step(source, "mine", raw, tmp_path, format)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert names(raw.parent) == ["raw", "raw.json"]
    assert raw.read_bytes() == content and verify(raw, "raw.json") == raw
    text = Text(line_breaks="keep", normalization="none")
    pairs = [
        (document["split"], document["text"])
        for document in parse(raw, Content(format=format, text=text))
    ]
    assert pairs == documents
