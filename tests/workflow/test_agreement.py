"""The rules and the stages of dvc.yaml are one graph, compared file by file.

Snakemake lists every output with its rule and inputs; DVC resolves its templates to stages. What
fails names the stage and the line to add or to remove. So it is for the default study, which has
everything, and for the core study, which leaves out most of it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from posenc.artifacts import imports
from posenc.figures.catalogue import DOCUMENTS
from posenc.study import params as schema
from posenc.study.declared import MEASUREMENTS
from tests.unit.synthetic import OF_OTHER_STUDIES
from tests.workflow.conftest import ROOT, Project, make_project

TARGETS = {"all", "measurements", "figures"}


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one lies in the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


class Stage:
    """A stage as DVC resolves it."""

    def __init__(self, stage, root: Path) -> None:
        self.name = stage.name
        self.deps = {str(Path(dep.fs_path).relative_to(root)) for dep in stage.deps}
        self.outs = {str(Path(out.fs_path).relative_to(root)) for out in stage.outs}
        found = re.search(r"--allowed-rules (.+?) (?:--|$)", stage.cmd)
        self.rules = set(found[1].split()) if found else set()
        self.target = stage.cmd.split(" -- ")[-1]

    def holds(self, path: str) -> bool:
        """Whether a path is, or lies in, an output of the stage."""
        return any(f"{path}/".startswith(f"{out}/") for out in self.outs)


@pytest.fixture(scope="module", params=["default", "core"])
def root(request, tmp_path_factory) -> Path:
    """Where the study is: this project, or a copy with the core study."""
    if request.param == "default":
        return ROOT
    return make_project(tmp_path_factory.mktemp("core") / "project", core=True).folder


@pytest.fixture(scope="module")
def stages(root) -> list[Stage]:
    """Every stage of the active study."""
    from dvc.repo import Repo

    with Repo(str(root)) as repo:
        return [Stage(stage, root) for stage in repo.index.stages if stage.cmd]


@pytest.fixture(scope="module")
def jobs(root) -> dict[str, tuple[str, set[str]]]:
    """Rule and inputs of every file that Snakemake makes for the active study."""
    printed = Project(root).run("snakemake", "--cores", "1", "--dry-run", "--forceall").stdout
    found = {}
    for block in re.split(r"(?m)^rule ", printed)[1:]:
        rule = block.split(":")[0]
        inputs, outputs = (
            {
                path.split(" (")[0]  # a flag such as (update)
                for path in re.search(rf"(?m)^    {kind}: (.+)$", block)[1].split(", ")
            }
            if f"\n    {kind}: " in block
            else set()
            for kind in ("input", "output")
        )
        found.update({path: (rule, inputs) for path in outputs})
    return found


def jobs_of(stage: Stage, jobs) -> dict[str, tuple[str, set[str]]]:
    """What a stage's rules make of its own outputs, temporary files on the way included."""
    own = {path: job for path, job in jobs.items() if stage.holds(path)}
    needed = set().union(*(inputs for _, inputs in own.values())) if own else set()
    between = {p: job for p, job in jobs.items() if p in needed and is_temporary(p)}
    return {**own, **between}


def is_temporary(path: str) -> bool:
    """Whether a file only lives until the next job has read it."""
    return "/captures/" in path


def test_every_file_that_a_rule_makes_is_an_out_of_exactly_one_stage(root, stages, jobs):
    assert len(jobs) > (60 if root == ROOT else 30)
    for path in jobs:
        owners = [stage.name for stage in stages if stage.holds(path)]
        expected = 0 if is_temporary(path) else 1
        assert len(owners) == expected, (
            f"{path} is an out of {owners or 'no stage'} in dvc.yaml: list it under the outs of "
            f"the stage that runs `{jobs[path][0]}`, and of no other"
        )


def test_a_stage_allows_exactly_the_rules_that_make_its_outs(stages, jobs):
    for stage in stages:
        if stage.name == "check":
            continue
        own = jobs_of(stage, jobs)
        rules = {rule for rule, _ in own.values()}
        assert stage.rules == rules, (
            f"dvc.yaml, stage {stage.name}: write --allowed-rules {' '.join(sorted(rules))}"
        )
        assert stage.target in own, f"dvc.yaml, stage {stage.name}: {stage.target} is not its own"


