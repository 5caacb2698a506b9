"""The Snakefile, dvc.yaml and the code say the same of every step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from posenc import code
from posenc.config import params as schema
from posenc.documents import DOCUMENTS

ROOT = Path(__file__).parents[2]
STAGES = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"]
MODULES = {
    "fetch": "posenc.steps.fetch",
    "documents": "posenc.steps.documents",
    "model": "posenc.steps.model",
    "tokenizer": "posenc.steps.tokenizer",
    "training_tokens": "posenc.steps.training_tokens",
    "train": "posenc.steps.train",
    "tokenize": "posenc.steps.tokenize",
    "capture": "posenc.steps.capture",
    "similarity": "posenc.steps.similarity",
    "perplexity": "posenc.steps.perplexity",
    "typeset": "posenc.steps.typeset",
    "paper": "posenc.steps.latex",
    "slides": "posenc.steps.latex",
}


def body(name: str) -> dict:
    """A stage's definition, inside of its foreach."""
    return STAGES[name].get("do", STAGES[name])


def allowed_rules(name: str) -> list[str]:
    if name == "check":
        return []
    return re.search(r"--allowed-rules (.+?) -- ", body(name)["cmd"])[1].split()


def expected_code(name: str) -> set[str]:
    """Files that the stage's rules import."""
    if name == "check":
        return set(code.files("posenc.plan"))
    if name.startswith("figure_"):
        return set(code.files(f"posenc.figures.{name.removeprefix('figure_')}"))
    return {file for rule in allowed_rules(name) for file in code.files(MODULES[rule])}


@pytest.mark.parametrize("name", STAGES)
def test_the_code_of_a_stage_is_among_its_dependencies(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    listed = {dep for dep in body(name)["deps"] if dep.startswith("workflow/")}
    expected = expected_code(name)
    assert listed == expected, (
        f"dvc.yaml, stage {name}: add {sorted(expected - listed)}, "
        f"remove {sorted(listed - expected)}"
    )


def test_every_figure_and_document_has_a_stage():
    figures = {figure for parts in DOCUMENTS.values() for figure in parts["figures"]}
    stages = {name.removeprefix("figure_") for name in STAGES if name.startswith("figure_")}
    assert (
        figures == stages == set(schema.load(ROOT / "params.yaml").figures.model_dump()) - {"style"}
    )
    for document, parts in DOCUMENTS.items():
        deps = body(document)["deps"]
        assert {d for d in deps if d.startswith("data/figures/")} == {
            f"data/figures/{figure}.pdf" for figure in parts["figures"]
        }
        assert {d for d in deps if "/tables/" in d} == {
            f"paper/generated/tables/{table}.tex" for table in parts["tables"]
        }


def test_every_rule_belongs_to_exactly_one_kind_of_stage():
    rules = set()
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        rules |= set(re.findall(r"(?m)^rule (\w+):", path.read_text()))
    rules -= {"measurements", "figures"}  # targets, not steps
    figures = [name for name in STAGES if name.startswith("figure_")]
    owners = {rule: [s for s in STAGES if rule in allowed_rules(s)] for rule in rules}
    assert owners.pop("figure") == figures
    assert {rule for rule, stages in owners.items() if len(stages) != 1} == set()
