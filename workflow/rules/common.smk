# What all phases use: the validated parameters, the runs of the active study, and paths.
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from posenc import code, latex, plan, recovery
from posenc.config import params as schema
from posenc.documents import DOCUMENTS, TABLES

try:
    PARAMS = schema.validate(config)
except schema.ParamsError as error:
    raise WorkflowError(str(error))

if not workflow.dryrun:
    recovery.recover(Path.cwd(), lambda line: print(line, file=sys.stderr))

STUDY = PARAMS.study
plan.materialize(PARAMS)

# Jobs run in the environment that runs Snakemake, activated or not. The prefix is not part of a
# rule's code, so the place of the environment never causes a rerun.
shell.executable("bash")
# MKL may otherwise take fewer threads than it is given, or another code path for another memory
# alignment, and then the last bits of a result differ from run to run.
shell.prefix(
    "set -euo pipefail; export MKL_DYNAMIC=FALSE MKL_CBWR=AUTO"
    f' PATH="{Path(sys.executable).parent}:$PATH"; '
)

LATEX_MISSING = latex.missing()


wildcard_constraints:
    model=plan.alternatives(PARAMS.models),
    dataset=plan.alternatives(PARAMS.datasets),
    condition=plan.alternatives(PARAMS.conditions),


def section(path):
    """A section of params.yaml, as the file that `plan.materialize` keeps."""
    return f"data/config/{path}.json"


def runs(pattern):
    """The pattern for each run of the active study, in the order of params.yaml."""
    return expand(pattern, model=STUDY.models, dataset=STUDY.datasets, condition=STUDY.conditions)
