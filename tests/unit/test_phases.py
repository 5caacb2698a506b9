"""The phases of the workflow are DVC's stages, the same for every study."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from posenc.artifacts import imports
from posenc.figures.catalogue import DOCUMENTS
from posenc.study import plan
from posenc.study.declared import KINDS, MEASUREMENTS
from posenc.study.new import write_study
from posenc.study.phases import PHASES, dvc_yaml, folders, makes, phase_of_command, target
from posenc.study.switch import activate
from tests.budget import PATIENCE
from tests.copies import copy_params

from .synthetic import PROJECT, params_of

STAGES = YAML(typ="safe").load(dvc_yaml())["stages"]
RULES = sorted((PROJECT / "workflow/rules").glob("*.smk"))


def test_the_stages_are_the_file_as_it_is():
    assert (PROJECT / "dvc.yaml").read_text(encoding="utf-8") == dvc_yaml()


def test_they_fit_on_a_screen():
    assert list(STAGES) == ["check", *PHASES]
    assert 12 <= len(STAGES) <= 30


def test_a_study_s_name_is_all_that_they_read_of_it():
    """The stages stay, whatever a study has or leaves out and whatever anyone adds."""
    assert set(re.findall(r"\$\{([^}]*)\}", dvc_yaml())) == {"study"}
    assert not set(STAGES) & {*KINDS}
    assert not [kind for kind in KINDS if f"measurements/{kind}" in dvc_yaml()]


def test_each_stage_has_snakemake_make_its_phase_of_its_own_part_of_the_parameters():
    for name, stage in STAGES.items():
        assert stage["foreach"] == ["${study}"]
        if name == "check":
            assert stage["do"]["outs"] == [{"data/config": {"cache": False}}]
            continue
        assert stage["do"]["cmd"] == f"posenc stage {name}"
        assert {f"data/config/{name}", "workflow/rules"} <= set(stage["do"]["deps"])


def test_what_people_write_is_what_the_first_stage_reads():
    """An edit of anything else reaches no stage; of these, it reaches the first one."""
    written = {text for phase in PHASES.values() for text in phase.text}
    deps = {"params.yaml", "studies", "workflow/posenc", "data/packages", *written}
    assert set(STAGES["check"]["do"]["deps"]) == deps
    for text in written:
        assert (PROJECT / text).is_file()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """DVC's own reading of the stages, for a small study that leaves most out."""
    folder = tmp_path_factory.mktemp("repository")
    shutil.copy(PROJECT / "dvc.yaml", folder)
    copy_params(folder)
    write_study(folder / "params.yaml", "mine", "minilm", None)
    activate(folder / "params.yaml", "mine")
    Repo.init(str(folder), no_scm=True).close()
    with Repo(str(folder)) as repo:
        yield repo


def test_dvc_reads_them_for_a_small_study(repository):
    names = [stage.name for stage in repository.index.stages]
    assert sorted(names) == sorted(f"{name}@mine" for name in STAGES)
    assert len(repository.index.graph) == len(STAGES), "no two make one thing, and there is no ring"
    root = Path(repository.root_dir)
    outputs = {str(Path(out.fs_path).relative_to(root)) for out in repository.index.outs}
    below = {name for name in outputs if name.startswith("data/studies/")}
    assert below and all(name.startswith("data/studies/mine/") for name in below)
    assert "data/studies/mine/metrics.json" in outputs


def test_dvc_runs_them_in_the_order_of_the_workflow(repository):
    """An earlier phase makes what a phase reads; the first stage precedes all."""
    paths: set[str] = set()
    for name, phase in PHASES.items():
        assert set(phase.reads) <= paths, name
        paths |= set(phase.makes)
    graph = repository.index.graph
    first = next(stage for stage in graph if stage.name == "check@mine")
    assert len(graph.pred[first]) == len(PHASES), "each reads its part of what it writes"


