"""Where the time of a study goes: seconds and processor seconds of its jobs, by rule.

``python -m tests.benchmarks.profile`` in a checkout whose study has just been run prints the table;
``--write`` puts it into docs/performance.md. Snakemake measured each job (``logs/benchmarks``).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from posenc.frontends.forecast import times
from posenc.report.machines import described, machine
from posenc.study.params import load
from tests.benchmarks import pages

LONGEST = 12
"""Rules with a row of their own."""


def jobs(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Seconds, and processor seconds, of each job of a study's folder, by rule."""
    by_rule: dict[str, list[tuple[float, float]]] = {}
    for path in sorted(folder.rglob("*.tsv")):
        rule = path.relative_to(folder).parts[0].removesuffix(".tsv")
        with path.open(encoding="utf-8") as file:
            (row,) = csv.DictReader(file, delimiter="\t")
        by_rule.setdefault(rule, []).append((float(row["s"]), float(row["cpu_time"])))
    return by_rule


def table(by_rule: Mapping[str, list[tuple[float, float]]], facts: Mapping) -> Iterable[str]:
    """Lines of Markdown: the rules that take longest, the others together, and the sum."""
    sums = {
        rule: (len(times), sum(wall for wall, _ in times), sum(cpu for _, cpu in times))
        for rule, times in by_rule.items()
    }
    order = sorted(sums, key=lambda rule: -sums[rule][1])
    rows = {rule: sums[rule] for rule in order[:LONGEST]}
    for name, rules in ("the others", order[LONGEST:]), ("**all**", order):
        rows[name] = tuple(sum(sums[rule][n] for rule in rules) for n in range(3))  # type: ignore[assignment]
    yield described(facts)
    yield ""
    yield "| rule | jobs | seconds | processor seconds |"
    yield "| --- | ---: | ---: | ---: |"
    for rule, (count, wall, cpu) in rows.items():
        yield f"| {rule} | {count} | {wall:.0f} | {cpu:.0f} |"


def main() -> None:
    """Print the table, or write it into the page."""
    study = load("params.yaml").study.name
    lines = "\n".join(table(jobs(times(study)), machine()))
    if "--write" not in sys.argv[1:]:
        print(lines)
        return
    pages.show(profile=f"{lines}\n")


if __name__ == "__main__":
    main()
