"""The recipes of CONTRIBUTING.md: each patch applies and does what the page says.

A patch that no longer applies: CONTRIBUTING.md, "When a patch no longer applies".
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from posenc.datasets.documents import read_documents
from posenc.study.declared import MEASUREMENTS
from posenc.study.params import load
from tests.copies import ROOT, copy_project
from tests.unit.synthetic import EVALUATING
from tests.workflow.conftest import Project

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STEPS = {"tokenize", "texts", "capture", "store", "masks", "evaluate"}
"""Rules that run once for each model, beside measurements."""
SECTIONS = {
    "-".join(title.lower().split()): text
    for title, text in re.findall(r"(?ms)^### (Add .+?)\n(.+?)(?=^###? |\Z)", PAGE)
}
"""The recipes by the names of their patches."""
PATCHES = {name: ROOT / f"docs/recipes/{name}.patch" for name in SECTIONS}


def copy_of(folder: Path, *patches: str) -> Project:
    """The project as git would clone it, with patches applied and its schema written."""
    copy_project(folder)
    project = Project(folder)
    # DVC looks for a repository, and git applies a patch to one.
    project.run("git", "init", "--quiet")
    for patch in patches:
        project.run("git", "apply", "--verbose", str(PATCHES[patch]))
    if patches:
        project.run("posenc", "schema")
    return project


def read_by(project: Project) -> dict[str, Any]:
    """What jobs read of params.yaml and the code, by path in ``data/config``."""
    project.run("posenc", "check", "--write")
    root = project.folder / "data/config"
    return {
        path.relative_to(root).as_posix(): json.loads(path.read_text())
        for path in root.rglob("*.json")
    }


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> dict[str, Project]:
    """The project as it is (``""``), with each recipe, and with all of them (``"all"``)."""
    chosen = {"": [], **{name: [name] for name in SECTIONS}, "all": list(SECTIONS)}
    folders = {name: tmp_path_factory.mktemp(name or "plain") for name in chosen}
    with ThreadPoolExecutor(2) as pool:
        copied = pool.map(lambda name: copy_of(folders[name], *chosen[name]), chosen)
        return dict(zip(chosen, copied, strict=True))


@pytest.fixture(scope="module")
def planned(copies) -> dict[str, dict[str, int]]:
    """Jobs of a first run of the default study, by rule, in every copy with one recipe or none."""
    names = ["", *SECTIONS]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(lambda n: copies[n].planned(), names), strict=True))


def test_there_are_six_recipes_and_six_patches():
    assert list(SECTIONS) == [
        f"add-a-{kind}"
        for kind in ("data-set", "model", "model-type", "condition", "measurement", "figure")
    ]
    assert set(PATCHES.values()) == set((ROOT / "docs/recipes").glob("*"))


@pytest.mark.parametrize("recipe", SECTIONS)
def test_a_recipe_names_the_files_of_its_patch(recipe):
    patched = set(re.findall(r"(?m)^\+\+\+ b/(.+)$", PATCHES[recipe].read_text()))
    named = re.findall(r"`([\w/]+(?:\.\w+)+)`", SECTIONS[recipe].split("```sh")[0])
    at_the_top = {"params.yaml", "dvc.yaml"}
    assert patched == {path for path in named if "/" in path or path in at_the_top}
    assert PATCHES[recipe].name in SECTIONS[recipe].split("```sh")[1]


def test_the_parameters_of_all_recipes_are_right_together(copies):
    """The plan below shows each alone."""
    assert "params.yaml is valid" in copies["all"].run("posenc", "check").stdout


@pytest.mark.parametrize("recipe", SECTIONS)
def test_the_schema_follows(copies, recipe):
    schema = "workflow/schemas/params.schema.json"
    before, after = ((copies[name].folder / schema).read_bytes() for name in ("", recipe))
    assert (before == after) == ("posenc schema" not in SECTIONS[recipe])


@pytest.mark.parametrize("recipe", SECTIONS)
def test_a_run_plans_the_jobs_that_the_recipe_says(planned, recipe):
    before, after = planned[""], planned[recipe]
    more = {rule: n - before.get(rule, 0) for rule, n in after.items() if n != before.get(rule, 0)}
    said = re.search(r"(?s)Adds (?:jobs: |no jobs)(.*?)[.:]", SECTIONS[recipe])[1]
    captured = len(load(ROOT / "params.yaml").study.captured)
    expected = {
        rule: captured if "for each captured model" in part else 1
        for part in said.split(", and ")
        for rule in re.findall(r"`(\w+)`", part)
    }
    if "one of each rule that runs once a model" in said:
        measured = {
            name
            for name, measurement in MEASUREMENTS.items()
            if measurement.of and measurement.subjects != "schemes" and not measurement.learns
        }
        expected |= dict.fromkeys(STEPS | measured, 1)
    assert more == expected


def test_documents_of_the_own_data_are_made(copies):
    project = copies["add-a-data-set"]
    target = "data/documents/own_questions.parquet"
    project.snakemake("--", target)
    texts = read_documents(project.folder / target)["text"].to_pylist()
    assert len(texts) == 4 and "Does Monday come before Tuesday?" in texts


def test_the_model_is_built_as_it_says(copies):
    """Its parameters counted by hand: d = 128, and 12 d² + 13 d a block."""
    from posenc.models.training import build

    section = load(copies["add-a-model"].folder / "params.yaml").models["decoder_shallow"]
    count = sum(p.numel() for p in build(section.source, 1024, 0).parameters())
    assert count == (1024 + 128) * 128 + 2 * (12 * 128**2 + 13 * 128) + 2 * 128


def test_a_condition_reaches_evaluations_alone(copies):
    before, after = (read_by(copies[name]) for name in ("", "add-a-condition"))
    changed = {
        path
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path) and "/code/" not in path
    }
    study = load(ROOT / "params.yaml").study
    models = [name for name in study.models if name not in study.evaluations]
    expected = {f"evaluations/{model}.json" for model in models}
    expected |= {f"measurements/{kind}/{model}.json" for kind in EVALUATING for model in models}
    facts = {"numbers/study.json", "page/study.json"}
    assert changed == {*expected, *facts, "figures/style.json"}
    for path in facts:
        reverse = after[path]["conditions"]["reverse"]
        assert reverse == {"position": {"kind": "reverse", "first": 128}}


@pytest.mark.parametrize("recipe", ["add-a-measurement", "add-a-figure"])
def test_an_addition_leaves_the_code_of_all_others_as_it_is(copies, recipe):
    """Existing measurements and figures stay current; readers get what names the new one."""
    before, after = (
        {Path(path).stem: code for path, code in read_by(copies[name]).items() if "/code/" in path}
        for name in ("", recipe)
    )
    assert before.keys() < after.keys()
    changed = {name for name, code in before.items() if after[name] != code}
    assert changed == {"posenc.steps.typeset", "posenc.steps.page"}


def test_a_measurement_reaches_the_paper_and_the_page(copies, tmp_path):
    """A made-up one goes through the real steps, under the paper's key."""
    project = copies["add-a-measurement"]
    program = (
        "import sys; from pathlib import Path; from tests.unit import synthetic as s;"
        f"files = s.write_inputs(Path({str(tmp_path)!r}));"
        "print(files['study'], *s.measured(files), sep='\\n')"
    )
    study, *measured = project.run("python", "-c", program).stdout.split()
    common = ["--study", study, "--published", "paper/published.yaml"]
    common += ["--versions", "docs/mask-versions.json"]
    out = tmp_path / "made"
    project.run(
        *("python", "-m", "posenc.steps.typeset", *common),
        *("--output-numbers", str(out / "numbers.tex"), "--output-tables", str(out / "tables")),
        *("--metrics", str(out / "metrics.json"), "--plots", str(out / "plots"), *measured),
    )
    numbers = (out / "numbers.tex").read_text()
    assert re.search(r"decoder\.reviews\.zero\.state_norms\.last\.norm\}.*20\.0", numbers)
    project.run(
        *("python", "-m", "posenc.steps.page", *common),
        *("--output", str(out / "index.html"), *measured),
    )
    assert "state_norms/decoder/" in (out / "index.html").read_text()


