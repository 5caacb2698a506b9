"""Bit rot changes no date: it is found by reading every file again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from posenc.artifacts.files import mark_for_remaking, sha256_file
from posenc.study.ledger import STANDS_FOR_FOLDER, Ledger, parts_of


def verify_files() -> tuple[list[Path], int, int]:
    """Compare every file that a job made with its recorded checksum, and mark what is damaged.

    Outputs that a date or a record says are others since they were last looked at are left to the
    next run, which reads them.

    Returns
    -------
    tuple
        Paths of damaged files, how many files were read, and their bytes.
    """
    with Ledger() as ledger:
        # Those without a file are left to the next run as well.
        there = [p for p in ledger.outputs() if p.exists()]
        known = [p for p in there if ledger.is_as_left(p) or ledger.is_altered(p)]
        outputs = {p: ledger.recorded(p) for p in known}
    damaged = _damaged(outputs)
    beside: dict[Path, str] = {}
    for path in outputs.keys() - set(damaged):
        if path.name in STANDS_FOR_FOLDER:
            beside |= {path.with_name(name): sha256 for name, sha256 in parts_of(path).items()}
    broken = _damaged(beside)
    folders = {part.parent for part in broken}
    stand_ins = [p for p in outputs if p.name in STANDS_FOR_FOLDER and p.parent in folders]
    for path in (*damaged, *broken, *stand_ins):
        mark_for_remaking(path)
    every = [path for path in (*outputs, *beside) if path.exists()]
    return damaged + broken, len(every), sum(path.stat().st_size for path in every)


def _damaged(expected: dict[Path, str]) -> list[Path]:
    """Files that are gone, or whose bytes have another SHA-256."""
    paths = [path for path in sorted(expected) if path.exists()]
    with ThreadPoolExecutor() as pool:  # hashing leaves the interpreter free
        read = tqdm(pool.map(sha256_file, paths), "verify", len(paths), unit="file", leave=False)
        found = dict(zip(paths, read, strict=True))
    return [path for path in sorted(expected) if found.get(path) != expected[path]]
