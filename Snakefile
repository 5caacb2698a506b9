# The contents page: raw -> documents -> tokens -> activations -> measurements -> figures -> paper.
from snakemake.utils import min_version

min_version("9.27")


configfile: "params.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/activations.smk"
include: "workflow/rules/measurements.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/paper.smk"


rule all:
    default_target: True
    input:
        rules.measurements.input,
        rules.figures.input,
        rules.typeset.output,
        [rules.paper.output, rules.slides.output] if not LATEX_MISSING else [],


onsuccess:
    # DVC runs Snakemake once a stage and has its own last line.
    if "DVC_STAGE" not in os.environ:
        print(latex.closing_line())
