"""A Snakemake call that runs no job leaves results in place, with any study."""

from __future__ import annotations

from pathlib import Path

import pytest

from posenc.frontends.recovery import only_looks
from tests.workflow.conftest import bare_project


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Dates and contents of all files, including what jobs read of params.yaml."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_nothing_is_set_aside_brought_back_or_removed(tmp_path):
    project = bare_project(tmp_path)
    data = project.folder / "data"
    for name in (
        "documents/sample_reviews.parquet",  # of the study in params.yaml alone
        "documents/no_longer.parquet",
        "studies/real/figures/no_longer.pdf",
        "studies/real/measurements/.zero.json.abc.unfinished",
        "set_aside/real/tokens/bert/imdb.parquet",
        "set_aside/_shared/documents/imdb.parquet",
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(name)
    before = files(data)
    target = ("--", "data/documents/imdb.parquet")
    for options in (("-np",), ("--summary",)):
        said = project.run("snakemake", "-c1", *options, "--config", "study=real", *target).stdout
        assert "data/documents/imdb.parquet" in said
        assert files(data) == before
        assert "2 results of the study are in data/set_aside: a run brings them back first" in said
    assert not (project.folder / ".dvc/tmp/lock").exists(), "nor is DVC kept from its work"


@pytest.mark.parametrize(
    ("words", "looks"),
    [
        ("-n", True),
        ("-np", True),
        ("-c1 -pFn data/a", True),
        ("--cores 1 --dry-run -- data/a", True),
        ("--dryrun", True),
        ("-c1 --executor dryrun", True),
        ("--summary", True),
        ("-D", True),
        ("--dag", True),
        ("--rulegraph dot", True),
        ("--lint", True),
        ("--list-rules", True),
        ("--report page.html", True),
        ("--unlock", True),
        ("--version", True),
        ("-c1", False),
        ("-c1 --touch", False),
        ("-c1 --config study=-n", False),
        ("-c1 data/a -- -n", False),
        ("-c1 --report page.html --report-after-run", False),
        ("--delete-all-output", False),
        ("--delete-all-output -n", True),
        ("--no-such-option", False),
    ],
)
def test_what_runs_no_job(words, looks):
    assert only_looks(words.split()) is looks