def test_the_tests_of_all_recipes_pass_together(copies):
    """Their own tests, and those that compare rules with stages and sections with steps."""
    project = copies["all"]
    sections = "test_every_file_is_the_section_of_the_command_that_reads_it[default]"
    agreement = (
        "every_file_that_a_rule_makes_is_an_out_of_exactly_one_stage[default]",
        "the_rules_of_a_phase_are_those_that_make_its_files[default]",
        "the_deps_of_a_stage_are_the_inputs_of_its_rules[default]",
        "every_figure_of_params_is_shown_in_a_document",
    )
    tests = [
        *(f"tests/unit/test_{name}.py" for name in ("reverse", "state_norms", "norm_shares")),
        "tests/parity/test_maps.py",
        f"tests/unit/test_plan.py::{sections}",
        "tests/unit/test_conditions_page.py::test_the_page_names_all_there_is",
        *(f"tests/workflow/test_agreement.py::test_{name}" for name in agreement),
    ]
    project.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


@pytest.mark.parametrize("recipe", SECTIONS)
def test_a_patch_is_formatted_as_all_else(copies, recipe):
    patched = re.findall(r"(?m)^\+\+\+ b/(.+)$", PATCHES[recipe].read_text())
    python = [path for path in patched if path.endswith(".py")]
    rules = [path for path in patched if path.endswith(".smk")]
    project = copies[recipe]
    if python:
        project.run("ruff", "check", "--no-cache", *python)
        project.run("ruff", "format", "--no-cache", "--check", *python)
    if rules:
        project.run("snakefmt", "--check", *rules)
