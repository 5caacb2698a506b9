"""What the two front ends cost when there is little or nothing to do, by number of runs.

``python -m tests.benchmarks.overhead`` makes copies of the project with tables of 10, 100 and 400
runs. Empty files stand in for the results: only the front ends are measured, no
number comes of it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from ruamel.yaml import YAML

from tests.workflow.conftest import Project, make_project

TABLES = {10: (1, 5, 2), 100: (5, 5, 4), 400: (10, 10, 4)}  # models, data sets, conditions


def widen(project: Project, models: int, datasets: int, conditions: int) -> None:
    """Give the default study this many models, data sets, conditions, all fetched."""
    path = project.folder / "params.yaml"
    yaml = YAML(typ="safe")
    yaml.representer.ignore_aliases = lambda *_: True
    raw = yaml.load(path.read_text())
    names = {
        "models": [f"model{n}" for n in range(models)],
        "datasets": ["sample_reviews", *(f"dataset{n}" for n in range(1, datasets))],
        "conditions": ["intact", *(f"condition{n}" for n in range(1, conditions))],
    }
    for kind, origin in (("models", "minilm"), ("datasets", "sample_reviews")):
        raw[kind].update({name: raw[kind][origin] for name in names[kind]})
    raw["conditions"] = {name: {"position": "zero"} for name in names["conditions"][1:]}
    study = raw["studies"]["default"]
    models = dict.fromkeys(("captured", "pretrained", "finetuned", "examined"), names["models"])
    study.update(names, **models, trained={}, calibration=names["datasets"][0])
    with path.open("w") as file:
        yaml.dump(raw, file)


def stand_in(project: Project) -> int:
    """Run every job with a step that only writes its files' names; return the number of files."""
    jobs = project.folder / "workflow/posenc/artifacts/jobs.py"
    text = jobs.read_text()
    for step, instead in STAND_INS.items():
        assert step in text
        text = text.replace(step, instead)
    jobs.write_text(text + STAND_IN)
    project.snakemake()
    project.run("dvc", "commit", "--force", "--quiet")
    return sum(path.is_file() for path in (project.folder / "data/studies").rglob("*"))


STAND_INS = {
    'runpy.run_module(command[0], run_name="__main__", alter_sys=True)': "_stand_in(options)",
    "receipts.parts_of(Path(path))": "{}",
}
STAND_IN = """

def _stand_in(options):
    paths = {Path(path) for path in options["outputs"] if "/receipts/" not in path}
    paths |= {Path(folder) / "file" for folder in options.get("folders", ())}
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(path))
"""


def seconds(project: Project, *command: str, repeats: int = 3) -> float:
    """Median wall time of a command."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        project.run(*command)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main(runs: Annotated[list[int] | None, typer.Option(help="10, 100 or 400")] = None) -> None:
    """Print a table, in Markdown."""
    print("| runs | stages | files | no-op snakemake | no-op dvc repro | dvc status |", end="")
    print(" plan of an edit | after `dvc commit` or checkout |")
    print("| --- " * 8 + "|")
    for number in runs or TABLES:
        with tempfile.TemporaryDirectory() as folder:
            project = make_project(Path(folder))
            widen(project, *TABLES[number])
            files = stand_in(project)
            stages = len(project.run("dvc", "stage", "list", "--name-only").stdout.split())
            plain = seconds(project, "snakemake", "--cores", "2")
            repro = seconds(project, "dvc", "repro")
            status = seconds(project, "dvc", "status")
            project.edit("measurements.similarity.seed", 9)
            edit = seconds(project, "snakemake", "--cores", "2", "--dry-run")
            project.edit("measurements.similarity.seed", 0)
            for file in (project.folder / "data/studies").rglob("index.parquet"):
                file.touch()
            agreed = seconds(project, "snakemake", "--cores", "2", "--dry-run", repeats=1)
            figures = " | ".join(f"{t:.1f} s" for t in (plain, repro, status, edit, agreed))
            print(f"| {number} | {stages} | {files} | {figures} |", flush=True)


if __name__ == "__main__":
    typer.run(main)
