# documents -> tokens -> hidden states, queries, keys and losses. One capture per model loops over its
# runs, so that programs and weights are loaded once; a run that is current is kept as it is.


# Shards are independent: `--set-scatter capture=4` spreads each model's over four jobs.
scattergather:
    capture=1,


rule tokenize:
    input:
        documents=expand("data/documents/{dataset}.parquet", dataset=STUDY.datasets),
        tokenizer="data/tokenizers/{model}/tokenizer.json",
        checksums="data/tokenizers/{model}/checksums.json",
        config=section("tokenize/{model}"),
        code=section("code/posenc.steps.tokenize"),
    output:
        update(expand(f"{RUNS}/tokens/{{{{model}}}}/{{dataset}}.parquet", dataset=STUDY.datasets)),
    log:
        "logs/tokenize/{model}.log",
    benchmark:
        "logs/benchmarks/tokenize/{model}.tsv"
    priority: LONGEST_CHAIN
    shell:
        "python -m posenc.steps.tokenize --config {input.config} --tokenizer {input.tokenizer}"
        " --documents data/documents --output {RUNS}/tokens/{wildcards.model}"
        " 2>&1 | tee {log}"


def captured(wildcards):
    """What the captures of a model are made of."""
    model = wildcards.model
    return {
        "tokens": expand(f"{RUNS}/tokens/{model}/{{dataset}}.parquet", dataset=STUDY.datasets),
        "model": [f"data/models/{model}/{file}" for file in MODEL_FILES],
        "config": section(f"capture/{model}"),
    }


rule capture:
    input:
        unpack(captured),
        code=section("code/posenc.steps.capture"),
    output:
        temp(f"{RUNS}/captures/{{model}}.{{scatteritem}}.json"),
    log:
        "logs/capture/{model}.{scatteritem}.log",
    benchmark:
        "logs/benchmarks/capture/{model}.{scatteritem}.tsv"
    threads: THREADS
    resources:
        gpu=GPU,
    shell:
        "python -m posenc.steps.capture --model {wildcards.model} --config {input.config}"
        " --weights data/models/{wildcards.model} --tokens {RUNS}/tokens/{wildcards.model}"
        " --output {RUNS}/activations/{wildcards.model} --part {wildcards.scatteritem}"
        " --receipt {output} --threads {threads} 2>&1 | tee {log}"


# An index holds the checksum of every shard beside it, so it stands for the whole store.
rule store:
    input:
        unpack(captured),
        parts=gather.capture(f"{RUNS}/captures/{{{{model}}}}.{{scatteritem}}.json"),
        # Snakemake notes what a receipt was made of even where its job failed; these notes tell.
        capture_code=section("code/posenc.steps.capture"),
        code=section("code/posenc.steps.store"),
    output:
        update(
            of_model(f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet")
        ),
    log:
        "logs/store/{model}.log",
    benchmark:
        "logs/benchmarks/store/{model}.tsv"
    shell:
        "python -m posenc.steps.store --model {wildcards.model} --config {input.config}"
        " --weights data/models/{wildcards.model} --tokens {RUNS}/tokens/{wildcards.model}"
        " --output {RUNS}/activations/{wildcards.model} 2>&1 | tee {log}"
