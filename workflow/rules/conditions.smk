# tokens -> learned masks -> losses and similarities under every condition; no activations are kept


def text_of(name):
    """The tokens of a text beside the data sets, where the study has it."""
    return [f"{RUNS}/texts/{{model}}/{name}.parquet"] if name in STUDY.texts else []


if STUDY.texts:

    rule texts:
        input:
            documents=f"data/documents/{STUDY.calibration}.parquet",
            tokenizer="data/tokenizers/{model}/tokenizer.json",
            checksums="data/tokenizers/{model}/checksums.json",
            config=section("tokens/texts/{model}"),
            code=code("posenc.steps.tokenize"),
        output:
            receipt=update(f"{RUNS}/receipts/tokens/texts/{{model}}.json"),
            texts=update(expand(f"{RUNS}/texts/{{{{model}}}}/{{text}}.parquet", text=STUDY.texts)),
        log:
            "logs/texts/{model}.log",
        benchmark:
            TIMES + "/texts/{model}.tsv"
        priority: LONGEST_CHAIN
        shell:
            job(
                "posenc.steps.tokenize --config {input.config:q} --tokenizer {input.tokenizer:q}"
                " --documents data/documents --output {RUNS}/texts/{wildcards.model}"
            )


# The list holds the checksum of every mask, so it stands for the folder.
rule masks:
    input:
        tokens=text_of("calibration"),
        model=[f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        config=section("masks/{model}"),
        code=code("posenc.steps.masks"),
    output:
        receipt=update(f"{RUNS}/receipts/masks/masks/{{model}}.json"),
        masks=update(f"{RUNS}/masks/{{model}}/masks.json"),
    log:
        "logs/masks/{model}.log",
    benchmark:
        TIMES + "/masks/{model}.tsv"
    priority: LONGEST_CHAIN
    threads: THREADS
    resources:
        gpu=GPU,
    params:
        tokens=lambda wildcards, input: (
            f"--tokens {shlex.quote(str(input.tokens))}" if input.tokens else ""
        ),
    shell:
        job(
            "posenc.steps.masks --model {wildcards.model} --config {input.config:q}"
            " --weights data/models/{wildcards.model} {params.tokens}"
            " --output {RUNS}/masks/{wildcards.model} --threads {threads}"
        )


rule evaluate:
    input:
        tokens=expand(f"{RUNS}/tokens/{{{{model}}}}/{{dataset}}.parquet", dataset=STUDY.datasets),
        long=text_of("long"),
        masks=f"{RUNS}/masks/{{model}}/masks.json",
        model=[f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        config=section("evaluations/{model}"),
        code=code("posenc.steps.evaluate"),
    output:
        receipt=update(f"{RUNS}/receipts/evaluations/evaluate/{{model}}.json"),
        evaluations=update(
            expand(
                f"{RUNS}/evaluations/{{{{model}}}}/{{dataset}}.parquet",
                dataset=EVALUATED_TEXTS,
            )
        ),
    log:
        "logs/evaluate/{model}.log",
    benchmark:
        TIMES + "/evaluate/{model}.tsv"
    priority: LONGEST_CHAIN
    threads: THREADS
    resources:
        gpu=GPU,
    params:
        long=lambda wildcards, input: f"--long {shlex.quote(str(input.long))}" if input.long else "",
    shell:
        job(
            "posenc.steps.evaluate --model {wildcards.model} --config {input.config:q}"
            " --weights data/models/{wildcards.model} --tokens {RUNS}/tokens/{wildcards.model}"
            " {params.long} --masks {RUNS}/masks/{wildcards.model}"
            " --output {RUNS}/evaluations/{wildcards.model} --threads {threads}"
        )
