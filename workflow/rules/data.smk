# raw -> documents
from posenc.datasets.names import raw_file_name


def raw_file(wildcards):
    """A data set's raw file, under the name that its source gives it."""
    origin = PARAMS.datasets[wildcards.dataset]
    return f"data/raw/{wildcards.dataset}/{raw_file_name(origin.source, origin.format)}"


rule fetch:
    input:
        config=section("datasets/{dataset}/fetch"),
        code=code.files("posenc.steps.fetch"),
    output:
        "data/raw/{dataset}/{file}",
    log:
        "logs/fetch/{dataset}.{file}.log",
    benchmark:
        "logs/benchmarks/fetch/{dataset}.{file}.tsv"
    wildcard_constraints:
        file="[^/]+",
    shell:
        "python -m posenc.steps.fetch --config {input.config} --output {output} 2>&1 | tee {log}"


rule documents:
    input:
        raw=raw_file,
        config=section("datasets/{dataset}/documents"),
        code=code.files("posenc.steps.documents"),
    output:
        "data/documents/{dataset}.parquet",
    log:
        "logs/documents/{dataset}.log",
    benchmark:
        "logs/benchmarks/documents/{dataset}.tsv"
    shell:
        "python -m posenc.steps.documents --config {input.config} --raw {input.raw}"
        " --output {output} 2>&1 | tee {log}"
