"""Jobs run side by side, one per processor, whatever ``--cores`` says."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode

from tests.workflow.conftest import Project

FIGURES = [
    f"data/studies/default/figures/{name}.pdf"
    for name in ("perplexity", "training_loss", "head_offsets")
]


def intervals(project: Project, targets: list[str]) -> list[tuple[float, float]]:
    """When the jobs of some files ran, as Snakemake notes for its report."""
    notes = project.folder / ".snakemake/metadata"
    names = [urlsafe_b64encode(target.encode()).decode() for target in targets]
    records = [json.loads((notes / name).read_text()) for name in names]
    return sorted((record["starttime"], record["endtime"]) for record in records)


def test_eight_cores_on_two_processors_run_two_jobs_side_by_side(core):
    two = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    command = ["taskset", "--cpu-list", two, "snakemake", "--cores", "8", "--resources", "gpu=1"]
    result = core.run(*command, "--verbose", "--forcerun", *FIGURES, "--", *FIGURES)
    assert "Provided cores: 2" in result.stdout
    # It plans when a job ends, not every second for each ended job.
    assert result.stdout.count("Resources before job selection") <= len(FIGURES) + 1
    first, second, third = intervals(core, FIGURES)
    assert second[0] < first[1], "the second did not wait for the first"
    assert third[0] >= min(first[1], second[1]), "the third did"
    core.snakemake()
    assert core.planned() == {}
