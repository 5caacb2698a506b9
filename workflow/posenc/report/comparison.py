"""The numbers in a study's record, against the current ones, which were just made.

On another processor the last digits of a sum differ, and a training diverges from there: the record
says how large a difference its own intervals allow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict

from posenc.artifacts.files import ArtifactError, read_json, write_text
from posenc.artifacts.numbers import FLOAT32
from posenc.artifacts.places import STUDIES
from posenc.artifacts.receipts import inputs_digest
from posenc.report.machines import Machine, described, is_alike, machine
from posenc.report.records import Recorded
from posenc.report.versions import Versions, mixed, of_study, receipts_of

RECORDS = Path("data/records")
NEAR = 0.01
"""By what share a number that follows a training may differ, if it has no interval.

On another make of processor a training's last digits differ, and nothing says how far that goes in
such a number. Between records of the default study from AMD's and Intel's processors, all numbers
that their method determines differ by 0.8 % at most.
"""


class Elsewhere(TypedDict):
    """What another processor gave of recorded numbers, as far as it did not agree.

    Attributes
    ----------
    made_on
        The machine.
    numbers
        By key.
    """

    made_on: Machine
    numbers: dict[str, Recorded]


class Record(TypedDict):
    """A study's record.

    Attributes
    ----------
    made_on
        The machine of its numbers.
    made_with
        Versions of packages. Earlier records lack this and ``documents``.
    documents
        What each document names in place of a commit.
    elsewhere
        What other processors gave.
    numbers
        By key.
    """

    made_on: Machine
    made_with: NotRequired[Versions]
    documents: NotRequired[dict[str, str]]
    elsewhere: NotRequired[list[Elsewhere]]
    numbers: dict[str, Recorded]


@dataclass
class Comparison:
    """Keys of numbers, by how the current number compares with the recorded one.

    Attributes
    ----------
    agreeing
        The same in all printed digits, or up to rounding: see :func:`is_rounding`.
    within
        Different, within the recorded interval.
    near
        Different, without a recorded interval, by no more than ``NEAR`` of the larger of the two.
    elsewhere
        Different by more than that, within what this and other processors gave: see :func:`span`.
    unbounded
        Different without a recorded interval, by more than all that.
    outside
        Outside the recorded interval, another count, or run here and not there.
    lacking
        Recorded and not made.
    new
        Made and not recorded.
    """

    agreeing: list[str] = field(default_factory=list)
    within: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    unbounded: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


def is_rounding(value: float, other: float, rounding: float) -> bool:
    """Whether two numbers are both zero up to rounding, or differ by no more than rounding.

    Parameters
    ----------
    value, other
        Counts, which are whole, are never rounded.
    rounding
        What rounding may leave of 0 and, as a share of the larger of the two, of a difference. It
        follows from the precision of their computation (:data:`posenc.artifacts.numbers.FLOAT32`).
    """
    if isinstance(value, int) and isinstance(other, int):
        return value == other
    largest = max(abs(value), abs(other))
    return largest <= rounding or abs(value - other) <= rounding * largest


def span(entries: Sequence[Recorded]) -> tuple[float, float]:
    """From the least to the most that processors gave of a number, intervals included."""
    return (
        min(entry.get("low", entry["value"]) for entry in entries),
        max(entry.get("high", entry["value"]) for entry in entries),
    )


def _is_within(value: float, low: float, high: float, rounding: float) -> bool:
    return is_rounding(min(max(value, low), high), value, rounding)


def compare(
    recorded: Mapping[str, Recorded],
    current: Mapping[str, Recorded],
    elsewhere: Sequence[Mapping[str, Recorded]] = (),
) -> Comparison:
    """Compare numbers by key.

    Parameters
    ----------
    recorded, current
        What was recorded, and what is there now.
    elsewhere
        What other processors gave of the recorded numbers, as far as it did not agree.
    """
    comparison = Comparison(new=sorted(current.keys() - recorded.keys()))
    for key, old in sorted(recorded.items()):
        now = current.get(key)
        if now is None and "not_run" in old:
            continue  # a reason, which numbers.json need not have
        if now is None:
            comparison.lacking.append(key)
            continue
        kind = _kind(old, now)
        others = [numbers[key] for numbers in elsewhere if key in numbers]
        if kind in ("outside", "unbounded") and others and "not_run" not in now:
            rounding = now.get("rounding", FLOAT32)
            if _is_within(now["value"], *span([old, *others]), rounding):
                kind = "elsewhere"
        getattr(comparison, kind).append(key)
    return comparison


def _kind(old: Recorded, now: Recorded) -> str:
    """The list of :class:`Comparison` that a number belongs to, by the record alone."""
    if old.get("shown", old) == now.get("shown", now):
        return "agreeing"
    if "not_run" in old or "not_run" in now:
        return "outside"
    rounding = now.get("rounding", FLOAT32)
    if is_rounding(old["value"], now["value"], rounding):
        return "agreeing"
    if "low" in old:
        is_within = _is_within(now["value"], old["low"], old["high"], rounding)
        return "within" if is_within else "outside"
    if isinstance(old["value"], int) and isinstance(now["value"], int):
        return "outside"
    values = abs(old["value"]), abs(now["value"])
    return "near" if abs(old["value"] - now["value"]) <= NEAR * max(values) else "unbounded"


def versions_differ(recorded: Versions, current: Versions) -> list[str]:
    """A line for each package with another version than the record's, or with several at once."""
    lines = [
        f"made with {package} {' and '.join(current[package])}, recorded with {' and '.join(old)}"
        for package, old in recorded.items()
        if package in current and current[package] != old
    ]
    return [*lines, *mixed(current)]


