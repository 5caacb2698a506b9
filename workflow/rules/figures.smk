# measurements -> figures
TRAININGS = expand(
    f"{RUNS}/training/{{model}}/{{file}}",
    model=STUDY.trained,
    file=["loss.csv", "summary.json"],
)


DRAWN = {
    name: [*measured(*entry.measurements), *(TRAININGS if "training" in entry.measurements else [])]
    for name, entry in FIGURES.items()
    if name in plan.figures(PARAMS)
}


# Where Snakemake's report finds them. A parameter of the rule would draw a figure again when its
# caption changes.
config["captions"] = {name: entry.caption for name, entry in FIGURES.items()}


rule figure:
    input:
        measurements=lambda wildcards: DRAWN[wildcards.figure],
        runs=section("figures/runs"),
        config=section("figures/{figure}"),
        style=section("figures/style"),
        code=lambda wildcards: code(module_of(wildcards.figure)),
    output:
        receipt=update(f"{RUNS}/receipts/figures/{{figure}}.json"),
        pdf=f"{RUNS}/figures/{{figure}}.pdf",
        checksums=f"{RUNS}/figures/{{figure}}.json",
        svg=report(
            f"{RUNS}/figures/{{figure}}.svg",
            caption="../captions/figure.rst",
            category=lambda wildcards: FIGURES[wildcards.figure].question,
            labels={"figure": "{figure}", "study": STUDY.name},
        ),
    log:
        "logs/figure/{figure}.log",
    benchmark:
        TIMES + "/figure/{figure}.tsv"
    wildcard_constraints:
        figure=plan.alternatives(DRAWN),
    params:
        module=lambda wildcards: module_of(wildcards.figure),
    shell:
        job(
            "{params.module:q} --config {input.config:q} --style {input.style:q}"
            " --output {output.pdf:q} --output {output.svg:q} {input.measurements:q}"
        )
