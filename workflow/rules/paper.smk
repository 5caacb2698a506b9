# What a model was found to be when it was fetched; one that is trained here is the library's own.
VERIFICATIONS = expand(
    "data/models/{model}/verification.json",
    model=[name for name in STUDY.models if name in plan.pretrained(PARAMS)],
)


# measurements -> numbers and tables; figures, tables and text -> paper, supplement, slides
rule typeset:
    input:
        measurements=[measured(*STUDY.measured), TRAININGS],
        verifications=VERIFICATIONS,
        study=section("numbers/study"),
        published="paper/published.yaml",
        versions="docs/mask-versions.json",
        code=code("posenc.steps.typeset"),
    output:
        receipt=update(f"{RUNS}/receipts/numbers/typeset.json"),
        numbers=f"{RUNS}/generated/numbers.tex",
        checksums=[
            f"{RUNS}/generated/checksums.json",
            f"{RUNS}/generated/tables/checksums.json",
        ],
        tables=expand(f"{RUNS}/generated/tables/{{table}}.tex", table=TABLES),
        metrics=f"{RUNS}/metrics.json",
        every_number=f"{RUNS}/numbers.json",
        # Stands for the files of plots/layers, one per run, which only `dvc plots` reads.
        perplexity=f"{RUNS}/plots/perplexity.csv",
    log:
        "logs/typeset.log",
    benchmark:
        TIMES + "/typeset.tsv"
    shell:
        job(
            "posenc.steps.typeset --study {input.study:q} --published {input.published:q}"
            " --versions {input.versions:q}"
            " --output-numbers {output.numbers:q} --output-tables {RUNS}/generated/tables"
            " --metrics {output.metrics:q} --plots {RUNS}/plots {input.measurements:q}"
            " {input.verifications:q}",
            folders="{RUNS}/plots/layers",
        )


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
        "code": code("posenc.steps.latex"),
    }


for document in DOCUMENTS:

    rule:
        name:
            document
        input:
            **shown(document),
        output:
            receipt=update(f"{RUNS}/receipts/paper/{document}.json"),
            pdf=report(
                f"{RUNS}/pdf/{document}.pdf",
                caption=f"../captions/{document}.rst",
                category="Documents",
            ),
        log:
            f"logs/{document}.log",
        benchmark:
            f"{TIMES}/{document}.tsv"
        shell:
            job(
                "posenc.steps.latex --document {input.text:q} --output {output.pdf:q} --study {RUNS}"
                " {input.preamble:q} {input.references:q} {input.numbers:q} {input.tables:q}"
                " {input.figures:q}"
            )
