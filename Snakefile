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


RECEIPTS = receipts()


rule all:
    default_target: True
    input:
        # Of all jobs, not the last alone: what was lost is made again where all that was made of it
        # is there. A job whose result is gone has a receipt that is not right any more.
        [path for path in map(str, RECEIPTS) if not is_set_aside(Path(path))],


# `snakemake -- figures` makes a phase; DVC's stages do.
for phase in phases.PHASES:

    rule:
        name:
            phases.target(phase)
        input:
            [str(path) for path in RECEIPTS if phases.makes(phase, path, STUDY.name)],


# The limit of 100 jobs a second is for clusters. It has Snakemake plan again every second for each job
# that has ended: a fifth of a processor after fifty (github.com/snakemake/snakemake/pull/3744).
onstart:
    if not ON_CLUSTER:
        workflow.scheduler.job_rate_limiter = None
    if VIEW is not None:
        VIEW.plan(
            forecast.Job(job.rule.name, str(job.benchmark or ""))
            for job in workflow.dag.needrun_jobs()
            if job.rule.name != "all"
        )


# DVC runs Snakemake once a stage and has its own last line.
onsuccess:
    link()
    if VIEW is not None:
        VIEW.end()
    if STANDS_ALONE:
        in_part = workflow.dag_settings.until or workflow.dag_settings.omit_from
        is_whole = not in_part and any(job.rule.name == "all" for job in workflow.dag.jobs)
        kept.prune(plan.folder(PARAMS), RECEIPTS, plan.unfinished(PARAMS) if is_whole else ())
        # After Snakemake's own last lines.
        atexit.register(print, "\n".join(said_last()), flush=True)


onerror:
    link()
    if VIEW is not None:
        VIEW.end()
