"""The numbers in a study's record, against the current ones, which were just made.

On another processor the last digits of a sum differ, and a training diverges from there: the record
says how large a difference its own intervals allow.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from posenc.artifacts.files import ArtifactError, read_json, write_text
from posenc.artifacts.numbers import FLOAT32
from posenc.artifacts.places import STUDIES
from posenc.artifacts.receipts import inputs_digest
from posenc.report.records import Recorded
from posenc.report.versions import Versions, mixed, of_study, receipts_of

RECORDS = Path("data/records")
CPUINFO = Path("/proc/cpuinfo")
FLAGS = ("avx2", "avx512f", "amx_tile")
NEAR = 0.01
"""By what share a number that follows a training may differ, if it has no interval.

On another make of processor a training's last digits differ, and nothing says how far that goes in
such a number. Between records of the default study from AMD's and Intel's processors, all numbers
that their method determines differ by 0.8 % at most.
"""


class Machine(TypedDict):
    """What determines last digits on a machine.

    Attributes
    ----------
    processor
        Its name.
    instructions
        Those of ``FLAGS`` that it has.
    processors
        How many a process may use.
    torch
        Its version.
    """

    processor: str
    instructions: list[str]
    processors: int
    torch: str


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
    unbounded
        Different in the same way, by more than that.
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
    unbounded: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


def processor(cpuinfo: Path = CPUINFO) -> tuple[str, list[str]]:
    """A processor's name and its instructions; nothing where the system does not list them."""
    try:
        text = cpuinfo.read_text(encoding="utf-8")
    except OSError:
        text = ""
    parts = (line.partition(":") for line in text.splitlines())
    said = {name.strip(): value.strip() for name, _, value in parts}
    return said.get("model name", ""), said.get("flags", "").split()


def machine(cpuinfo: Path = CPUINFO) -> Machine:
    """This machine."""
    name, flags = processor(cpuinfo)
    return {
        "processor": name or platform.processor() or platform.machine(),
        "instructions": [flag for flag in FLAGS if flag in flags],
        "processors": len(os.sched_getaffinity(0)),
        "torch": importlib.metadata.version("torch"),
    }


def described(facts: Machine) -> str:
    """A machine in a line."""
    instructions = ", ".join(facts["instructions"]) or "none of " + ", ".join(FLAGS)
    return (
        f"{facts['processor']} ({instructions}), {facts['processors']} processors,"
        f" torch {facts['torch']}"
    )


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


def compare(recorded: Mapping[str, Recorded], current: Mapping[str, Recorded]) -> Comparison:
    """Compare numbers by key."""
    comparison = Comparison(new=sorted(current.keys() - recorded.keys()))
    for key, old in sorted(recorded.items()):
        now = current.get(key)
        if now is None and "not_run" in old:
            continue  # a reason, which numbers.json need not have
        if now is None:
            comparison.lacking.append(key)
        elif old.get("shown", old) == now.get("shown", now):
            comparison.agreeing.append(key)
        elif "not_run" in old or "not_run" in now:
            comparison.outside.append(key)
        elif is_rounding(old["value"], now["value"], now.get("rounding", FLOAT32)):
            comparison.agreeing.append(key)
        elif "low" in old:
            nearest = min(max(now["value"], old["low"]), old["high"])
            inside = is_rounding(nearest, now["value"], now.get("rounding", FLOAT32))
            (comparison.within if inside else comparison.outside).append(key)
        elif isinstance(old["value"], int) and isinstance(now["value"], int):
            comparison.outside.append(key)
        else:
            values = abs(old["value"]), abs(now["value"])
            is_near = abs(old["value"] - now["value"]) <= NEAR * max(values)
            (comparison.near if is_near else comparison.unbounded).append(key)
    return comparison


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

    Returns
    -------
    bool
        Whether any differs from before, or was made with other packages.
    """
    path, numbers = record_of(study), read_json(made_of(study))
    facts = {"made_with": of_study(study), "documents": documents_of(study)}
    if path.exists():
        record = read_json(path)
        if record["numbers"] == numbers and all(record.get(k) == v for k, v in facts.items()):
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # A line a number, so that git shows what has changed.
    lines = [f"  {json.dumps(key)}: {json.dumps(entry)}" for key, entry in numbers.items()]
    about = "".join(f' "{key}": {json.dumps(value)},\n' for key, value in facts.items())
    head = f'{{\n "made_on": {json.dumps(machine())},\n{about} "numbers": {{\n'
    write_text(path, head + ",\n".join(lines) + "\n }\n}\n")
    return True


def documents_of(study: str) -> dict[str, str]:
    """By document of a study, the 12 digits that it names in place of a commit."""
    digests = {}
    for path, receipt in receipts_of(study).items():
        if path.parent.name == "paper":
            digests[path.stem] = inputs_digest(receipt.inputs)
    return digests


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
    path, numbers_file = record_of(study), made_of(study)
    for needed, way_out in (
        (path, f"study {study!r} was never recorded: `posenc record` does it"),
        (numbers_file, "run `snakemake` first"),
    ):
        if not needed.exists():
            raise ArtifactError(f"{needed} does not exist: {way_out}")
    record, now = read_json(path), read_json(numbers_file)
    old, comparison = record["numbers"], compare(record["numbers"], now)
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
    if comparison.new:
        of += f"; {len(comparison.new)} more not in the record"
    return [*lines, f"The results {verdict}: {of}."], not differing
