# measurements -> numbers and tables; figures, tables and text -> paper, supplement, slides
rule typeset:
    input:
        measurements=[rules.measurements.input, TRAININGS],
        study=section("study"),
        published="paper/published.yaml",
        versions="docs/mask-versions.json",
        code=section("code/posenc.steps.typeset"),
    output:
        numbers=f"{RUNS}/generated/numbers.tex",
        checksums=[
            f"{RUNS}/generated/checksums.json",
            f"{RUNS}/generated/tables/checksums.json",
        ],
        tables=expand(f"{RUNS}/generated/tables/{{table}}.tex", table=TABLES),
        metrics=f"{RUNS}/metrics.json",
        every_number=f"{RUNS}/numbers.json",
        # Stands for the files of plots/layers, one per run, which only `dvc plots` reads: each
        # output has a record of all inputs, and with 400 runs they would take seconds to read.
        perplexity=f"{RUNS}/plots/perplexity.csv",
    log:
        "logs/typeset.log",
    benchmark:
        "logs/benchmarks/typeset.tsv"
    shell:
        "python -m posenc.steps.typeset --study {input.study} --published {input.published}"
        " --versions {input.versions}"
        " --output-numbers {output.numbers} --output-tables {RUNS}/generated/tables"
        " --metrics {output.metrics} --plots {RUNS}/plots {input.measurements} 2>&1 | tee {log}"


def shown(document):
    """What a document is made of: its text, and the figures and tables that it shows."""
    parts = DOCUMENTS[document]
    figures = [figure for figure in parts["figures"] if figure in DRAWN]
    return {
        "text": f"paper/{document}.tex",
        "preamble": [] if document == "slides" else "paper/preamble.tex",
        "references": "paper/references.bib",
        "numbers": rules.typeset.output.numbers,
        "tables": [f"{RUNS}/generated/tables/{table}.tex" for table in parts["tables"]],
        "figures": [f"{RUNS}/figures/{figure}.pdf" for figure in figures],
        "checksums": [
            *rules.typeset.output.checksums,
            *(f"{RUNS}/figures/{figure}.json" for figure in figures),
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
                f"{RUNS}/{document}.pdf",
                caption=f"../captions/{document}.rst",
                category="Documents",
            ),
        log:
            f"logs/{document}.log",
        benchmark:
            f"logs/benchmarks/{document}.tsv"
        shell:
            "python -m posenc.steps.latex --document {input.text} --output {output}"
            " {input.preamble} {input.references} {input.numbers} {input.tables} {input.figures} 2>&1 | tee {log}"
