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
        config=section("tokens/tokenize/{model}"),
        code=code("posenc.steps.tokenize"),
    output:
        receipt=update(f"{RUNS}/receipts/tokens/tokenize/{{model}}.json"),
        tokens=update(
            expand(f"{RUNS}/tokens/{{{{model}}}}/{{dataset}}.parquet", dataset=STUDY.datasets)
        ),
    log:
        "logs/tokenize/{model}.log",
    benchmark:
        TIMES + "/tokenize/{model}.tsv"
    priority: LONGEST_CHAIN
    shell:
        job(
            "posenc.steps.tokenize --config {input.config:q} --tokenizer {input.tokenizer:q}"
            " --documents data/documents --output {RUNS}/tokens/{wildcards.model}"
        )


def captured(wildcards):
    """What the captures of a model are made of."""
    model = wildcards.model
    return {
        "tokens": expand(f"{RUNS}/tokens/{model}/{{dataset}}.parquet", dataset=STUDY.datasets),
        "model": [f"data/models/{model}/{file}" for file in MODEL_FILES],
        "config": section("activations/{model}")(wildcards),
        "code": code("posenc.steps.capture")(wildcards),
    }


rule capture:
    input:
        unpack(captured),
    output:
        part=temp(f"{RUNS}/captures/{{model}}.{{scatteritem}}.json"),
    log:
        "logs/capture/{model}.{scatteritem}.log",
    benchmark:
        TIMES + "/capture/{model}.{scatteritem}.tsv"
    threads: THREADS
    resources:
        gpu=GPU,
    shell:
        job(
            "posenc.steps.capture --model {wildcards.model} --config {input.config:q}"
            " --weights data/models/{wildcards.model} --tokens {RUNS}/tokens/{wildcards.model}"
            " --output {RUNS}/activations/{wildcards.model} --part {wildcards.scatteritem}"
            " --done {output.part:q} --threads {threads}",
            receipt=False,
        )


# An index holds the checksum of every shard beside it, so it stands for the whole store.
rule store:
    input:
        unpack(captured),
        parts=gather.capture(f"{RUNS}/captures/{{{{model}}}}.{{scatteritem}}.json"),
        store_code=code("posenc.steps.store"),
    output:
        receipt=update(f"{RUNS}/receipts/activations/store/{{model}}.json"),
        indices=update(
            of_model(f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet")
        ),
    log:
        "logs/store/{model}.log",
    benchmark:
        TIMES + "/store/{model}.tsv"
    shell:
        # What says that a part is captured is gone when the store is finished: it is no input.
        job(
            "posenc.steps.store --model {wildcards.model} --config {input.config:q}"
            " --weights data/models/{wildcards.model} --tokens {RUNS}/tokens/{wildcards.model}"
            " --output {RUNS}/activations/{wildcards.model}",
            inputs="{input.tokens:q} {input.model:q} {input.config:q} {input.code:q}"
            " {input.store_code:q}",
        )
