# activations -> measurements. One job a model; a run whose measurement is current is kept.
rule measurements:
    input:
        runs(f"{RUNS}/measurements/similarity/{{model}}/{{dataset}}/{{condition}}.json"),
        runs(f"{RUNS}/measurements/perplexity/{{model}}/{{dataset}}/{{condition}}.json"),


rule similarity:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        config=section("similarity/{model}"),
        code=section("code/posenc.steps.similarity"),
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
        "python -m posenc.steps.similarity --config {input.config}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/similarity/{wildcards.model} 2>&1 | tee {log}"


rule perplexity:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        config=section("perplexity/{model}"),
        code=section("code/posenc.steps.perplexity"),
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
        "python -m posenc.steps.perplexity --config {input.config}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/perplexity/{wildcards.model} 2>&1 | tee {log}"
