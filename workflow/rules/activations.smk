# documents -> tokens -> hidden states, queries, keys and losses
rule tokenize:
    input:
        documents="data/documents/{dataset}.parquet",
        tokenizer="data/tokenizers/{model}/tokenizer.json",
        reading=section("models/{model}/reading"),
        evaluation=section("datasets/{dataset}/evaluation"),
        code=code.files("posenc.steps.tokenize"),
    output:
        "data/tokens/{model}/{dataset}.parquet",
    log:
        "logs/tokenize/{model}/{dataset}.log",
    benchmark:
        "logs/benchmarks/tokenize/{model}/{dataset}.tsv"
    shell:
        "python -m posenc.steps.tokenize --model {input.reading} --evaluation {input.evaluation}"
        " --tokenizer {input.tokenizer} --documents {input.documents} --output {output}"
        " 2>&1 | tee {log}"


# The index holds the checksum of every shard beside it, so it stands for the whole store.
rule capture:
    input:
        tokens="data/tokens/{model}/{dataset}.parquet",
        model_config="data/models/{model}/config.json",
        weights="data/models/{model}/model.safetensors",
        reading=section("models/{model}/reading"),
        condition=section("conditions/{condition}"),
        config=section("activations"),
        code=code.files("posenc.steps.capture"),
    output:
        "data/activations/{model}/{dataset}/{condition}/index.parquet",
    log:
        "logs/capture/{model}/{dataset}/{condition}.log",
    benchmark:
        "logs/benchmarks/capture/{model}/{dataset}/{condition}.tsv"
    threads: 8
    resources:
        gpu=1,
    shell:
        "python -m posenc.steps.capture"
        " --run {wildcards.model}/{wildcards.dataset}/{wildcards.condition}"
        " --reading {input.reading} --condition {input.condition} --config {input.config}"
        " --weights data/models/{wildcards.model} --tokens {input.tokens}"
        " --output data/activations/{wildcards.model}/{wildcards.dataset}/{wildcards.condition}"
        " --threads {threads} 2>&1 | tee {log}"