def test_the_folders_of_stages_are_there_where_a_study_has_nothing_in_them(tmp_path, monkeypatch):
    params = params_of()
    monkeypatch.chdir(tmp_path)
    plan.make_folders(params)
    for stage in STAGES.values():
        for out in stage["do"]["outs"]:
            path = Path(str(out).replace("${study}", params.study.name))
            assert isinstance(out, dict) or path.is_dir() != bool(path.suffix), path
    assert all(path.is_dir() for path in folders(params.study.name))


def test_a_file_is_made_by_one_phase_and_lies_where_a_study_or_several_have_it():
    for path, phase in {
        "data/raw/imdb/raw": "raw_text",
        "data/receipts/raw_text/fetch/imdb.json": "raw_text",
        "data/texts/japanese.parquet": "documents",
        "data/training/decoder/loss.csv": "models",
        "data/receipts/models/train/decoder.json": "models",
        "data/studies/mine/training/decoder/loss.csv": "trainings",
        "data/studies/mine/receipts/tokens/texts/decoder.json": "tokens",
        "data/studies/mine/measurements/heads/decoder/reviews.json": "measurements",
        "data/studies/mine/metrics.json": "numbers",
        "data/studies/mine/pdf/paper.pdf": "paper",
        "data/studies/mine/index.html": "page",
    }.items():
        assert [name for name in PHASES if makes(name, Path(path), "mine")] == [phase], path
    other = Path("data/studies/other/index.html")
    assert not any(makes(name, other, "mine") for name in PHASES)


def test_every_rule_belongs_to_one_phase(tmp_path):
    """Of the whole Snakefile, as Snakemake reads it: a stage allows its own rules and no others."""
    copy_params(tmp_path)
    snakefile = ["--snakefile", PROJECT / "Snakefile"]
    command = [sys.executable, "-m", "snakemake", *snakefile, "--list-rules"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "workflow")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = re.findall(r"(?m)^(?:localrule |rule )?(\w+)$", done.stdout)
    targets = [target(name) for name in PHASES]
    rules = [rule for phase in PHASES.values() for rule in phase.rules]
    assert len(set(rules)) == len(rules) and not set(rules) & {*targets, "all"}
    assert sorted(listed) == sorted({"all", *targets, *rules})


def test_a_further_measurement_needs_no_stage():
    """Whoever declares one has its rule, and the phase has that."""
    assert set(MEASUREMENTS) <= set(PHASES["measurements"].rules)


def steps_of_rules() -> dict[str, set[str]]:
    """The steps that rules run, by rule, read from the rules' text."""
    by_rule: dict[str, set[str]] = {}
    for path in RULES:
        for block in re.split(r"(?m)^\s*(?:use )?rule\b", path.read_text(encoding="utf-8"))[1:]:
            if name := re.match(r" (\w+)", block):
                names = [name[1]]
            else:
                names = list(DOCUMENTS) if "name:\n            document\n" in block else []
            steps = re.findall(r'job\(\s*"posenc\.steps\.(\w+) ', block)
            for rule in names:
                by_rule.setdefault(rule, set()).update(steps)
    return by_rule


def test_a_command_is_of_the_phase_whose_rules_run_it():
    steps = steps_of_rules()
    run = {step for names in steps.values() for step in names}
    commands = {name for name in imports.commands() if name.startswith("posenc.steps.")}
    assert commands == {f"posenc.steps.{step}" for step in run}
    for rule, names in steps.items():
        for step in names:
            assert rule in PHASES[phase_of_command(f"posenc.steps.{step}")].rules
    for module in imports.commands():
        _, room, *rest = module.split(".")
        phase = phase_of_command(module)
        assert phase in PHASES
        if room == "figures":
            assert phase == room
        if room in ("measurements", "experiments"):
            file = rest[-1]
            expected = {"trials": "trials", "figure": "figures"}.get(file, "measurements")
            assert phase == expected and file in ("measure", "summary", "trials", "figure")
