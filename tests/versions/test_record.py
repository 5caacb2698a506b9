"""The recorded comparison: it makes the page and covers our semantics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posenc.conditions.semantics import semantics

from .compare import MASKS, SEMANTICS, TOLERANCES, written
from .page import lines, page, ranges

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def record():
    return json.loads((DOCS / "mask-versions.json").read_text())


def test_the_page_is_made_of_the_record(record):
    assert (DOCS / "mask-semantics-versions.md").read_text() == page(record)
    assert json.loads(written(record)) == record


def test_every_candidate_is_one_of_our_semantics(record):
    assert {*SEMANTICS, *TOLERANCES} <= set(semantics.functions)
    assert record["masks"] == MASKS


def test_every_version_ran_or_says_why_not(record):
    for entry in record["versions"]:
        assert (entry["status"] == "run" and entry["cases"]) or entry["status"][9:], entry[
            "version"
        ]


@pytest.mark.parametrize(
    ("version", "model", "implementation", "semantics_name"),
    [
        ("4.20.1", "gpt2", "eager", "hf_le420"),
        ("4.21.0", "gpt2", "eager", "hf_finfo"),
        ("4.41.2", "gpt2", "eager", "hf_finfo"),
        ("4.42.0", "gpt2", "sdpa", "hf_sdpa_cpu"),
        ("4.51.3", "gpt2", "sdpa", "hf_sdpa_cpu"),
        ("4.51.3", "gpt2", "sdpa, CUDA branch", "hf_sdpa_cuda"),
        ("4.52.1", "gpt2", "sdpa", "hf_bool"),
        ("4.57.6", "bert", "sdpa", "hf_finfo"),
        ("5.0.0", "bert", "sdpa", "hf_bool"),
    ],
)
def test_both_sides_of_every_change(record, version, model, implementation, semantics_name):
    (line,) = (
        line
        for line in lines(record, "linear 0.1")
        if (line.version, line.model, line.implementation) == (version, model, implementation)
    )
    assert f"`{semantics_name}`" in line.verdict


def test_neighbouring_versions_that_say_the_same_share_a_row(record):
    versions = [entry["version"] for entry in record["versions"]]
    groups = ranges(lines(record, "linear 0.1"), versions)
    assert sum(map(len, groups)) == len(lines(record, "linear 0.1"))
    for group in groups:
        assert len({(line.model, line.implementation, line.verdict) for line in group}) == 1
        first = versions.index(group[0].version)
        assert [line.version for line in group] == versions[first : first + len(group)]
