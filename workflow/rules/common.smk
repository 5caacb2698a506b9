# What all phases use: the validated parameters, the runs of the active study, and paths.
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import get_wildcard_names, is_flagged, strip_wildcard_constraints

# The checkout's own package, whichever one the environment was installed from.
sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from posenc.artifacts.command import collect_rarely
from posenc.report import latex, links
from posenc.study import agreement, configs, leftovers, ledger, place, plan, recovery
from posenc.models import devices
from posenc.study import params as schema
from posenc.experiments.declaration import CORPORA, LABELLED
from posenc.measurements.declaration import (
    ACTIVATIONS,
    DATASETS,
    MASKS,
    MATRICES,
    TOKENIZER,
    TOKENS,
    WEIGHTS,
)
from posenc.study.declared import EXPERIMENTS, MEASUREMENTS, OPTIONAL
from posenc.study.stages import GIVEN
from posenc.figures.catalogue import DOCUMENTS, FIGURES, TABLES

collect_rarely()  # as jobs do: a fifth of a run with nothing to do
try:
    # Not by `configfile:`, which reads YAML 1.1: `--config study=NAME` is all that config holds.
    PARAMS = schema.load("params.yaml", config)
except schema.ParamsError as error:
    raise WorkflowError(str(error))
workflow.configfiles.append("params.yaml")  # the report shows it


# Snakemake would take a file that no rule makes as up to date.
for target in sys.argv[1:]:
    if (problem := links.elsewhere(target, PARAMS.study.name)) is not None:
        raise WorkflowError(problem)


def say(line):
    """One line to the terminal, beside Snakemake's own."""
    print(line, file=sys.stderr)


def link():
    """Have the paths at the top lead to the active study, which `--config study=NAME` does not change."""
    links.list_pages()
    if "study" not in config:
        links.link(PARAMS.study.name)


# A stage of DVC, or the Snakemake that settles the records, is a part of another run.
STANDS_ALONE = (
    workflow.is_main_process and "DVC_STAGE" not in os.environ and agreement.MARK not in os.environ
)
try:
    place.refuse_read_only(Path.cwd())
except place.ReadOnlyError as error:
    raise WorkflowError(str(error))
# A dry run and the like, which leave results where they are.
ONLY_LOOKS = workflow.is_main_process and recovery.only_looks(sys.argv[1:])
if workflow.is_main_process and agreement.MARK not in os.environ:
    try:
        if not ONLY_LOOKS:
            recovery.recover(Path.cwd(), say)
        # To plan is to settle dates and records, which DVC's stages do too.
        if STANDS_ALONE:
            recovery.refuse_dvc(Path.cwd())
    except recovery.BusyError as error:
        raise WorkflowError(str(error))

# Jobs at work take up the processors of this machine and no more: `--cores 8` on two are two.
PROCESSORS = len(os.sched_getaffinity(0))
# Priorities: the jobs from documents to a decoder's evaluations, of which each waits for another;
# then what takes a minute or more, so that the run does not end with one of these alone.
LONGEST_CHAIN, LONG_JOBS = 10, 5
ON_CLUSTER = workflow.nodes is not None
# Without a GPU, nothing has to wait for one. On a cluster, nodes have them where this one has none.
GPU = int(ON_CLUSTER or devices.has_gpu())
if not ON_CLUSTER and workflow.is_main_process and workflow._cores is not None:
    workflow.register_resource("_cores", min(workflow.cores, PROCESSORS))

