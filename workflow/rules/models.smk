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
        config=of_step("models", "model", "fetch"),
        code=code("posenc.steps.model"),
    output:
        [f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        [f"data/tokenizers/{{model}}/{file}" for file in TOKENIZER_FILES],
        verification="data/models/{model}/verification.json",
        receipt=update("data/receipts/models/model/{model}.json"),
    log:
        "logs/model/{model}.log",
    benchmark:
        TIMES + "/model/{model}.tsv"
    wildcard_constraints:
        model=PRETRAINED,
    priority: LONGEST_CHAIN
    shell:
        job(
            "posenc.steps.model --name {wildcards.model} --config {input.config:q}"
            " --output data/models/{wildcards.model}"
            " --tokenizer data/tokenizers/{wildcards.model}"
        )


rule tokenizer:
    input:
        documents=training_documents,
        config=of_step("models", "model", "corpus"),
        code=code("posenc.steps.tokenizer"),
    output:
        receipt=update("data/receipts/models/tokenizer/{model}.json"),
        tokenizer="data/tokenizers/{model}/tokenizer.json",
        checksums="data/tokenizers/{model}/checksums.json",
    log:
        "logs/tokenizer/{model}.log",
    benchmark:
        TIMES + "/tokenizer/{model}.tsv"
    wildcard_constraints:
        model=TRAINED,
    priority: LONGEST_CHAIN
    threads: THREADS
    shell:
        job(
            "posenc.steps.tokenizer --name {wildcards.model} --config {input.config:q}"
            " --documents {input.documents:q} --output {output.tokenizer:q}",
            tokenizes=True,
        )


rule training_tokens:
    input:
        documents=training_documents,
        tokenizer="data/tokenizers/{model}/tokenizer.json",
        checksums="data/tokenizers/{model}/checksums.json",
        config=of_step("models", "model", "corpus"),
        code=code("posenc.steps.training_tokens"),
    output:
        corpus="data/corpora/{model}.parquet",
        receipt=update("data/receipts/models/training_tokens/{model}.json"),
    log:
        "logs/training_tokens/{model}.log",
    benchmark:
        TIMES + "/training_tokens/{model}.tsv"
    wildcard_constraints:
        model=TRAINED,
    priority: LONGEST_CHAIN
    threads: THREADS
    shell:
        job(
            "posenc.steps.training_tokens --config {input.config:q} --tokenizer {input.tokenizer:q}"
            " --documents {input.documents:q} --output {output.corpus:q}",
            tokenizes=True,
        )


rule train:
    input:
        tokens="data/corpora/{model}.parquet",
        tokenizer="data/tokenizers/{model}/tokenizer.json",
        checksums="data/tokenizers/{model}/checksums.json",
        config=of_step("models", "model", "train"),
        code=code("posenc.steps.train"),
    output:
        receipt=update("data/receipts/models/train/{model}.json"),
        model=update([f"data/models/{{model}}/{file}" for file in MODEL_FILES]),
        curve=update("data/training/{model}/loss.csv"),
        summary=update("data/training/{model}/summary.json"),
    log:
        "logs/train/{model}.log",
    benchmark:
        TIMES + "/train/{model}.tsv"
    wildcard_constraints:
        model=TRAINED,
    priority: LONGEST_CHAIN
    threads: THREADS
    resources:
        gpu=GPU,
    params:
        dataset=lambda wildcards, input: plan.training_dataset(PARAMS, wildcards.model),
    shell:
        job(
            "posenc.steps.train --name {wildcards.model} --dataset {params.dataset}"
            " --config {input.config:q} --tokenizer {input.tokenizer:q} --tokens {input.tokens:q}"
            " --output data/models/{wildcards.model} --curve {output.curve:q}"
            " --summary {output.summary:q} --threads {threads}"
        )


# The trainings of a study lie together, apart from those of other studies.
rule training:
    input:
        curve="data/training/{model}/loss.csv",
        summary="data/training/{model}/summary.json",
        code=code("posenc.steps.training"),
    output:
        receipt=update(f"{RUNS}/receipts/trainings/training/{{model}}.json"),
        curve=f"{RUNS}/training/{{model}}/loss.csv",
        summary=f"{RUNS}/training/{{model}}/summary.json",
    log:
        "logs/training/{model}.log",
    benchmark:
        TIMES + "/training/{model}.tsv"
    wildcard_constraints:
        model=TRAINED,
    shell:
        job(
            "posenc.steps.training --curve {input.curve:q} --summary {input.summary:q}"
            " --output {RUNS}/training/{wildcards.model}"
        )
