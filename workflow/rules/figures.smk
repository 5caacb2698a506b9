# measurements -> figures
FIGURES = {
    "layer_similarity": runs(
        f"{RUNS}/measurements/similarity/{{model}}/{{dataset}}/{{condition}}.json"
    ),
    "cosine_histogram": runs(
        f"{RUNS}/measurements/similarity/{{model}}/{{dataset}}/{{condition}}.json"
    ),
    "perplexity": runs(f"{RUNS}/measurements/perplexity/{{model}}/{{dataset}}/{{condition}}.json"),
    "training_loss": expand(
        f"{RUNS}/training/{{model}}/{{file}}",
        model=STUDY.trained,
        file=["loss.csv", "summary.json"],
    ),
    "position_layers": CONDITION_MEASUREMENTS,
    "condition_costs": CONDITION_MEASUREMENTS,
    "recovered_share": CONDITION_MEASUREMENTS,
    "slope_sweep": CONDITION_MEASUREMENTS
    + expand(
        f"{RUNS}/measurements/reference/{{model}}/{{dataset}}.json",
        model=STUDY.models,
        dataset=STUDY.datasets,
    ),
    "length_sweep": CONDITION_MEASUREMENTS,
    "extrapolation": CONDITION_MEASUREMENTS,
    "mask_semantics": [],  # of definitions alone
}
CATEGORIES = {
    "layer_similarity": "A1 zeroed positions",
    "cosine_histogram": "A2 is this cosine high?",
    "perplexity": "D1 perplexity",
    "training_loss": "Training",
    "position_layers": "A1 zeroed positions",
    "condition_costs": "A4 masks",
    "recovered_share": "A5 masks in place of positions",
    "slope_sweep": "A4 masks",
    "length_sweep": "A4 masks",
    "extrapolation": "A5 masks in place of positions",
    "mask_semantics": "A4 masks",
}


rule figures:
    input:
        expand("data/figures/{figure}.{form}", figure=FIGURES, form=["pdf", "png", "json"]),


rule figure:
    input:
        measurements=lambda wildcards: FIGURES[wildcards.figure],
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
            category=lambda wildcards: CATEGORIES[wildcards.figure],
            labels={"figure": "{figure}", "study": STUDY.name},
        ),
    log:
        "logs/figure/{figure}.log",
    benchmark:
        "logs/benchmarks/figure/{figure}.tsv"
    wildcard_constraints:
        figure=plan.alternatives(FIGURES),
    shell:
        "python -m posenc.figures.{wildcards.figure} --config {input.config}"
        " --style {input.style} --output {output.pdf} --output {output.png} {input.measurements}"
        " 2>&1 | tee {log}"
