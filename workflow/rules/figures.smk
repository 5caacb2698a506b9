# measurements -> figures
OF_RUNS = ["similarity", "perplexity"]


def measured(name):
    """The files of a measurement, in the order of the study."""
    if name == "training":
        return expand(
            f"{RUNS}/training/{{model}}/{{file}}",
            model=STUDY.trained,
            file=["loss.csv", "summary.json"],
        )
    if name in OF_RUNS:
        return runs(f"{RUNS}/measurements/{name}/{{model}}/{{dataset}}/{{condition}}.json")
    begin = f"{RUNS}/measurements/{name}"
    every = [
        *CONDITION_MEASUREMENTS,
        *TEXT_MEASUREMENTS,
        *POSITION_MEASUREMENTS,
        *BUNDLED_MEASUREMENTS,
        *EXPERIMENT_MEASUREMENTS,
    ]
    return [path for path in every if path.startswith((f"{begin}/", f"{begin}.json"))]


DRAWN = {
    name: [path for kind in kinds for path in measured(kind)]
    for name, (_, kinds) in FIGURES.items()
    if name in plan.figures(PARAMS)
}


rule figures:
    input:
        expand("data/figures/{figure}.{form}", figure=DRAWN, form=["pdf", "png", "json"]),


rule figure:
    input:
        measurements=lambda wildcards: DRAWN[wildcards.figure],
        runs=section("runs"),
        config=section("figures/{figure}"),
        style=section("figures/style"),
        code=section("code/posenc.figures.{figure}"),
    output:
        pdf="data/figures/{figure}.pdf",
        checksums="data/figures/{figure}.json",
        png=report(
            "data/figures/{figure}.png",
            caption="../captions/figure.rst",
            category=lambda wildcards: FIGURES[wildcards.figure][0],
            labels={"figure": "{figure}", "study": STUDY.name},
        ),
    log:
        "logs/figure/{figure}.log",
    benchmark:
        "logs/benchmarks/figure/{figure}.tsv"
    wildcard_constraints:
        figure=plan.alternatives(DRAWN),
    shell:
        "python -m posenc.figures.{wildcards.figure} --config {input.config}"
        " --style {input.style} --output {output.pdf} --output {output.png} {input.measurements}"
        " 2>&1 | tee {log}"
