# What all phases use: the validated parameters, the runs of the active study, and paths.
import atexit
import os
import shlex
import shutil
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.io import get_wildcard_names, strip_wildcard_constraints

# The checkout's own package, whichever one the environment was installed from.
sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from posenc.artifacts import holder, kept
from posenc.artifacts.command import collect_rarely
from posenc.artifacts.contents import Contents
from posenc.report import latex, links
from posenc.frontends import forecast, judging, leftovers, place, recovery, watching
from posenc.study import config_files, configs, phases, plan
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
from posenc.study.declared import EXPERIMENTS, GIVEN, MEASUREMENTS, OPTIONAL
from posenc.figures.catalogue import DOCUMENTS, FIGURES, TABLES, module_of

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


def said_last():
    """What was made, and where to look."""
    log = next(iter(workflow.logger_manager.get_logfile()), ".snakemake/log")
    return links.closing_lines(
        STUDY.name, STUDY.documents, "" if VIEW is None else f"{VIEW.said}; ", log
    )


def link():
    """Have the paths at the top lead to the active study, which `--config study=NAME` does not change."""
    links.list_pages()
    links.link(PARAMS.study.name, is_active="study" not in config)


# A dry run and the like, which write nothing that a job reads and wait for nobody.
ONLY_LOOKS = workflow.is_main_process and recovery.only_looks(sys.argv[1:])
RUNS_JOBS = workflow.is_main_process and not ONLY_LOOKS
# A stage of DVC is a part of another run.
STANDS_ALONE = RUNS_JOBS and "DVC_STAGE" not in os.environ
if workflow.is_main_process:
    try:
        place.refuse_read_only(Path.cwd())  # Snakemake keeps a log of a dry run, too
    except place.ReadOnlyError as error:
        raise WorkflowError(str(error))
    if "DVC_STAGE" not in os.environ and (reason := place.without_dvc(Path.cwd())):
        say(f"DVC is not used in this run: {reason}")
VIEW = None
if RUNS_JOBS and workflow.nodes is None:
    VIEW = watching.watch(logger, workflow.logger_manager.settings, sys.stderr)
    if VIEW is not None:
        atexit.register(VIEW.end)
if RUNS_JOBS:
    try:
        HOLD = holder.hold(
            Path.cwd(),
            holder.own_command(),
            lambda is_alone: recovery.end_orphans(Path.cwd(), say, is_alone),
        )
        recovery.clean_up(Path.cwd(), say)
        if STANDS_ALONE:
            recovery.refuse_dvc(Path.cwd())
            DVC_LOCK = place.hold_dvc_lock()
        atexit.register(holder.release, HOLD)
    except (holder.BusyError, place.ReadOnlyError) as error:
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
# How long the jobs of the study took when they last ran here.
TIMES = f"{forecast.times(STUDY.name)}"
# What is evaluated: the study's data sets, and documents longer than the model was trained for.
EVALUATED_TEXTS = plan.evaluated(PARAMS)
# Who orders a job again does not mean the result that was kept.
if RUNS_JOBS and recovery.is_forced(sys.argv[1:]):
    os.environ["POSENC_AGAIN"] = "1"
CONTENTS = Contents()
PLANNED = {}
if RUNS_JOBS:
    try:
        with place.writing(Path.cwd()):
            if STANDS_ALONE:
                leftovers.tidy(PARAMS, say)
                config_files.materialize(PARAMS)
                plan.make_folders(PARAMS)
            elif config_files.is_edited(PARAMS):
                # DVC's first stage is due again then: its output is not what it noted.
                config_files.materialize(PARAMS)
                raise WorkflowError(
                    "params.yaml, the code or a text was edited after `posenc check --write`: "
                    "start `dvc repro` again"
                )
            CONTENTS.compact()
            kept.restore_all(CONTENTS, STUDY.name, say, within_dvc=not STANDS_ALONE)
            if not STANDS_ALONE:
                leftovers.tidy(PARAMS, say)
            link()
    except place.ReadOnlyError as error:
        raise WorkflowError(str(error))
elif ONLY_LOOKS:
    foreseen = Path(f".snakemake/posenc/planned.{os.getpid()}")
    atexit.register(shutil.rmtree, foreseen, ignore_errors=True)
    PLANNED = config_files.foresee(PARAMS, foreseen)
    leftovers.announce(PARAMS, say)
judging.ask_receipts(CONTENTS, PLANNED)


def is_set_aside(path):
    """Whether a file is kept apart because the study does not have it now."""
    aside = leftovers.SET_ASIDE / STUDY.name
    return path.is_relative_to(RUNS) and (aside / path.relative_to(RUNS)).exists()


# Jobs run in the environment that runs Snakemake, activated or not. The prefix is not part of a
# rule's code, so the place of the environment never causes a rerun.
shell.executable("bash")
PROGRAMS = shlex.quote(str(Path(sys.executable).parent)).replace("{", "{{").replace("}", "}}")
shell.prefix(f"set -euo pipefail; export PATH={PROGRAMS}:$PATH; ")

