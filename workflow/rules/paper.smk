# measurements -> numbers and tables; figures, tables and text -> paper and slides
rule typeset:
    input:
        measurements=[rules.measurements.input, TRAININGS],
        study=section("study"),
        published="paper/published.yaml",
        versions="docs/mask-versions.json",
        code=section("code/posenc.steps.typeset"),
    output:
        numbers="paper/generated/numbers.tex",
        checksums=[
            "paper/generated/checksums.json",
            "paper/generated/tables/checksums.json",
        ],
        tables=expand("paper/generated/tables/{table}.tex", table=TABLES),
        metrics="data/metrics.json",
        every_number="data/numbers.json",
        # Stands for the files of data/plots/layers, one per run, which only `dvc plots` reads: each
        # output has a record of all inputs, and with 400 runs they would take seconds to read.
        perplexity="data/plots/perplexity.csv",
    log:
        "logs/typeset.log",
    benchmark:
        "logs/benchmarks/typeset.tsv"
    shell:
        "python -m posenc.steps.typeset --study {input.study} --published {input.published}"
        " --versions {input.versions}"
        " --output-numbers {output.numbers} --output-tables paper/generated/tables"
        " --metrics {output.metrics} --plots data/plots {input.measurements} 2>&1 | tee {log}"


def shown(document):
    """What a document is made of: its text, and the figures and tables that it shows."""
    parts = DOCUMENTS[document]
    figures = [figure for figure in parts["figures"] if figure in DRAWN]
    return {
        "text": f"paper/{document}.tex",
        "references": "paper/references.bib",
        "numbers": rules.typeset.output.numbers,
        "tables": [f"paper/generated/tables/{table}.tex" for table in parts["tables"]],
        "figures": [f"data/figures/{figure}.pdf" for figure in figures],
        "checksums": [
            *rules.typeset.output.checksums,
            *(f"data/figures/{figure}.json" for figure in figures),
        ],
        "code": section("code/posenc.steps.latex"),
    }


for document in DOCUMENTS:

    rule:
        name:
            document
        input:
            **shown(document),
        output:
            report(
                f"paper/{document}.pdf",
                caption=f"../captions/{document}.rst",
                category="Documents",
            ),
        log:
            f"logs/{document}.log",
        benchmark:
            f"logs/benchmarks/{document}.tsv"
        shell:
            "python -m posenc.steps.latex --document {input.text} --output {output}"
            " {input.references} {input.numbers} {input.tables} {input.figures} 2>&1 | tee {log}"
