# activations -> measurements
rule measurements:
    input:
        runs("data/measurements/similarity/{model}/{dataset}/{condition}.json"),
        runs("data/measurements/perplexity/{model}/{dataset}/{condition}.json"),


rule similarity:
    input:
        intact="data/activations/{model}/{dataset}/intact/index.parquet",
        condition="data/activations/{model}/{dataset}/{condition}/index.parquet",
        config=section("measurements/similarity"),
        code=code.files("posenc.steps.similarity"),
    output:
        "data/measurements/similarity/{model}/{dataset}/{condition}.json",
    log:
        "logs/similarity/{model}/{dataset}/{condition}.log",
    benchmark:
        "logs/benchmarks/similarity/{model}/{dataset}/{condition}.tsv"
    shell:
        "python -m posenc.steps.similarity --config {input.config}"
        " --intact $(dirname {input.intact}) --condition $(dirname {input.condition})"
        " --output {output} 2>&1 | tee {log}"


rule perplexity:
    input:
        intact="data/activations/{model}/{dataset}/intact/index.parquet",
        condition="data/activations/{model}/{dataset}/{condition}/index.parquet",
        config=section("measurements/perplexity"),
        code=code.files("posenc.steps.perplexity"),
    output:
        "data/measurements/perplexity/{model}/{dataset}/{condition}.json",
    log:
        "logs/perplexity/{model}/{dataset}/{condition}.log",
    benchmark:
        "logs/benchmarks/perplexity/{model}/{dataset}/{condition}.tsv"
    shell:
        "python -m posenc.steps.perplexity --config {input.config}"
        " --intact $(dirname {input.intact}) --condition $(dirname {input.condition})"
        " --output {output} 2>&1 | tee {log}"