LATEX_MISSING = latex.missing()


TARGETS = " ".join(sys.argv[1:])


def alternatives(names, own):
    """A regular expression of those names that the study has or a target holds.

    Each pattern of a rule holds it: with all names of params.yaml, Snakemake took a third of a
    second more to find that there is nothing to do.
    """
    own = set(own)
    return plan.alternatives([name for name in names if name in own or name in TARGETS])


MODELS = alternatives(PARAMS.models, [*STUDY.models, *STUDY.schemes])


wildcard_constraints:
    model=MODELS,
    dataset=alternatives(PARAMS.datasets, [*STUDY.all_datasets, *STUDY.corpora]),
    condition=alternatives(PARAMS.conditions, STUDY.conditions),


def section(pattern):
    """What a job reads of params.yaml, as the file that `config_files.materialize` keeps.

    A dry run reads another one, where it would be edited.
    """

    def path_of(wildcards):
        path = f"{configs.CONFIG}/{pattern.format(**dict(wildcards.items()))}.json"
        return FORESEEN.get(path, path)

    return path_of


FORESEEN = {real: foreseen for foreseen, real in PLANNED.items()}


def code(module):
    """A step's code and the versions of its packages, in the same way."""
    return section(f"{phases.phase_of_command(module)}/code/{module}")


def of_step(kind, wildcard, step):
    """What a step of a data set or model reads of params.yaml."""

    def path_of(wildcards):
        path = str(configs.of_step(PARAMS, kind, getattr(wildcards, wildcard), step))
        return FORESEEN.get(path, path)

    return path_of


def job(command, inputs="{input:q}", receipt=True, folders="", tokenizes=False):
    """The shell's line of a job: workflow/job.py runs a module of the package and writes its receipt.

    Every placeholder is quoted (`:q`): what a user calls a file is no command.
    """
    options = "--rule {rule} --inputs " + inputs + " --outputs {output:q}"
    options += " --receipt {output.receipt:q}" * receipt + f" --folders {folders}" * bool(folders)
    options += " --tokenizers {threads}" * tokenizes
    # A view shows what matters of the logs.
    silent = " > /dev/null" * (VIEW is not None)
    return f"python workflow/job.py {options} -- {command} 2>&1 | tee {{log:q}}{silent}"


def of_model(pattern):
    """The pattern for each run of one model; the model stays a wildcard."""
    return expand(pattern, dataset=STUDY.datasets, condition=STUDY.conditions)


def models_of(rule):
    """The models that a rule makes files of, all of the study where it is no measurement."""
    if rule in MEASUREMENTS:
        return list(getattr(STUDY, MEASUREMENTS[rule].subjects))
    trained = [*STUDY.trained, *STUDY.schemes]
    others = {
        "model": STUDY.pretrained,
        "tokenizer": trained,
        "training_tokens": trained,
        "train": trained,
        "training": STUDY.trained,
        "tokenize": [*STUDY.models, *STUDY.schemes],
        "store": STUDY.captured,
    }
    return list(others.get(rule, STUDY.models))


def receipts():
    """The receipts of all jobs of the active study: what it is made of when each of them is current."""
    values = {
        "figure": plan.figures(PARAMS),
        "subject": [*STUDY.captured, *STUDY.matrices],
    }
    datasets = {"fetch": [*STUDY.all_datasets, *STUDY.corpora], "corpus": STUDY.corpora}
    paths = set()
    for rule in workflow.rules:
        pattern = getattr(rule.output, "receipt", None)
        # A measurement's rule has its name, a document's too.
        lacking = {*OPTIONAL, *DOCUMENTS} - {*STUDY.measured, *STUDY.documents}
        if pattern is None or rule.name in lacking or (rule.name in DOCUMENTS and LATEX_MISSING):
            continue
        plain = strip_wildcard_constraints(str(pattern))
        if rule.name.endswith("trials"):
            for kind in STUDY.experiments.kinds:
                for path in plan.trials(PARAMS, kind):
                    _, experiment, subject, seed = path.split("/")
                    paths.update(expand(plain, experiment=experiment, subject=subject, seed=seed))
        elif rule.name == "experiment":
            paths.update(expand(plain, experiment=STUDY_EXPERIMENTS))
        elif rule.name == "experiment_of_model":
            kinds = [kind for kind in STUDY.experiments.kinds if kind in plan.OF_MODELS]
            paths.update(expand(plain, experiment=kinds, model=STUDY.finetuned))
        else:
            values["model"] = models_of(rule.name)
            values["dataset"] = datasets.get(rule.name, STUDY.all_datasets)
            names = get_wildcard_names(plain)
            if names - values.keys():
                raise WorkflowError(f"rule {rule.name}: give receipts() the values of {names}")
            paths.update(expand(plain, **{name: values[name] for name in names}))
    return [Path(path) for path in sorted(paths)]
