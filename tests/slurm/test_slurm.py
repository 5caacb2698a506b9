"""The tiny study on a real Slurm: what its jobs ask for, the same bytes, and failures that end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from posenc.study.declared import MEASUREMENTS
from tests.workflow.conftest import ROOT, Project, make_project
from tests.workflow.test_front_ends import artifacts

COMMAND = "POSENC_SLURM=1 python -m pytest tests/slurm"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "POSENC_SLURM" not in os.environ,
        reason=f"starts a Slurm on this machine, as root: {COMMAND}",
    ),
]

CLUSTER = Path(__file__).with_name("cluster.sh")
PROFILE = "workflow/profiles/slurm"
PLUGIN = (
    "snakemake-executor-plugin-slurm==2.8.0",
    "snakemake-executor-plugin-slurm-jobstep==0.6.1",
    "throttler==1.2.3",
)
GPU_RULES = ("train", "capture", "masks", "evaluate")
# Where the node is smaller than a site's. Bytes are compared on one thread, as in make_project;
# the key replaces the profile's, so it names every rule that has threads.
THREADS = {
    "train": 1, "capture": 1, "masks": 1, "evaluate": 1, "tokenizer": os.cpu_count(),
    "training_tokens": 1,
}  # fmt: skip
PARTS = 2
FOR_ONE_NODE = (
    "--set-threads",
    *(f"{rule}={threads}" for rule, threads in THREADS.items()),
    "--set-scatter",
    f"capture={PARTS}",
    "--slurm-init-seconds-before-status-checks",
    "3",
    "--latency-wait",
    "5",
)


@pytest.fixture(scope="session")
def cluster():
    """A Slurm of one node; one already up stays up."""
    result = subprocess.run(["bash", CLUSTER, "up"], stdout=subprocess.PIPE, text=True)
    line = result.stdout.strip().rpartition("\n")[2]
    if result.returncode == 77:
        pytest.skip(line)
    assert result.returncode == 0, result.stdout
    yield
    if line != "slurm: is up already":
        subprocess.run(["bash", CLUSTER, "down"], check=True)


@pytest.fixture(scope="session")
def plugin(pytestconfig, cluster) -> Path:
    """A folder with the Slurm plugin, beside the environment and not in it.

    Snakemake loads every plugin that is installed, and this one asks Slurm before anything else:
    if its controller does not answer, each call of Snakemake takes ten seconds longer.
    Without its dependencies, which the environment has, the folder replaces nothing there.
    """
    folder = pytestconfig.cache.mkdir("slurm-plugin")
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text().split() != list(PLUGIN):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        result = subprocess.run(
            [*command, "--disable-pip-version-check", "--target", folder, *PLUGIN],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if result.returncode != 0:
            pytest.skip(f"the plugin cannot be installed: {result.stdout.strip().splitlines()[-1]}")
        stamp.write_text("\n".join(PLUGIN))
    return folder


def on_slurm(
    project: Project, plugin: Path, *arguments: str, seconds: float
) -> subprocess.CompletedProcess:
    """Run Snakemake through the profile; hanging is an error."""
    path = f"{project.environment['PYTHONPATH']}:{plugin}"
    return subprocess.run(
        ["snakemake", "--profile", PROFILE, *FOR_ONE_NODE, *arguments],
        cwd=project.folder,
        env={**project.environment, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )


def records(output: str) -> list[dict[str, str]]:
    """What Slurm itself says of each job of a run, with the rule and its wildcards."""
    run = re.search(r"SLURM run ID: (\S+)", output)[1]
    assert run.startswith("posenc_")
    lines = subprocess.run(
        ["scontrol", "--oneliner", "--details", "show", "job"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    jobs = [dict(re.findall(r"(?:^| )([\w/]+)=(\S*)", line)) for line in lines]
    jobs = [job for job in jobs if job["JobName"] == run]
    for job in jobs:
        name = job["Comment"].removeprefix("rule_")
        job["rule"], _, job["wildcards"] = name.partition("_wildcards_")
    return jobs


def asked(rule: str) -> dict[str, int]:
    """What a rule asks for, by the profile or the rule of all measurements."""
    profile = YAML(typ="safe").load((ROOT / PROFILE / "config.yaml").read_text())
    text = (ROOT / "workflow/rules/measurements.smk").read_text()
    loop, own = text.partition("\n    rule:\n")[2], re.findall(r"(?m)^rule (\w+):", text)
    of_loop = dict(re.findall(r"(mem_mb|runtime)=(\d+)", loop))
    is_measured = rule in {*MEASUREMENTS} - {*own}
    measured = {name: int(value) for name, value in of_loop.items()} if is_measured else {}
    named = profile["set-resources"].get(rule, {})
    return {"gpu": 0, **profile["default-resources"], **measured, **named}


def minutes(limit: str) -> int:
    """Slurm's ``[days-]hours:minutes:seconds``."""
    days, _, clock = limit.rpartition("-")
    hours, rest, _ = map(int, clock.split(":"))
    return int(days or 0) * 1440 + hours * 60 + rest