STUDY = PARAMS.study
# Small models gain little by threads: half the processors each, so that two jobs run side by side. In
# a study of one model the long jobs wait for each other, and have them all.
THREADS = max(1, min(8, PROCESSORS) // min(2, len([*STUDY.models, *STUDY.schemes])))
# What is made for a study lies in its folder, from tokens to documents: going to another study and
# back makes nothing again, and a folder holds the study's runs and no others.
RUNS = f"{plan.folder(PARAMS)}"
# What is evaluated: the study's data sets, and documents longer than the model was trained for.
EVALUATED_TEXTS = plan.evaluated(PARAMS)
if workflow.is_main_process:
    if not recovery.is_running(Path.cwd()):
        try:
            with place.writing(Path.cwd()):
                configs.materialize(PARAMS)
        except place.ReadOnlyError as error:
            raise WorkflowError(str(error))
        if ONLY_LOOKS:
            leftovers.announce(PARAMS, say)
        else:
            leftovers.tidy(PARAMS, say)
            link()
    elif configs.is_edited(PARAMS):
        # The jobs that are at work, and those that follow, read what was written for them.
        raise WorkflowError(
            "params.yaml or the code was edited while a run is at work in this folder: the edit"
            " is planned when that run has ended"
        )


def is_set_aside(path):
    """Whether a file is kept apart because the study does not have it now."""
    aside = leftovers.SET_ASIDE / STUDY.name
    return path.is_relative_to(RUNS) and (aside / path.relative_to(RUNS)).exists()


# Jobs run in the environment that runs Snakemake, activated or not. The prefix is not part of a
# rule's code, so the place of the environment never causes a rerun.
shell.executable("bash")
# MKL may otherwise take fewer threads than it is given, or another code path for another memory
# alignment, and then the last bits of a result differ from run to run.
shell.prefix(
    "set -euo pipefail; export MKL_DYNAMIC=FALSE MKL_CBWR=AUTO"
    f' PATH="{Path(sys.executable).parent}:$PATH"'
    ' PYTHONPATH="$PWD/workflow${{PYTHONPATH:+:$PYTHONPATH}}"; '
)

LATEX_MISSING = latex.missing()


wildcard_constraints:
    model=plan.alternatives(PARAMS.models),
    dataset=plan.alternatives(PARAMS.datasets),
    condition=plan.alternatives(PARAMS.conditions),


def section(path):
    """What a job reads of params.yaml, or its code, as the file that `configs.materialize` keeps."""
    return f"data/config/{path}.json"


def of_model(pattern):
    """The pattern for each run of one model; the model stays a wildcard."""
    return expand(pattern, dataset=STUDY.datasets, condition=STUDY.conditions)


def models_of(rule):
    """The models that a rule makes files of, all of the study where it is no measurement."""
    if rule in MEASUREMENTS:
        return list(getattr(STUDY, MEASUREMENTS[rule].subjects))
    return STUDY.captured if rule == "store" else [*STUDY.models, *STUDY.schemes]


def outputs():
    """Every file that the rules make for the active study, temporary ones left out."""
    values = {
        "dataset": STUDY.all_datasets,
        "figure": plan.figures(PARAMS),
        "text": STUDY.texts,
        "subject": [*STUDY.captured, *STUDY.matrices],
    }
    raw = list(map(raw_path, [*STUDY.all_datasets, *STUDY.corpora]))
    paths = {*raw, *(f"{path}.json" for path in raw)}
    for rule in workflow.rules:
        # A measurement's rule has its name, a document's too.
        if rule.name in {*OPTIONAL, *DOCUMENTS} - {*STUDY.measured, *STUDY.documents}:
            continue
        for pattern in rule.output:
            plain = strip_wildcard_constraints(str(pattern))
            names = get_wildcard_names(plain)
            if is_flagged(pattern, "temp") or "file" in names:  # raw files are listed above
                continue
            if rule.name == "corpus":
                paths.update(f"data/texts/{dataset}.parquet" for dataset in STUDY.corpora)
                continue
            if rule.name.endswith("trials"):
                for kind in STUDY.experiments.kinds:
                    paths.update(f"{RUNS}/{path}.json" for path in plan.trials(PARAMS, kind))
                continue
            if rule.name.startswith("experiment"):
                paths.update(EXPERIMENT_MEASUREMENTS)
                continue
            values["model"] = models_of(rule.name)
            if names - values.keys():
                raise WorkflowError(f"rule {rule.name}: give outputs() the values of {names}")
            paths.update(expand(plain, **{name: values[name] for name in names}))
    return [Path(path) for path in sorted(paths)]
