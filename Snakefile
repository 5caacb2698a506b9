# The contents page: raw -> documents -> tokens -> activations -> measurements -> figures -> paper.
from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/activations.smk"
include: "workflow/rules/conditions.smk"
include: "workflow/rules/positions.smk"
include: "workflow/rules/experiments.smk"
include: "workflow/rules/measurements.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/paper.smk"
include: "workflow/rules/page.smk"


if STANDS_ALONE and not recovery.is_running(Path.cwd()):
    try:
        agreement.adopt_parts(outputs(), f"{RUNS}/captures", gather.capture("{scatteritem}"))
        agreement.agree(outputs(), STUDY.name, say)
        if not workflow.dryrun:
            DVC_LOCK = agreement.hold_dvc_lock()
    except (agreement.AgreementError, recovery.BusyError) as error:
        raise WorkflowError(str(error))


rule all:
    default_target: True
    input:
        rules.measurements.input,
        rules.figures.input,
        rules.typeset.output,
        rules.page.output,
        [rules.paper.output, rules.slides.output] if not LATEX_MISSING else [],


onsuccess:
    # DVC runs Snakemake once a stage and has its own last line.
    if "DVC_STAGE" not in os.environ:
        print(latex.closing_line())