def test_the_deps_of_a_stage_are_exactly_the_inputs_of_its_rules(stages, jobs):
    for stage in stages:
        if stage.name == "check":
            continue
        own = jobs_of(stage, jobs)
        read = set().union(*(inputs for _, inputs in own.values())) - own.keys()
        # What lies in a folder that DVC follows as a whole is covered by it.
        uncovered = {
            path for path in read if not any(f"{path}/".startswith(f"{d}/") for d in stage.deps)
        }
        assert not uncovered, f"dvc.yaml, stage {stage.name}: add to deps {sorted(uncovered)}"
        unread = {dep for dep in stage.deps if not any(overlap(dep, path) for path in read)}
        assert not unread, f"dvc.yaml, stage {stage.name}: remove from deps {sorted(unread)}"
        for dep in stage.deps:
            more = {path for path in jobs if path.startswith(f"{dep}/")} - read
            more -= {path for path in more if is_temporary(path)}
            # A figure's .json, which is read, holds the checksums of its pictures in all formats.
            more -= {path for path in more if f"{Path(path).with_suffix('.json')}" in read}
            assert not more, (
                f"dvc.yaml, stage {stage.name}: the dep {dep} also holds {sorted(more)[:3]}, which "
                f"its rules do not read: name the files that they do"
            )


def test_parameters_reach_a_stage_only_through_the_files_that_its_rules_read(root, stages):
    """A `params:` of a stage would be a second definition of what it depends on."""
    text = (root / "dvc.yaml").read_text()
    inside = text[: text.index("\nparams:")]
    assert "params:" not in inside
    check = next(stage for stage in stages if stage.name == "check")
    assert check.outs == {"data/config"}
    written = {dep for stage in stages for dep in stage.deps if dep.startswith("data/config")}
    from posenc.study import configs

    made = {str(path) for path, _ in configs.sections(schema.load(root / "params.yaml"))}
    assert written <= made, f"posenc.study.configs does not write {sorted(written - made)}"


def test_check_sees_every_edit_of_the_package(stages):
    """It writes which modules each step imports, so it has to run after any edit of one."""
    check = next(stage for stage in stages if stage.name == "check")
    assert check.deps == {"params.yaml", "workflow/posenc"}


def test_the_code_of_a_step_is_every_module_that_it_imports(monkeypatch):
    """Against the interpreter itself: what is in memory after the step was imported."""
    monkeypatch.chdir(ROOT)
    for module in (
        "posenc.measurements.similarity",
        "posenc.figures.perplexity",
        "posenc.steps.train",
    ):
        program = (
            f"import sys, {module}; print(*(m.__file__ for n, m in sys.modules.items() "
            "if n.startswith('posenc.') and m.__file__ and not m.__file__.endswith('__init__.py')))"
        )
        loaded = Project(ROOT).run(sys.executable, "-c", program).stdout.split()
        listed = {str(ROOT / path) for path in imports.digests(module)}
        assert set(loaded) <= listed, f"{module}: {sorted(set(loaded) - listed)}"
        assert len(loaded) > 3


@pytest.mark.parametrize("root", ["default"], indirect=True)
def test_every_rule_is_in_a_stage(root, stages):
    """A study that chooses has no use for some rules, and the default one none for some."""
    rules = {*MEASUREMENTS, *DOCUMENTS}  # loops make those that are alike
    rules -= OF_OTHER_STUDIES
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        rules |= set(re.findall(r"(?m)^ *(?:use rule \w+ as|rule) (\w+)", path.read_text()))
    assert rules - TARGETS == set().union(*(stage.rules for stage in stages))


def test_every_figure_of_params_is_shown_in_a_document():
    named = set(schema.load(ROOT / "params.yaml").figures.model_dump()) - {"style"}
    shown = {figure for parts in DOCUMENTS.values() for figure in parts["figures"]}
    commands = (command.rpartition(".") for command in imports.commands())
    modules = {name for package, _, name in commands if package == "posenc.figures"}
    assert shown == named == modules


def test_stages_stay_few_however_many_runs_there_are(root, stages):
    if root != ROOT:
        assert len(stages) <= 25, "the core study is to be quick"
        return
    study = schema.load(ROOT / "params.yaml").study
    allowed = 54 + 29 * len(study.models) + 2 * len(study.datasets)
    allowed += 2 * len(study.schemes) + len(study.matrices) + len(study.finetuned)
    allowed += len(study.corpora)
    assert len(stages) <= allowed + len(study.models) * len(study.datasets)


def test_steps_that_need_no_torch_import_none():
    """They start in a fraction of a second; torch and a model class take several."""
    heavy = {"posenc.steps.train"}  # the others import it when there is something to do
    light = sorted(set(imports.commands()) - heavy)
    program = f"import sys, {', '.join(light)}; print('torch' in sys.modules)"
    assert Project(ROOT).run(sys.executable, "-c", program).stdout.strip() == "False"
