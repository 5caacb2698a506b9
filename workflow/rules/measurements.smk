# activations -> measurements. One job a model; a run whose measurement is current is kept.
TEXT_MEASUREMENTS = expand(
    f"{RUNS}/measurements/{{measurement}}/{{model}}/{{dataset}}.json",
    measurement=plan.chosen(PARAMS, ["norms", "reference"]),
    model=STUDY.models,
    dataset=STUDY.datasets,
)


rule measurements:
    input:
        runs(f"{RUNS}/measurements/similarity/{{model}}/{{dataset}}/{{condition}}.json"),
        runs(f"{RUNS}/measurements/perplexity/{{model}}/{{dataset}}/{{condition}}.json"),
        CONDITION_MEASUREMENTS,
        TEXT_MEASUREMENTS,
        POSITION_MEASUREMENTS,
        BUNDLED_MEASUREMENTS,
        EXPERIMENT_MEASUREMENTS,


rule similarity:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        config=section("similarity/{model}"),
        code=section("code/posenc.measurements.similarity"),
    output:
        update(
            of_model(
                f"{RUNS}/measurements/similarity/{{{{model}}}}/{{dataset}}/{{condition}}.json"
            )
        ),
    log:
        "logs/similarity/{model}.log",
    benchmark:
        "logs/benchmarks/similarity/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.similarity --config {input.config}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/similarity/{wildcards.model} 2>&1 | tee {log}"


rule perplexity:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        config=section("perplexity/{model}"),
        code=section("code/posenc.measurements.perplexity"),
    output:
        update(
            of_model(
                f"{RUNS}/measurements/perplexity/{{{{model}}}}/{{dataset}}/{{condition}}.json"
            )
        ),
    log:
        "logs/perplexity/{model}.log",
    benchmark:
        "logs/benchmarks/perplexity/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.perplexity --config {input.config}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/perplexity/{wildcards.model} 2>&1 | tee {log}"


rule conditions:
    input:
        evaluations=expand(
            f"{RUNS}/evaluations/{{{{model}}}}/{{dataset}}.parquet",
            dataset=EVALUATED_TEXTS,
        ),
        masks=f"{RUNS}/masks/{{model}}/masks.json",
        config=section("conditions/{model}"),
        code=section("code/posenc.measurements.conditions"),
    output:
        expand(
            f"{RUNS}/measurements/conditions/{{{{model}}}}/{{dataset}}.json",
            dataset=EVALUATED_TEXTS,
        ),
    log:
        "logs/conditions/{model}.log",
    benchmark:
        "logs/benchmarks/conditions/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.conditions --model {wildcards.model} --config {input.config}"
        " --evaluations {params.runs}/evaluations/{wildcards.model}"
        " --masks {params.runs}/masks/{wildcards.model}"
        " --output {params.runs}/measurements/conditions/{wildcards.model} 2>&1 | tee {log}"


rule norms:
    input:
        tokens=expand(f"{RUNS}/tokens/{{{{model}}}}/{{dataset}}.parquet", dataset=STUDY.datasets),
        model=[f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        config=section("norms/{model}"),
        code=section("code/posenc.measurements.norms"),
    output:
        expand(f"{RUNS}/measurements/norms/{{{{model}}}}/{{dataset}}.json", dataset=STUDY.datasets),
    log:
        "logs/norms/{model}.log",
    benchmark:
        "logs/benchmarks/norms/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.norms --model {wildcards.model} --config {input.config}"
        " --weights data/models/{wildcards.model} --tokens {params.runs}/tokens/{wildcards.model}"
        " --output {params.runs}/measurements/norms/{wildcards.model} 2>&1 | tee {log}"


def learned_from(wildcards):
    """The tokens that a model of this workflow learned from; others' are not known."""
    return f"data/corpora/{wildcards.model}.parquet" if wildcards.model in STUDY.trained else []


rule reference:
    input:
        corpus=learned_from,
        tokens=expand(f"{RUNS}/tokens/{{{{model}}}}/{{dataset}}.parquet", dataset=STUDY.datasets),
        model=["data/models/{model}/config.json", "data/models/{model}/checksums.json"],
        config=section("reference/{model}"),
        code=section("code/posenc.measurements.reference"),
    output:
        expand(
            f"{RUNS}/measurements/reference/{{{{model}}}}/{{dataset}}.json",
            dataset=STUDY.datasets,
        ),
    log:
        "logs/reference/{model}.log",
    benchmark:
        "logs/benchmarks/reference/{model}.tsv"
    params:
        runs=RUNS,
        corpus=lambda wildcards, input: f"--corpus {input.corpus}" if input.corpus else "",
    shell:
        "python -m posenc.measurements.reference --model {wildcards.model} --config {input.config}"
        " --weights data/models/{wildcards.model} {params.corpus}"
        " --tokens {params.runs}/tokens/{wildcards.model}"
        " --output {params.runs}/measurements/reference/{wildcards.model} 2>&1 | tee {log}"
