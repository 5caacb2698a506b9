# measurements -> figures
def measured(name):
    """The files of a measurement, in the order of the study."""
    begin = f"{RUNS}/measurements/{name}"
    every = [*POSITION_MEASUREMENTS, *BUNDLED_MEASUREMENTS, *EXPERIMENT_MEASUREMENTS]
    return [path for path in every if path.startswith((f"{begin}/", f"{begin}.json"))]


FIGURES = {
    "layer_similarity": runs(
        f"{RUNS}/measurements/similarity/{{model}}/{{dataset}}/{{condition}}.json"
    ),
    "cosine_histogram": runs(
        f"{RUNS}/measurements/similarity/{{model}}/{{dataset}}/{{condition}}.json"
    ),
    "perplexity": runs(f"{RUNS}/measurements/perplexity/{{model}}/{{dataset}}/{{condition}}.json"),
    "training_loss": expand(
        f"{RUNS}/training/{{model}}/{{file}}",
        model=STUDY.trained,
        file=["loss.csv", "summary.json"],
    ),
    "position_layers": CONDITION_MEASUREMENTS,
    "condition_costs": CONDITION_MEASUREMENTS,
    "recovered_share": CONDITION_MEASUREMENTS,
    "slope_sweep": CONDITION_MEASUREMENTS
    + expand(
        f"{RUNS}/measurements/reference/{{model}}/{{dataset}}.json",
        model=STUDY.models,
        dataset=STUDY.datasets,
    ),
    "length_sweep": CONDITION_MEASUREMENTS,
    "extrapolation": CONDITION_MEASUREMENTS,
    "mask_semantics": [],  # of definitions alone
    "position_maps": measured("position_embeddings"),
    "position_regression": measured("position_embeddings"),
    "readback": measured("readback"),
    "position_probes": measured("probes") + measured("scheme_probes"),
    "random_causal": measured("random_causal"),
    "spectra": measured("spectra"),
    "band_pass": measured("spectra"),
    "components": measured("components"),
    "layer_norm": measured("layer_norm"),
    "relative_attention": measured("relative_attention"),
    "head_offsets": measured("heads"),
    "lags": measured("lags"),
    "downstream": measured("downstream"),
    "superposition": measured("superposition") + measured("embedding_sums"),
    "tokenizers": measured("tokenizers"),
    "scaling": measured("scaling"),
    "pretraining": measured("pretraining"),
    "hard_attention": measured("hard_attention"),
    "memory_networks": measured("memory_networks"),
}
CATEGORIES = {
    "layer_similarity": "A1 zeroed positions",
    "cosine_histogram": "A2 is this cosine high?",
    "perplexity": "D1 perplexity",
    "training_loss": "Training",
    "position_layers": "A1 zeroed positions",
    "condition_costs": "A4 masks",
    "recovered_share": "A5 masks in place of positions",
    "slope_sweep": "A4 masks",
    "length_sweep": "A4 masks",
    "extrapolation": "A5 masks in place of positions",
    "mask_semantics": "A4 masks",
    "position_maps": "B1 what position embeddings are",
    "position_regression": "B3 what position embeddings learn",
    "readback": "B2 reading back",
    "position_probes": "B4 probes",
    "random_causal": "B4 probes",
    "spectra": "C1 columns as signals",
    "band_pass": "C2 band-pass",
    "components": "C4 components",
    "layer_norm": "C5 where position goes",
    "relative_attention": "C3 relative attention by weights",
    "head_offsets": "C6 heads",
    "lags": "C3 and C6: lags",
    "downstream": "A6 downstream",
    "superposition": "B5 superposition",
    "tokenizers": "D3 tokenizers",
    "scaling": "D4 scaling of scores",
    "pretraining": "D5 pre-training",
    "hard_attention": "E1 and E2: soft and hard attention",
    "memory_networks": "E3 memory networks",
}


rule figures:
    input:
        expand("data/figures/{figure}.{form}", figure=FIGURES, form=["pdf", "png", "json"]),


rule figure:
    input:
        measurements=lambda wildcards: FIGURES[wildcards.figure],
        runs=section("runs"),
        config=section("figures/{figure}"),
        style=section("figures/style"),
        code=section("code/posenc.figures.{figure}"),
    output:
        pdf="data/figures/{figure}.pdf",
        checksums="data/figures/{figure}.json",
        png=report(
            "data/figures/{figure}.png",
            caption="../captions/figure.rst",
            category=lambda wildcards: CATEGORIES[wildcards.figure],
            labels={"figure": "{figure}", "study": STUDY.name},
        ),
    log:
        "logs/figure/{figure}.log",
    benchmark:
        "logs/benchmarks/figure/{figure}.tsv"
    wildcard_constraints:
        figure=plan.alternatives(FIGURES),
    shell:
        "python -m posenc.figures.{wildcards.figure} --config {input.config}"
        " --style {input.style} --output {output.pdf} --output {output.png} {input.measurements}"
        " 2>&1 | tee {log}"
