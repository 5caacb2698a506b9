# models: fetched, or trained on documents
PRETRAINED = plan.alternatives(plan.pretrained(PARAMS))
TRAINED = plan.alternatives(plan.trained(PARAMS))


MODEL_FILES = ["config.json", "model.safetensors", "checksums.json"]
TOKENIZER_FILES = ["tokenizer.json", "checksums.json"]


def training_documents(wildcards):
    """Documents of the data set that a decoder learns from."""
    return f"data/documents/{plan.training_dataset(PARAMS, wildcards.model)}.parquet"


rule model:
    input:
        config=section("models/{model}/fetch"),
        code=section("code/posenc.steps.model"),
    output:
        [f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        [f"data/tokenizers/{{model}}/{file}" for file in TOKENIZER_FILES],
    log:
        "logs/model/{model}.log",
    benchmark:
        "logs/benchmarks/model/{model}.tsv"
    wildcard_constraints:
        model=PRETRAINED,
    priority: LONGEST_CHAIN
    shell:
        "python -m posenc.steps.model --name {wildcards.model} --config {input.config}"
        " --output data/models/{wildcards.model} --tokenizer data/tokenizers/{wildcards.model}"
        " 2>&1 | tee {log}"


rule tokenizer:
    input:
        documents=training_documents,
        config=section("models/{model}/corpus"),
        code=section("code/posenc.steps.tokenizer"),
    output:
        tokenizer="data/tokenizers/{model}/tokenizer.json",
        checksums="data/tokenizers/{model}/checksums.json",
    log:
        "logs/tokenizer/{model}.log",
    benchmark:
        "logs/benchmarks/tokenizer/{model}.tsv"
    wildcard_constraints:
        model=TRAINED,
    priority: LONGEST_CHAIN
    threads: THREADS
    shell:
        "RAYON_NUM_THREADS={threads} python -m posenc.steps.tokenizer --name {wildcards.model}"
        " --config {input.config} --documents {input.documents}"
        " --output {output.tokenizer} 2>&1 | tee {log}"


rule training_tokens:
    input:
        documents=training_documents,
        tokenizer="data/tokenizers/{model}/tokenizer.json",
        checksums="data/tokenizers/{model}/checksums.json",
        config=section("models/{model}/corpus"),
        code=section("code/posenc.steps.training_tokens"),
    output:
        "data/corpora/{model}.parquet",
    log:
        "logs/training_tokens/{model}.log",
    benchmark:
        "logs/benchmarks/training_tokens/{model}.tsv"
    wildcard_constraints:
        model=TRAINED,
    priority: LONGEST_CHAIN
    threads: THREADS
    shell:
        "RAYON_NUM_THREADS={threads} python -m posenc.steps.training_tokens"
        " --config {input.config} --tokenizer {input.tokenizer} --documents {input.documents}"
        " --output {output} 2>&1 | tee {log}"


rule train:
    input:
        tokens="data/corpora/{model}.parquet",
        tokenizer="data/tokenizers/{model}/tokenizer.json",
        checksums="data/tokenizers/{model}/checksums.json",
        config=section("models/{model}/train"),
        code=section("code/posenc.steps.train"),
    output:
        model=update([f"data/models/{{model}}/{file}" for file in MODEL_FILES]),
        curve=update("data/training/{model}/loss.csv"),
        summary=update("data/training/{model}/summary.json"),
    log:
        "logs/train/{model}.log",
    benchmark:
        "logs/benchmarks/train/{model}.tsv"
    wildcard_constraints:
        model=TRAINED,
    priority: LONGEST_CHAIN
    threads: THREADS
    resources:
        gpu=GPU,
    params:
        dataset=lambda wildcards, input: plan.training_dataset(PARAMS, wildcards.model),
    shell:
        "python -m posenc.steps.train --name {wildcards.model} --dataset {params.dataset}"
        " --config {input.config} --tokenizer {input.tokenizer} --tokens {input.tokens}"
        " --output data/models/{wildcards.model} --curve {output.curve}"
        " --summary {output.summary} --threads {threads} 2>&1 | tee {log}"


# The trainings of a study lie together, apart from those of other studies.
rule training:
    input:
        curve="data/training/{model}/loss.csv",
        summary="data/training/{model}/summary.json",
        code=section("code/posenc.steps.training"),
    output:
        curve=f"{RUNS}/training/{{model}}/loss.csv",
        summary=f"{RUNS}/training/{{model}}/summary.json",
    log:
        "logs/training/{model}.log",
    benchmark:
        "logs/benchmarks/training/{model}.tsv"
    wildcard_constraints:
        model=TRAINED,
    shell:
        "python -m posenc.steps.training --curve {input.curve} --summary {input.summary}"
        " --output {RUNS}/training/{wildcards.model} 2>&1 | tee {log}"
