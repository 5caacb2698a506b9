# measurements and figures -> one static page with all numbers
PAGE = ["page.html.jinja", "page.css", "page.js", "heads.js", "values.js", "page.ja.json"]


rule page:
    input:
        measurements=[rules.measurements.input, TRAININGS],
        figures=expand(f"{RUNS}/figures/{{figure}}.svg", figure=DRAWN),
        checksums=expand(f"{RUNS}/figures/{{figure}}.json", figure=DRAWN),
        templates=[f"workflow/posenc/report/templates/{name}" for name in PAGE],
        study=section("study"),
        published="paper/published.yaml",
        versions="docs/mask-versions.json",
        code=section("code/posenc.steps.page"),
    output:
        f"{RUNS}/index.html",
    log:
        "logs/page.log",
    benchmark:
        "logs/benchmarks/page.tsv"
    shell:
        "python -m posenc.steps.page --study {input.study} --published {input.published}"
        " --versions {input.versions} --output {output}"
        " {input.measurements} {input.figures} 2>&1 | tee {log}"
