# weights and activations -> what position embeddings are (B), and relative attention (C)
BUNDLED_MEASUREMENTS = expand(
    f"{RUNS}/measurements/{{measurement}}/{{model}}/{{dataset}}.json",
    measurement=plan.chosen(PARAMS, plan.BUNDLED),
    model=STUDY.models,
    dataset=STUDY.datasets,
)
POSITION_MEASUREMENTS = [
    *expand(
        f"{RUNS}/measurements/{{measurement}}/{{model}}.json",
        measurement=plan.chosen(PARAMS, plan.WEIGHTS),
        model=STUDY.models,
    ),
    *expand(f"{RUNS}/measurements/position_embeddings/{{matrix}}.json", matrix=STUDY.matrices),
    *expand(
        f"{RUNS}/measurements/{{measurement}}/{{model}}/{{dataset}}.json",
        measurement=plan.chosen(PARAMS, ["layer_norm"]),
        model=STUDY.models,
        dataset=STUDY.datasets,
    ),
    *expand(
        f"{RUNS}/measurements/scheme_probes/{{model}}/{{dataset}}.json",
        model=STUDY.schemes,
        dataset=STUDY.datasets,
    ),
    *expand(
        f"{RUNS}/measurements/{{measurement}}.json",
        measurement=plan.chosen(PARAMS, plan.STUDY_WIDE),
    ),
]


def position_table(wildcards):
    """The weights that hold a model's table. Of a file, params.yaml has the checksum."""
    if wildcards.subject in PARAMS.models:
        return [f"data/models/{wildcards.subject}/{file}" for file in MODEL_FILES]
    return []


rule position_embeddings:
    input:
        table=position_table,
        config=section("position_embeddings/{subject}"),
        code=section("code/posenc.measurements.position_embeddings"),
    output:
        f"{RUNS}/measurements/position_embeddings/{{subject}}.json",
    log:
        "logs/position_embeddings/{subject}.log",
    benchmark:
        "logs/benchmarks/position_embeddings/{subject}.tsv"
    wildcard_constraints:
        subject=plan.alternatives([*PARAMS.models, *PARAMS.matrices]),
    params:
        weights=lambda wildcards: (
            f"--weights data/models/{wildcards.subject}"
            if wildcards.subject in PARAMS.models
            else ""
        ),
    shell:
        "python -m posenc.measurements.position_embeddings --subject {wildcards.subject}"
        " --config {input.config} {params.weights} --output {output} 2>&1 | tee {log}"


