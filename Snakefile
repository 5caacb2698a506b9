# The contents page: raw -> documents -> tokens -> activations -> measurements -> figures -> paper.
import atexit

from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/activations.smk"
include: "workflow/rules/conditions.smk"
include: "workflow/rules/experiments.smk"
include: "workflow/rules/measurements.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/paper.smk"
include: "workflow/rules/page.smk"


OUTPUTS = outputs()
GONE = []
EXPECTED = (
    agreement.AgreementError,
    ledger.LedgerError,
    place.ReadOnlyError,
    recovery.BusyError,
)


def remember():
    """Take in what was finished; where there is no room for it, the next run does."""
    try:
        agreement.remember(OUTPUTS)
    except ledger.LedgerError as error:
        say(str(error))


if STANDS_ALONE and not recovery.is_running(Path.cwd()):
    if reason := place.without_dvc(Path.cwd()):
        say(f"DVC has no part in this run: {reason}")
    try:
        with place.writing(Path.cwd()):
            agreement.adopt_parts(OUTPUTS, f"{RUNS}/captures", gather.capture("{scatteritem}"))
            agreement.remember(OUTPUTS)
            GONE = agreement.agree(OUTPUTS, STUDY.name, say)
        if not ONLY_LOOKS:
            DVC_LOCK = agreement.hold_dvc_lock()
    except EXPECTED as error:
        raise WorkflowError(str(error))


rule all:
    default_target: True
    input:
        rules.measurements.input,
        rules.figures.input,
        rules.typeset.output,
        rules.page.output,
        [f"{RUNS}/{document}.pdf" for document in STUDY.documents] if not LATEX_MISSING else [],
        # What was lost is made again, also where all that was made of it is still there.
        [path for path in GONE if not is_set_aside(path)],


# The limit of 100 jobs a second is for clusters. It has Snakemake plan again every second for each job
# that has ended: a fifth of a processor after fifty (github.com/snakemake/snakemake/pull/3744).
onstart:
    if not ON_CLUSTER:
        workflow.scheduler.job_rate_limiter = None


# DVC runs Snakemake once a stage and has its own last line.
onsuccess:
    link()
    if STANDS_ALONE:
        remember()
        # After Snakemake's own last lines.
        atexit.register(print, links.closing_line(STUDY.name, STUDY.documents))


onerror:
    link()
    if STANDS_ALONE:
        remember()
