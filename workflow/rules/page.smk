# measurements and figures -> one static page with all numbers
rule page:
    input:
        measurements=[measured(*STUDY.measured), TRAININGS],
        figures=expand(f"{RUNS}/figures/{{figure}}.svg", figure=DRAWN),
        checksums=expand(f"{RUNS}/figures/{{figure}}.json", figure=DRAWN),
        verifications=VERIFICATIONS,
        study=section("page/study"),
        published="paper/published.yaml",
        versions="docs/mask-versions.json",
        code=code("posenc.steps.page"),
    output:
        page=f"{RUNS}/index.html",
        receipt=update(f"{RUNS}/receipts/page/page.json"),
    log:
        "logs/page.log",
    benchmark:
        TIMES + "/page.tsv"
    shell:
        job(
            "posenc.steps.page --study {input.study:q} --published {input.published:q}"
            " --versions {input.versions:q} --output {output.page:q}"
            " {input.measurements:q} {input.figures:q} {input.verifications:q}"
        )
