# raw -> documents
from posenc.datasets.names import raw_file_name


def raw_path(dataset):
    """A data set's raw file, under the name that its source gives it."""
    origin = PARAMS.datasets[dataset]
    return f"data/raw/{dataset}/{raw_file_name(origin.source, origin.format)}"


rule fetch:
    input:
        config=section("datasets/{dataset}/fetch"),
        code=section("code/posenc.steps.fetch"),
    output:
        raw="data/raw/{dataset}/{file}",
        checksums="data/raw/{dataset}/{file}.json",
    log:
        "logs/fetch/{dataset}.{file}.log",
    benchmark:
        "logs/benchmarks/fetch/{dataset}.{file}.tsv"
    wildcard_constraints:
        file=r"[^/]+(?<!\.json)",
    priority: LONGEST_CHAIN
    shell:
        "python -m posenc.steps.fetch --config {input.config} --output {output.raw} 2>&1"
        " | tee {log}"


rule documents:
    input:
        raw=lambda wildcards: raw_path(wildcards.dataset),
        checksums=lambda wildcards: f"{raw_path(wildcards.dataset)}.json",
        config=section("datasets/{dataset}/documents"),
        code=section("code/posenc.steps.documents"),
    output:
        "data/documents/{dataset}.parquet",
    log:
        "logs/documents/{dataset}.log",
    benchmark:
        "logs/benchmarks/documents/{dataset}.tsv"
    priority: LONGEST_CHAIN
    shell:
        "python -m posenc.steps.documents --config {input.config} --raw {input.raw}"
        " --output {output} 2>&1 | tee {log}"


# What experiments alone read lies apart: DVC's stages depend on the folder of documents as a whole.
use rule documents as corpus with:
    output:
        "data/texts/{dataset}.parquet",
    log:
        "logs/corpus/{dataset}.log",
    benchmark:
        "logs/benchmarks/corpus/{dataset}.tsv"
