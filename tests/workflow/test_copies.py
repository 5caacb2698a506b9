"""Copies of the project without git, and unwritable ones, plan and say what is wrong."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.budget import PATIENCE

from .conftest import Project, make_project

SECONDS = 180
"""No command below takes longer: what hangs is a failure too."""
READ_ONLY = (
    "unshare", "--mount", "--map-root-user", "bash", "-c",
    'mount --bind "$PWD" "$PWD" && mount -o remount,bind,ro "$PWD" && cd "$PWD" && exec "$@"', "_",
)  # fmt: skip
"""Runs a command in a view of the current folder that refuses every write, root's too."""
needs_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None
    or bool(subprocess.run([*READ_ONLY, "true"], capture_output=True, timeout=PATIENCE).returncode),
    reason="this machine does not let a test mount a folder read-only",
)


class Copy(Project):
    """A copy whose commands have a time limit."""

    def run(self, *command, check=True):
        return super().run("timeout", str(SECONDS), *command, check=check)

    def read_only(self, *command):
        """Run a command that cannot write; it must print no traceback."""
        result = self.run(*READ_ONLY, *command, check=False)
        assert "Traceback" not in result.stdout
        return result


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The core study before any run."""
    return make_project(tmp_path_factory.mktemp("tiny") / "project", core=True)


@pytest.fixture
def exported(tiny, tmp_path):
    """What `git archive` leaves: no history, and the dates of the commit."""
    folder = tmp_path / "exported"
    folder.mkdir()
    archive = tiny.run("git", "archive", "--output", str(tmp_path / "a.tar"), "HEAD")
    assert archive.returncode == 0
    shutil.unpack_archive(tmp_path / "a.tar", folder)
    return Copy(folder)


def planned(output):
    """Jobs by rule, from a dry run."""
    table = output.split("Job stats:")[1].split("total")[0]
    return dict(re.findall(r"(?m)^(\w+) +(\d+)$", table))


def lines_with(output, word):
    return [line for line in output.splitlines() if word in line]


LOCK = """schema: '2.0'
stages:
  numbers@default:
    cmd: posenc stage numbers
    outs:
    - path: data/studies/default/metrics.json
      hash: md5
      md5: 99914b932bd37a50b983c5e7c90ae93b
      size: 2
"""
"""DVC's record of a file that came with the copy."""


def test_without_git_it_plans_and_runs(tiny, exported):
    metrics = exported.folder / "data/studies/default/metrics.json"
    metrics.parent.mkdir(parents=True, exist_ok=True)
    metrics.write_text("{}")
    (exported.folder / "dvc.lock").write_text(LOCK)
    plan = exported.snakemake("--dry-run").stdout
    assert len(lines_with(plan, "DVC is not used in this run: this copy has no git")) == 1
    assert planned(plan) == planned(tiny.snakemake("--dry-run").stdout)
    assert "params.yaml is valid" in exported.run("posenc", "check").stdout
    target = "data/documents/sample_reviews.parquet"
    ran = exported.snakemake("--", target).stdout
    assert len(lines_with(ran, "DVC is not used in this run")) == 1
    assert (exported.folder / target).exists()
    assert "Nothing to be done" in exported.snakemake("--dry-run", "--", target).stdout


def test_with_git_nothing_is_said_of_it(tiny):
    assert "DVC is not used in this run" not in tiny.snakemake("--dry-run").stdout


def test_without_git_recording_says_what_is_missing(exported):
    refused = exported.run("posenc", "record", check=False)
    assert refused.returncode == 1
    (line,) = refused.stdout.splitlines()
    assert line.startswith(
        "error: nothing is recorded: this copy has no git repository; `dvc config"
    )


def test_what_it_names_lets_dvc_work_without_git(exported):
    said = exported.run("posenc", "record", check=False).stdout
    (command,) = re.findall(r"`(dvc [^`]+)`", said)
    exported.run(*command.split())
    assert "DVC is not used in this run" not in exported.snakemake("--dry-run").stdout
    exported.run("dvc", "status", "documents@default")


def test_a_pointer_to_a_checkout_elsewhere_is_no_repository(exported):
    """As in a copy of a worktree whose repository stayed behind."""
    (exported.folder / ".git").write_text("gitdir: /nowhere/.git/worktrees/copy\n")
    assert "DVC is not used in this run" in exported.snakemake("--dry-run").stdout


@needs_mounts
@pytest.mark.parametrize("has_worked", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        ("snakemake", "--cores", "2", "--dry-run"),
        ("snakemake", "--cores", "2"),
        ("posenc", "record"),
        ("posenc", "study", "real"),
    ],
    ids=" ".join,
)
def test_in_a_read_only_copy_one_line_says_what_to_do(exported, command, has_worked):
    """Snakemake itself stops with a traceback there, even with -n: it saves its finds."""
    if has_worked:
        exported.snakemake("--dry-run")
    result = exported.read_only(*command)
    assert result.returncode == 1
    (line,) = lines_with(result.stdout, "cannot be written")
    assert f"{exported.folder} cannot be written" in line
    assert "work in a copy of the project that is yours (cp -a, or git clone)" in line


@needs_mounts
def test_a_read_only_copy_can_be_checked(exported):
    result = exported.read_only("posenc", "check")
    assert result.returncode == 0
    assert "params.yaml is valid" in result.stdout


@needs_mounts
def test_a_read_only_part_of_a_copy_is_named(exported):
    (exported.folder / "data/config").mkdir(parents=True)
    inner = (
        READ_ONLY[-2]
        .replace('"$PWD"', '"$PWD/data/config"')
        .replace('cd "$PWD/data/config"', 'cd "$PWD"')
    )
    command = (*READ_ONLY[:-2], inner, "_", "snakemake", "--cores", "2")
    # A dry run writes nothing there.
    assert "Job stats" in exported.run(*command, "--dry-run").stdout
    result = exported.run(*command, check=False)
    assert result.returncode == 1
    assert "Traceback" not in result.stdout
    (line,) = lines_with(result.stdout, "cannot be written")
    assert f"{exported.folder}/data/config" in line


def test_a_finished_study_without_git_is_finished(core, tmp_path):
    copy = Copy(core.copy(tmp_path / "copy").folder)
    shutil.rmtree(copy.folder / ".git")
    assert "Nothing to be done" in copy.snakemake("--dry-run").stdout
    assert "no git repository" in copy.run("posenc", "record", check=False).stdout