rule readback:
    input:
        model=[f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        config=section("readback/{model}"),
        code=section("code/posenc.measurements.readback"),
    output:
        f"{RUNS}/measurements/readback/{{model}}.json",
    log:
        "logs/readback/{model}.log",
    benchmark:
        "logs/benchmarks/readback/{model}.tsv"
    shell:
        "python -m posenc.measurements.readback --model {wildcards.model} --config {input.config}"
        " --weights data/models/{wildcards.model} --output {output} 2>&1 | tee {log}"


rule embedding_sums:
    input:
        model=[f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        config=section("embedding_sums/{model}"),
        code=section("code/posenc.measurements.embedding_sums"),
    output:
        f"{RUNS}/measurements/embedding_sums/{{model}}.json",
    log:
        "logs/embedding_sums/{model}.log",
    benchmark:
        "logs/benchmarks/embedding_sums/{model}.tsv"
    shell:
        "python -m posenc.measurements.embedding_sums --model {wildcards.model} --config {input.config}"
        " --weights data/models/{wildcards.model} --output {output} 2>&1 | tee {log}"


rule relative_attention:
    input:
        model=[f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        config=section("relative_attention/{model}"),
        code=section("code/posenc.measurements.relative_attention"),
    output:
        f"{RUNS}/measurements/relative_attention/{{model}}.json",
    log:
        "logs/relative_attention/{model}.log",
    benchmark:
        "logs/benchmarks/relative_attention/{model}.tsv"
    shell:
        "python -m posenc.measurements.relative_attention --model {wildcards.model}"
        " --config {input.config} --weights data/models/{wildcards.model} --output {output}"
        " 2>&1 | tee {log}"


# A file holds the measurements of all conditions; those that are current are kept.
rule probes:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        config=section("probes/{model}"),
        code=section("code/posenc.measurements.probes"),
    output:
        update(
            expand(
                f"{RUNS}/measurements/probes/{{{{model}}}}/{{dataset}}.json",
                dataset=STUDY.datasets,
            )
        ),
    log:
        "logs/probes/{model}.log",
    benchmark:
        "logs/benchmarks/probes/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.probes --config {input.config}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/probes/{wildcards.model} 2>&1 | tee {log}"


rule spectra:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        config=section("spectra/{model}"),
        code=section("code/posenc.measurements.spectra"),
    output:
        update(
            expand(
                f"{RUNS}/measurements/spectra/{{{{model}}}}/{{dataset}}.json",
                dataset=STUDY.datasets,
            )
        ),
    log:
        "logs/spectra/{model}.log",
    benchmark:
        "logs/benchmarks/spectra/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.spectra --config {input.config}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/spectra/{wildcards.model} 2>&1 | tee {log}"


rule components:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        config=section("components/{model}"),
        code=section("code/posenc.measurements.components"),
    output:
        update(
            expand(
                f"{RUNS}/measurements/components/{{{{model}}}}/{{dataset}}.json",
                dataset=STUDY.datasets,
            )
        ),
    log:
        "logs/components/{model}.log",
    benchmark:
        "logs/benchmarks/components/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.components --config {input.config}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/components/{wildcards.model} 2>&1 | tee {log}"


rule heads:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        config=section("heads/{model}"),
        code=section("code/posenc.measurements.heads"),
    output:
        update(
            expand(
                f"{RUNS}/measurements/heads/{{{{model}}}}/{{dataset}}.json",
                dataset=STUDY.datasets,
            )
        ),
    log:
        "logs/heads/{model}.log",
    benchmark:
        "logs/benchmarks/heads/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.heads --config {input.config}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/heads/{wildcards.model} 2>&1 | tee {log}"


rule hard_attention:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        config=section("hard_attention/{model}"),
        code=section("code/posenc.measurements.hard_attention"),
    output:
        update(
            expand(
                f"{RUNS}/measurements/hard_attention/{{{{model}}}}/{{dataset}}.json",
                dataset=STUDY.datasets,
            )
        ),
    log:
        "logs/hard_attention/{model}.log",
    benchmark:
        "logs/benchmarks/hard_attention/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.hard_attention --config {input.config}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/hard_attention/{wildcards.model} 2>&1 | tee {log}"


# It reads the intact runs; DVC's stage depends on the folder of all.
rule layer_norm:
    input:
        activations=of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        ),
        tokens=expand(f"{RUNS}/tokens/{{{{model}}}}/{{dataset}}.parquet", dataset=STUDY.datasets),
        model=[f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        config=section("layer_norm/{model}"),
        code=section("code/posenc.measurements.layer_norm"),
    output:
        expand(
            f"{RUNS}/measurements/layer_norm/{{{{model}}}}/{{dataset}}.json",
            dataset=STUDY.datasets,
        ),
    log:
        "logs/layer_norm/{model}.log",
    benchmark:
        "logs/benchmarks/layer_norm/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.layer_norm --model {wildcards.model} --config {input.config}"
        " --weights data/models/{wildcards.model} --tokens {params.runs}/tokens/{wildcards.model}"
        " --activations {params.runs}/activations/{wildcards.model}"
        " --output {params.runs}/measurements/layer_norm/{wildcards.model} 2>&1 | tee {log}"


# Decoders that are trained with other schemes keep no activations. Probes, not the small model,
# take the time: they gain nothing by threads.
rule scheme_probes:
    input:
        tokens=expand(f"{RUNS}/tokens/{{{{model}}}}/{{dataset}}.parquet", dataset=STUDY.datasets),
        model=[f"data/models/{{model}}/{file}" for file in MODEL_FILES],
        training=[f"data/training/{{model}}/{file}" for file in ["summary.json", "loss.csv"]],
        config=section("scheme_probes/{model}"),
        code=section("code/posenc.measurements.scheme_probes"),
    output:
        expand(
            f"{RUNS}/measurements/scheme_probes/{{{{model}}}}/{{dataset}}.json",
            dataset=STUDY.datasets,
        ),
    log:
        "logs/scheme_probes/{model}.log",
    benchmark:
        "logs/benchmarks/scheme_probes/{model}.tsv"
    resources:
        gpu=GPU,
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.scheme_probes --model {wildcards.model} --config {input.config}"
        " --weights data/models/{wildcards.model} --tokens {params.runs}/tokens/{wildcards.model}"
        " --training {input.training[0]}"
        " --output {params.runs}/measurements/scheme_probes/{wildcards.model}"
        " --threads {threads} 2>&1 | tee {log}"


rule random_causal:
    input:
        config=section("random_causal"),
        code=section("code/posenc.measurements.random_causal"),
    output:
        f"{RUNS}/measurements/random_causal.json",
    log:
        "logs/random_causal.log",
    benchmark:
        "logs/benchmarks/random_causal.tsv"
    shell:
        "python -m posenc.measurements.random_causal --config {input.config} --output {output}"
        " 2>&1 | tee {log}"


rule scaling:
    input:
        config=section("scaling"),
        code=section("code/posenc.measurements.scaling"),
    output:
        f"{RUNS}/measurements/scaling.json",
    log:
        "logs/scaling.log",
    benchmark:
        "logs/benchmarks/scaling.tsv"
    shell:
        "python -m posenc.measurements.scaling --config {input.config} --output {output} 2>&1 | tee {log}"


# Offsets that the weights predict (C3) against those where the attention is (C6).
rule lags:
    input:
        predicted=expand(
            f"{RUNS}/measurements/relative_attention/{{model}}.json", model=STUDY.models
        ),
        found=expand(
            f"{RUNS}/measurements/heads/{{model}}/{{dataset}}.json",
            model=STUDY.models,
            dataset=STUDY.datasets,
        ),
        config=section("lags"),
        code=section("code/posenc.measurements.lags"),
    output:
        f"{RUNS}/measurements/lags.json",
    log:
        "logs/lags.log",
    benchmark:
        "logs/benchmarks/lags.tsv"
    shell:
        "python -m posenc.measurements.lags --config {input.config} --output {output}"
        " {input.predicted} {input.found} 2>&1 | tee {log}"
