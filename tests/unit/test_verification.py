"""Every file is read again: what is damaged, gone or of something else is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from posenc.artifacts import receipts
from posenc.artifacts.contents import Contents
from posenc.artifacts.receipts import Receipt
from posenc.frontends.verification import of_study, verify_files
from posenc.study import config_files, configs
from posenc.study.params import Params

from .synthetic import params_of

PARAMS = params_of()
RAW, CONFIG = "data/raw/mine/raw", "data/config/measurements/similarity/decoder.json"
MADE, DRAWN = (
    f"data/studies/{PARAMS.study.name}/{name}"
    for name in ("measurements/similarity/decoder.json", "figures/similarity.svg")
)
JOBS = {
    f"data/studies/{PARAMS.study.name}/receipts/measurements/similarity.json": (
        (RAW, CONFIG),
        (MADE,),
    ),
    f"data/studies/{PARAMS.study.name}/receipts/figures/similarity.json": ((MADE,), (DRAWN,)),
}
"""A chain of two jobs: what they read, and what they make."""
FIRST, SECOND = JOBS


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch) -> Path:
    """A finished study, as far as verification looks."""
    monkeypatch.chdir(tmp_path)
    config_files.materialize(PARAMS)
    for path in (RAW, MADE, DRAWN):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(f"what {path} holds")
    contents = Contents(None)
    for place, (read, written) in JOBS.items():
        inputs, outputs = (receipts.digests(paths, contents.digest) for paths in (read, written))
        Receipt("rule", "command", inputs, outputs, {}).write(Path(place))
    assert verify_files(PARAMS)[0] == []
    return tmp_path


def wrong(params: Params = PARAMS) -> list[str]:
    return verify_files(params)[0]


def test_files_and_bytes_are_counted():
    files = (RAW, CONFIG, MADE, DRAWN)
    size = sum(Path(path).stat().st_size for path in files)
    assert verify_files(PARAMS) == ([], len(files), size)


@pytest.mark.parametrize("path", [MADE, DRAWN])
def test_bit_rot_is_found_by_reading_and_the_next_run_knows(path):
    """It changes neither size nor date."""
    before, whole = Path(path).stat(), Contents().digest(path)
    content = bytearray(Path(path).read_bytes())
    content[3] ^= 1
    Path(path).write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert wrong() == [f"damaged: {path}"], "named once, not again where it is read"
    assert Contents().digest(path) != whole
    assert Path(path).stat().st_mtime_ns != before.st_mtime_ns, "DVC goes by dates alone"


def test_what_is_gone_is_named():
    Path(DRAWN).unlink()
    assert wrong() == [f"gone: {DRAWN}"]


def test_what_nobody_made_and_is_another_makes_its_readers_stale():
    Path(RAW).write_text("edited")
    assert wrong() == [f"not current: {FIRST}: {RAW} changed since"]
    Path(RAW).unlink()
    assert wrong() == [f"not current: {FIRST}: {RAW} changed since"]


def test_an_edit_of_parameters_counts_before_it_is_written_for_jobs():
    similarity = PARAMS.measurements.similarity.model_copy(update={"seed": 99})
    measurements = PARAMS.measurements.model_copy(update={"similarity": similarity})
    edited = PARAMS.model_copy(update={"measurements": measurements})
    if edited.parameters.similarity.seed != 99:
        edited = edited.model_copy(update={"study": edited.study.model_copy(deep=True)})
    changed = (
        dict(configs.sections(edited))[Path(CONFIG)] != dict(configs.sections(PARAMS))[Path(CONFIG)]
    )
    assert changed
    assert wrong(edited) == [f"not current: {FIRST}: {CONFIG} changed since"]
    # What was written for jobs does not count.
    Path(CONFIG).write_text("{}")
    assert wrong() == []


def test_a_damaged_receipt_is_named_and_vouches_for_nothing():
    Path(FIRST).write_text(Path(FIRST).read_text().replace("rule", "mule", 1))
    by_path = of_study(PARAMS)
    assert by_path[Path(FIRST)] is None and by_path[Path(SECOND)] is not None
    assert wrong() == [f"damaged: {FIRST}: it is no receipt"]


def test_receipts_of_other_studies_are_not_read_and_shared_ones_are():
    shared = "data/receipts/raw_text/fetch/mine.json"
    for place in (shared, "data/studies/another/receipts/page/page.json"):
        Receipt("fetch", "command", {}, {"data/lost": "0" * 64}, {}).write(Path(place))
    assert set(map(str, of_study(PARAMS))) == {*JOBS, shared}
    assert wrong() == ["gone: data/lost"]
