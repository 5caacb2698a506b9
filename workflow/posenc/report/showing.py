"""A number traced back: its interval, its file, and the job that made the file, with its inputs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from posenc.artifacts.numbers import Entry, Number
from posenc.artifacts.receipts import Digest, Receipt, difference
from posenc.report.collection import collect
from posenc.report.page_rows import label_of
from posenc.report.quantities import decimals_of, encoders, written
from posenc.report.records import Results

MOST = 8
"""Keys that are suggested in place of an unknown one."""


class UnknownKeyError(KeyError):
    """There is no number of this key; the message has some that there are."""

    def __str__(self) -> str:
        return str(self.args[0])


def measurements_of(receipt: Receipt) -> tuple[Path, Path, list[Path]]:
    """What the numbers of a study were read from: published ones, versions, measurements."""
    paths = list(map(Path, receipt.inputs))
    published = next(path for path in paths if path.suffix == ".yaml")
    versions = next(path for path in paths if path.parts[0] == "docs")
    measured = [path for path in paths if path.parts[0] == "data" and path.parts[1] != "config"]
    return published, versions, measured


def described(
    key: str,
    results: Results,
    receipts: Mapping[Path, Receipt | None],
    digest: Digest,
    commit: str,
) -> list[str]:
    """What there is to say of a number, in lines.

    Parameters
    ----------
    key
        As in ``numbers.json``, or with a role in the place of a model or data set.
    results
        The study, with its measurements.
    receipts
        Those of its jobs.
    digest
        SHA-256 of what is there now, by path.
    commit
        The commit of the code that is there now, in words.

    Raises
    ------
    UnknownKeyError
        If there is no such number.
    """
    numbers = collect(results)
    if key not in numbers:
        raise UnknownKeyError(f"there is no number {key!r}{_suggested(key, numbers)}")
    entry, place = numbers[key], numbers.places[key]
    of = (place.model, place.dataset, place.condition)
    what = label_of(place, encoders(results.study))
    lines = [key, f"  what: {', '.join(filter(None, [what, *of]))}"]
    if not isinstance(entry, Number):
        return [*lines, f"  not run: {entry.reason}"]
    lines.append(f"  value: {written(entry.value, decimals_of(entry))} ({entry.value!r})")
    if entry.low is not None and entry.high is not None:
        lines.append(f"  interval: {entry.low!r} to {entry.high!r}{_share(results, place.files)}")
    if not place.files:
        return [*lines, "  file: none, it is a constant"]
    for file in place.files:
        lines.append(f"  file: {file}")
        path, receipt = _maker(file, receipts)
        if receipt is None:
            lines.append("  receipt: none, so nothing says what made it; run `snakemake`")
            continue
        why = difference(receipt, digest)
        lines.append(f"  current: {'yes' if why is None else f'no, {why}; run `snakemake`'}")
        lines.append(f"  made again by: snakemake --cores 2 -- {path}")
        lines.append(f"  command: {receipt.command}")
        lines.append(f"  inputs, with the first 12 digits of their SHA-256 (all in {path}):")
        lines += [f"    {sha256[:12]}  {name}" for name, sha256 in receipt.inputs.items()]
        made_with = ", ".join(f"{name} {version}" for name, version in receipt.versions.items())
        lines.append(f"  versions: {made_with}")
    return [*lines, f"  commit of the code that is here: {commit}"]


def _share(results: Results, files: Iterable[str]) -> str:
    shares = {
        measurement.get("confidence")
        for measurement in results.measurements
        if measurement["file"] in files
    }
    return "".join(f", {100 * share:.4g} %" for share in shares if share)


def _maker(
    file: str, receipts: Mapping[Path, Receipt | None]
) -> tuple[Path | None, Receipt | None]:
    for path, receipt in receipts.items():
        if receipt is not None and file in receipt.outputs:
            return path, receipt
    return None, None


def _suggested(key: str, numbers: Mapping[str, Entry]) -> str:
    """Measured numbers that have all words of an unknown key, or are like it; or where all are."""
    known = [name for name, entry in numbers.items() if isinstance(entry, Number)]
    words = key.lower().replace(".", " ").split()
    matches = [name for name in known if words and all(word in name.lower() for word in words)]
    matches = matches or difflib.get_close_matches(key, known, n=3)
    if not matches:
        return "; numbers.json in the study's folder has all keys"
    more = [f"and {len(matches) - MOST} more"] if len(matches) > MOST else []
    return "; did you mean one of these?" + "".join(
        f"\n  {line}" for line in [*matches[:MOST], *more]
    )
