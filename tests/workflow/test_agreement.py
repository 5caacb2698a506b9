"""Rules and the stages of dvc.yaml are one graph: a stage is a phase, with the phase's rules.

Snakemake lists every output with its rule and inputs; DVC resolves its templates to stages. This
holds for the default study, which has everything, and the core study, which leaves out most.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from posenc.artifacts import imports
from posenc.figures.catalogue import DOCUMENTS, module_of
from posenc.study import configs, phases
from posenc.study import params as schema
from posenc.study.declared import MEASUREMENTS
from tests.unit.synthetic import OF_OTHER_STUDIES
from tests.workflow.conftest import ROOT, Project, make_project

TARGETS = {"all", *map(phases.target, phases.PHASES)}
WRITTEN = ("params.yaml", "studies", "workflow/", "paper/", "docs/")
"""Where people write; DVC's first stage follows it, and writes its checksums for the others."""


class Stage:
    """A stage as DVC resolves it."""

    def __init__(self, stage, root: Path) -> None:
        self.name, _, self.study = stage.name.partition("@")
        self.cmd = stage.cmd
        self.deps = {str(Path(dep.fs_path).relative_to(root)) for dep in stage.deps}
        self.outs = {str(Path(out.fs_path).relative_to(root)) for out in stage.outs}

    def holds(self, path: str) -> bool:
        """Whether a path is, or lies in, an output of the stage."""
        return any(f"{path}/".startswith(f"{out}/") for out in self.outs)

    def follows(self, path: str) -> bool:
        """Whether a path is, or lies in, a dependency of the stage."""
        return any(f"{path}/".startswith(f"{dep}/") for dep in self.deps)


@pytest.fixture(scope="module", params=["default", "core"])
def root(request, tmp_path_factory) -> Path:
    """Where the study is: this project, or a copy with the core study."""
    if request.param == "default":
        return ROOT
    return make_project(tmp_path_factory.mktemp("core") / "project", core=True).folder


@pytest.fixture(scope="module")
def stages(root) -> dict[str, Stage]:
    """Every stage of the active study, by name."""
    from dvc.repo import Repo

    with Repo(str(root)) as repo:
        runnable = [Stage(stage, root) for stage in repo.index.stages if stage.cmd]
    return {stage.name: stage for stage in runnable}


@pytest.fixture(scope="module")
def jobs(root) -> dict[str, tuple[str, set[str]]]:
    """Rule and inputs of every file that Snakemake makes for the active study."""
    printed = Project(root).run("snakemake", "--cores", "1", "--dry-run", "--forceall").stdout
    producers = {}
    for block in re.split(r"(?m)^(?:local)?rule ", printed)[1:]:
        rule = block.split(":")[0]
        inputs, outputs = (
            {
                # A dry run reads what it would write in a folder of its own.
                re.sub(r"^\.snakemake/posenc/planned\.\d+", "data/config", path.split(" (")[0])
                for path in re.search(rf"(?m)^    {kind}: (.+)$", block)[1].split(", ")
            }
            if f"\n    {kind}: " in block
            else set()
            for kind in ("input", "output")
        )
        producers.update({path: (rule, inputs) for path in outputs})
    return producers


def is_temporary(path: str) -> bool:
    """Whether a file only lives until the next job has read it."""
    return "/captures/" in path


def test_the_stages_are_the_phases_of_every_study(root, stages):
    assert next(iter(stages)) == "check" and set(stages) == {"check", *phases.PHASES}
    assert {stage.study for stage in stages.values()} == {"default"}
    assert 12 <= len(stages) <= 30
    assert (root / "dvc.yaml").read_text() == phases.dvc_yaml(), "run `posenc dvc`"


def test_every_file_that_a_rule_makes_is_an_out_of_exactly_one_stage(root, stages, jobs):
    assert len(jobs) > (60 if root == ROOT else 30)
    for path in jobs:
        owners = [stage.name for stage in stages.values() if stage.holds(path)]
        assert len(owners) == (0 if is_temporary(path) else 1), (
            f"{path} is an out of {owners or 'no stage'}: posenc.study.phases has to name it"
        )


def test_every_job_leaves_a_receipt_that_its_phase_keeps(jobs):
    for path, (rule, _) in jobs.items():
        if is_temporary(path):
            continue
        outputs = {other for other, (name, _) in jobs.items() if name == rule}
        assert any("/receipts/" in other for other in outputs), f"rule {rule} leaves no receipt"


