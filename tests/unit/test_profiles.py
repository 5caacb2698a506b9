"""The Slurm profile names every rule that needs more than one processor, or a GPU."""

import re

import pytest
from ruamel.yaml import YAML

from tests.unit.synthetic import PROJECT

PROFILE = YAML(typ="safe").load((PROJECT / "workflow/profiles/slurm/config.yaml").read_text())


def rules() -> dict[str, str]:
    """The text of each rule."""
    text = "".join(path.read_text() for path in sorted(PROJECT.glob("workflow/rules/*.smk")))
    parts = re.split(r"(?m)^(?:rule|checkpoint|use rule \w+ as) (\w+)(?: with)?:$", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_rules_are_found():
    assert {"train", "capture", "masks", "evaluate", "similarity"} <= rules().keys()


@pytest.mark.parametrize("name", sorted(rules()))
def test_what_a_rule_needs_is_in_the_profile(name):
    threads = re.search(r"(?m)^    threads: (\d+)$", rules()[name])
    assert PROFILE["set-threads"].get(name) == (threads and int(threads[1]))
    gpu = re.search(r"(?m)^        gpu=(\d+),$", rules()[name])
    assert PROFILE["set-resources"].get(name, {}).get("gpu") == (gpu and int(gpu[1]))


def test_the_profile_names_no_rule_that_is_not_there():
    assert {*PROFILE["set-threads"], *PROFILE["set-resources"]} <= rules().keys()
