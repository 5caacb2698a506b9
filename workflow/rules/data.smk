# raw -> documents
rule fetch:
    input:
        config=of_step("datasets", "dataset", "fetch"),
        code=code("posenc.steps.fetch"),
    output:
        # One name whatever the source calls it: a file's name is nothing that a rule depends on.
        raw="data/raw/{dataset}/raw",
        checksums="data/raw/{dataset}/raw.json",
        receipt=update("data/receipts/raw_text/fetch/{dataset}.json"),
    log:
        "logs/fetch/{dataset}.log",
    benchmark:
        TIMES + "/fetch/{dataset}.tsv"
    priority: LONGEST_CHAIN
    shell:
        job(
            "posenc.steps.fetch --name {wildcards.dataset} --config {input.config:q}"
            " --output {output.raw:q}"
        )


rule documents:
    input:
        raw="data/raw/{dataset}/raw",
        checksums="data/raw/{dataset}/raw.json",
        config=of_step("datasets", "dataset", "documents"),
        code=code("posenc.steps.documents"),
    output:
        documents="data/documents/{dataset}.parquet",
        receipt=update("data/receipts/documents/documents/{dataset}.json"),
    log:
        "logs/documents/{dataset}.log",
    benchmark:
        TIMES + "/documents/{dataset}.tsv"
    priority: LONGEST_CHAIN
    shell:
        job(
            "posenc.steps.documents --config {input.config:q} --raw {input.raw:q}"
            " --output {output.documents:q}"
        )


# What experiments alone read lies apart: other rules read the folder of documents as a whole.
use rule documents as corpus with:
    output:
        documents="data/texts/{dataset}.parquet",
        receipt=update("data/receipts/documents/corpus/{dataset}.json"),
    log:
        "logs/corpus/{dataset}.log",
    benchmark:
        TIMES + "/corpus/{dataset}.tsv"
