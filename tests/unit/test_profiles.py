"""The Slurm profile names every rule that needs more than one processor, or a GPU."""

import re

import pytest
from ruamel.yaml import YAML

from posenc.study.declared import MEASUREMENTS
from tests.unit.synthetic import PROJECT

PROFILE = YAML(typ="safe").load((PROJECT / "workflow/profiles/slurm/config.yaml").read_text())


def rules() -> dict[str, str]:
    """The text of each rule."""
    text = "".join(path.read_text() for path in sorted(PROJECT.glob("workflow/rules/*.smk")))
    parts = re.split(r"(?m)^ *(?:rule|checkpoint|use rule \w+ as) (\w+)(?: with)?:$", text)
    own = dict(zip(parts[1::2], parts[2::2], strict=True))
    # A loop makes the rules of similar measurements.
    loop = re.search(r"(?ms)^    rule:\n(.+?)^\S", text)[1]
    return {**dict.fromkeys(MEASUREMENTS, loop.replace("\n    ", "\n")), **own}


def test_rules_are_found():
    assert {"train", "capture", "masks", "evaluate", "similarity"} <= rules().keys()


@pytest.mark.parametrize("name", sorted(rules()))
def test_what_a_rule_needs_is_in_the_profile(name):
    rule = rules()[name]
    assert PROFILE["set-threads"].get(name) == (8 if "    threads: THREADS\n" in rule else None)
    gpu = PROFILE["set-resources"].get(name, {}).get("gpu")
    # The loop asks for it if it trains.
    trains = name in MEASUREMENTS and MEASUREMENTS[name].learns
    assert gpu == (1 if trains or "        gpu=GPU,\n" in rule else None)
    assert not re.search(r"threads: \d|gpu=\d", rule), "common.smk says how many there are"


def test_the_profile_names_no_rule_that_is_not_there():
    assert {*PROFILE["set-threads"], *PROFILE["set-resources"]} <= rules().keys()