def test_the_rules_of_a_phase_are_those_that_make_its_files(stages, jobs):
    used = {rule for rule, _ in jobs.values()}
    for name, stage in stages.items():
        if name == "check":
            assert stage.cmd == "posenc check --write"
            continue
        assert stage.cmd == f"posenc stage {name}"
        own = {rule for path, (rule, _) in jobs.items() if stage.holds(path)}
        own |= {rule for path, (rule, _) in jobs.items() if is_temporary(path)} & set(
            phases.PHASES[name].rules
        )
        assert own == used & set(phases.PHASES[name].rules), f"posenc.study.phases: {name}"


def test_the_deps_of_a_stage_are_the_inputs_of_its_rules(root, stages, jobs):
    for name, stage in stages.items():
        if name == "check":
            continue
        rules = set(phases.PHASES[name].rules)
        read = set().union(*(inputs for rule, inputs in jobs.values() if rule in rules))
        read -= {path for path in read if stage.holds(path) or is_temporary(path)}
        by_people = {path for path in read if path.startswith(WRITTEN)}
        assert by_people <= set(phases.PHASES[name].text), f"posenc.study.phases: text of {name}"
        missed = {path for path in read - by_people if not stage.follows(path)}
        assert not missed, f"posenc.study.phases: {name} reads {sorted(missed)}"
        if root != ROOT:
            continue  # only the default study has a job of every kind
        for dep in stage.deps - {"workflow/rules"}:
            is_read = any(f"{path}/".startswith(f"{dep}/") for path in read)
            assert is_read, f"posenc.study.phases: {name} does not read {dep}"


def test_parameters_reach_a_stage_only_through_the_files_that_its_rules_read(root, stages):
    """A `params:` of a stage would be a second definition of what it depends on."""
    text = (root / "dvc.yaml").read_text()
    assert "params:" not in text[: text.index("\nparams:")]
    assert stages["check"].outs == {"data/config"}
    written = {str(path) for path, _ in configs.sections(schema.load(root / "params.yaml"))}
    for stage in stages.values():
        for dep in stage.deps:
            if dep.startswith("data/config/"):
                assert any(path.startswith(f"{dep}/") for path in written), dep


def test_the_first_stage_sees_every_edit_of_what_people_write(stages):
    text = {path for phase in phases.PHASES.values() for path in phase.text}
    assert stages["check"].deps == {
        "params.yaml",
        "studies",
        "workflow/posenc",
        "data/packages",
        *text,
    }
    for name, stage in stages.items():
        assert name == "check" or "workflow/rules" in stage.deps


def test_the_code_of_a_step_is_every_module_that_it_imports(monkeypatch):
    """Against the interpreter itself: what is in memory after the step was imported."""
    monkeypatch.chdir(ROOT)
    for module in (
        "posenc.measurements.similarity.measure",
        "posenc.measurements.perplexity.figure",
        "posenc.steps.train",
    ):
        program = (
            f"import sys, {module}; print(*(m.__file__ for n, m in sys.modules.items() "
            "if n.split('.')[0] == 'posenc' and m.__file__))"
        )
        loaded = Project(ROOT).run(sys.executable, "-c", program).stdout.split()
        listed = {str(ROOT / path) for path in imports.files(module)}
        assert set(loaded) <= listed, f"{module}: {sorted(set(loaded) - listed)}"
        assert len(loaded) > 3


@pytest.mark.parametrize("root", ["default"], indirect=True)
def test_every_rule_is_in_a_phase(root, jobs):
    """A study that chooses has no use for some rules, nor has the default one."""
    rules = {*MEASUREMENTS, *DOCUMENTS}  # loops make those that are alike
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        rules |= set(re.findall(r"(?m)^ *(?:use rule \w+ as|rule) (\w+)", path.read_text()))
    assert rules - TARGETS == {rule for phase in phases.PHASES.values() for rule in phase.rules}
    assert rules - TARGETS - OF_OTHER_STUDIES == {rule for rule, _ in jobs.values()}


def test_every_figure_of_params_is_shown_in_a_document():
    named = set(schema.load(ROOT / "params.yaml").figures.model_dump()) - {"style"}
    shown = {figure for parts in DOCUMENTS.values() for figure in parts["figures"]}
    commands = {*imports.commands()}
    # A survey's studies have no documents: its figure is on their page alone.
    assert shown | {"recovered_by_size"} == named
    drawing = {name for name in commands if re.search(r"\.figures?(\.\w+)?$", name)}
    assert drawing == {module_of(name) for name in named}


def test_steps_that_need_no_torch_import_none():
    """They start in a fraction of a second; torch and a model class take several."""
    heavy = {"posenc.steps.train"}  # the others import it when there is something to do
    light = sorted(set(imports.commands()) - heavy)
    program = f"import sys, {', '.join(light)}; print('torch' in sys.modules)"
    assert Project(ROOT).run(sys.executable, "-c", program).stdout.strip() == "False"