def written(entry: Recorded) -> str:
    """A number with its interval, if it has one, or why there is no number."""
    if "not_run" in entry:
        return f"not run ({entry['not_run']})"
    interval = f" [{entry['low']:.4g}, {entry['high']:.4g}]" if "low" in entry else ""
    return f"{entry['shown']}{interval}"


def record_of(study: str, records: Path = RECORDS) -> Path:
    """Where the recorded numbers of a study are; git keeps them."""
    return records / f"{study}.json"


def made_of(study: str) -> Path:
    """Where the current numbers of a study are."""
    return STUDIES / study / "numbers.json"


def recorded(study: str, records: Path = RECORDS) -> dict[str, Recorded]:
    """The recorded numbers of a study by key."""
    return read_json(record_of(study, records))["numbers"]


def all_recorded(records: Path = RECORDS) -> dict[str, dict[str, Recorded]]:
    """The recorded numbers of every study that was recorded, by its name."""
    return {path.stem: recorded(path.stem, records) for path in sorted(records.glob("*.json"))}


def keep(study: str) -> bool:
    """Record the current numbers.

    What other processors gave stays beside each number that is what it was.

    Returns
    -------
    bool
        Whether any differs from before, or was made with other packages.
    """
    path = record_of(study)
    new: Record = {
        "made_on": machine(),
        "made_with": of_study(study),
        "documents": documents_of(study),
        "numbers": read_json(made_of(study)),
    }
    if path.exists():
        old: Record = read_json(path)
        if all(old.get(key) == new.get(key) for key in ("numbers", "made_with", "documents")):
            return False
        new["elsewhere"] = [
            {
                "made_on": other["made_on"],
                "numbers": {
                    key: entry
                    for key, entry in other["numbers"].items()
                    if key in new["numbers"] and old["numbers"].get(key) == new["numbers"][key]
                },
            }
            for other in old.get("elsewhere", [])
        ]
    _write(path, new)
    return True


def keep_beside(study: str) -> int:
    """Keep what this processor gives otherwise beside the numbers of the record.

    Returns
    -------
    int
        How many numbers that is.

    Raises
    ------
    ArtifactError
        If there is no record, nothing was made, numbers are missing, or the record is of a
        processor like this.
    """
    record, now = _record_and_numbers(study)
    here = machine()
    if is_alike(record["made_on"], here):
        raise ArtifactError(
            f"{record_of(study)} is of a processor like this ({described(here)}): what differs is "
            f"not the processor's; `posenc record` records it"
        )
    comparison = compare(record["numbers"], now)
    if comparison.lacking:
        raise ArtifactError(f"{comparison.lacking[0]} was not made here: run `snakemake` first")
    differing = sorted([*comparison.outside, *comparison.unbounded])
    if absent := [key for key in differing if "not_run" in record["numbers"][key] | now[key]]:
        raise ArtifactError(
            f"{absent[0]}: {written(now[absent[0]])}, recorded "
            f"{written(record['numbers'][absent[0]])}: that is no matter of the processor"
        )
    others = [o for o in record.get("elsewhere", []) if not is_alike(o["made_on"], here)]
    if differing:
        others.append({"made_on": here, "numbers": {key: now[key] for key in differing}})
    _write(record_of(study), {**record, "elsewhere": others})
    return len(differing)