@pytest.fixture(scope="session")
def finished_on_slurm(plugin, tmp_path_factory) -> tuple[Project, str]:
    """The tiny study, run on Slurm, and what Snakemake said."""
    project = make_project(tmp_path_factory.mktemp("slurm"))
    result = on_slurm(project, plugin, seconds=1800)
    assert result.returncode == 0, result.stdout[-6000:]
    return project, result.stdout


def test_each_job_ran_on_the_node_with_what_the_profile_asks_for(finished_on_slurm):
    _, output = finished_on_slurm
    jobs = records(output)
    node = subprocess.run(
        ["sinfo", "--noheader", "--format=%N"], capture_output=True, text=True, check=True
    ).stdout.strip()
    submitted = Counter(re.findall(r"(?m)^rule (\w+):$", output))
    assert Counter(job["rule"] for job in jobs) == submitted
    assert {*GPU_RULES, "tokenize", "similarity", "typeset"} <= submitted.keys()
    for job in jobs:
        want = asked(job["rule"])
        assert job["JobState"] == "COMPLETED" and job["ExitCode"] == "0:0", job
        assert job["NodeList"] == node
        assert int(job["Mem"]) == want["mem_mb"], job
        assert minutes(job["TimeLimit"]) == want["runtime"], job
        assert int(job["NumCPUs"]) == THREADS.get(job["rule"], 1), job
        assert want["gpu"] == (job["rule"] in GPU_RULES)
        # Given by Slurm, not only asked for.
        assert job["JOB_GRES"] == ("gpu:1" if want["gpu"] else "(null)"), job
    # Slurm decides how many run; the default profile's one job per GPU suits one machine.
    times = sorted((job["SubmitTime"], job["EndTime"]) for job in jobs if asked(job["rule"])["gpu"])
    assert any(later[0] < sooner[1] for sooner, later in pairwise(times)), times


def test_a_capture_is_spread_over_jobs(finished_on_slurm):
    project, output = finished_on_slurm
    rules = "".join(path.read_text() for path in project.folder.glob("workflow/rules/*.smk"))
    if "scattergather" not in rules:
        pytest.skip("the rules split nothing")
    captures = [job["wildcards"] for job in records(output) if job["rule"] == "capture"]
    parts = Counter(re.sub(r"_?\d+-of-\d+$", "", wildcards) for wildcards in captures)
    assert set(parts.values()) == {PARTS}, captures


def test_the_bytes_are_those_of_a_local_run(finished_on_slurm, tmp_path):
    local = make_project(tmp_path)
    local.snakemake()
    digests = artifacts(finished_on_slurm[0])
    assert "data/studies/default/metrics.json" in digests
    assert digests == artifacts(local)


def test_what_slurm_made_is_current_without_it(finished_on_slurm):
    assert finished_on_slurm[0].planned() == {}


def test_a_job_that_fails_ends_the_run_and_says_where_to_look(plugin, tmp_path):
    project = make_project(tmp_path)
    project.edit("models.minilm.source.sha256", "0" * 64)
    start = time.monotonic()
    target = "data/models/minilm/model.safetensors"
    result = on_slurm(project, plugin, "--", target, seconds=300)
    assert result.returncode == 1
    assert time.monotonic() - start < 180
    (job,) = records(result.stdout)
    assert (job["rule"], job["JobState"], job["ExitCode"]) == ("model", "FAILED", "1:0")
    assert f"SLURM-job '{job['JobId']}' failed" in result.stdout
    assert "Traceback" not in result.stdout
    # Both logs are named: the rule's own, and Slurm's with all that the node printed.
    named = re.search(r"(?m)^    log: (\S+), (\S+) \(check log", result.stdout)
    for log in named.groups():
        lines = (project.folder / log).read_text().splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        assert len(errors) == 1 and "models.minilm.source.sha256" in errors[0], log
    assert not (project.folder / target).exists()