def _write(path: Path, record: Record) -> None:
    """Write a record: a line a number, so that git shows what has changed."""

    def rows(numbers: Mapping[str, Recorded]) -> str:
        return ",\n".join(f"  {json.dumps(key)}: {json.dumps(n)}" for key, n in numbers.items())

    about = [f' "made_on": {json.dumps(record["made_on"])}']
    if "made_with" in record:
        about.append(f' "made_with": {json.dumps(record["made_with"])}')
    if "documents" in record:
        about.append(f' "documents": {json.dumps(record["documents"])}')
    others = [
        f' {{"made_on": {json.dumps(other["made_on"])}, "numbers": {{\n'
        f"{rows(other['numbers'])}\n }}}}"
        for other in record.get("elsewhere", [])
        if other["numbers"]
    ]
    if others:
        about.append(' "elsewhere": [\n' + ",\n".join(others) + "\n ]")
    about.append(f' "numbers": {{\n{rows(record["numbers"])}\n }}')
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "{\n" + ",\n".join(about) + "\n}\n")


def documents_of(study: str) -> dict[str, str]:
    """By document of a study, the 12 digits that it names in place of a commit."""
    digests = {}
    for path, receipt in receipts_of(study).items():
        if path.parent.name == "paper":
            digests[path.stem] = inputs_digest(receipt.inputs)
    return digests


def _record_and_numbers(study: str) -> tuple[Record, dict[str, Recorded]]:
    """A study's record, and its current numbers."""
    path, numbers_file = record_of(study), made_of(study)
    for needed, way_out in (
        (path, f"study {study!r} was never recorded: `posenc record` does it"),
        (numbers_file, "run `snakemake` first"),
    ):
        if not needed.exists():
            raise ArtifactError(f"{needed} does not exist: {way_out}")
    return read_json(path), read_json(numbers_file)


def report(study: str) -> tuple[list[str], bool]:
    """Compare a study's record with what was made.

    Returns
    -------
    tuple
        Lines to print, of which the last says whether the results agree and each before it what
        does not; and whether they do.

    Raises
    ------
    ArtifactError
        If there is no record, or nothing was made.
    """
    record, now = _record_and_numbers(study)
    old, elsewhere = record["numbers"], record.get("elsewhere", [])
    comparison = compare(old, now, [other["numbers"] for other in elsewhere])
    lines = [
        f"recorded on {described(record['made_on'])}",
        f"made on     {described(machine())}",
        *versions_differ(record.get("made_with", {}), of_study(study)),
    ]
    lines += [
        f"differs: {k}: {written(now[k])}, recorded {written(old[k])}" for k in comparison.outside
    ]
    lines += [
        f"differs: {k}: {written(now[k])}, recorded {written(old[k])} without an interval"
        for k in comparison.unbounded
    ]
    lines += [f"not made here: {key}" for key in comparison.lacking]
    differing = bool(comparison.outside or comparison.unbounded or comparison.lacking)
    verdict = (
        "differ from the record in what is named above" if differing else "agree with the record"
    )
    of = (
        f"of {len(old)} recorded numbers, {len(comparison.agreeing)} the same up to rounding,"
        f" {len(comparison.within)} within the recorded interval and {len(comparison.near)} that"
        f" have none within {100 * NEAR:.0f} %"
    )
    if comparison.elsewhere:
        of += f", and {len(comparison.elsewhere)} between what processors gave that were recorded"
    if comparison.new:
        of += f"; {len(comparison.new)} more not in the record"
    return [*lines, f"The results {verdict}: {of}."], not differing
