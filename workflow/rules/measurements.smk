# activations, tokens and weights -> measurements. One job a model; a run whose measurement is current
# is kept.
def measured(*names):
    """The files of measurements and experiments, in the order of the study."""
    return [f"{RUNS}/{path}" for name in names for path in plan.files(PARAMS, name)]


rule measurements:
    input:
        measured(*STUDY.measured),


def joined_by(name):
    """The files of the measurements that a measurement is made of."""
    return measured(*(one for one in MEASUREMENTS[name].reads if one in MEASUREMENTS))


def read_by(name):
    """What a measurement's job reads, by the names that its declaration gives."""
    declared = MEASUREMENTS[name]
    inputs = {
        "config": section(f"{name}/{{model}}" if declared.of else name),
        "code": section(f"code/posenc.measurements.{name}"),
    }
    if ACTIVATIONS in declared.reads:
        inputs["activations"] = of_model(
            f"{RUNS}/activations/{{{{model}}}}/{{dataset}}/{{condition}}/index.parquet"
        )
    if TOKENS in declared.reads:
        inputs["tokens"] = expand(
            f"{RUNS}/tokens/{{{{model}}}}/{{dataset}}.parquet", dataset=STUDY.datasets
        )
    if WEIGHTS in declared.reads:
        inputs["model"] = [f"data/models/{{model}}/{file}" for file in MODEL_FILES]
    if joined := joined_by(name):
        inputs["measurements"] = joined
    return inputs


def written_by(name):
    """The files that a measurement's job writes: of the study, or of one model."""
    paths = [f"{RUNS}/{path}" for path in plan.files_of(PARAMS, name, models=["{model}"])]
    return update(paths) if MEASUREMENTS[name].keeps_runs else paths


def command_of(name):
    """The command of a measurement's job; `{model}` is left in it for the wildcard."""
    declared = MEASUREMENTS[name]
    config = f"{name}/{{model}}" if declared.of else name
    # A folder with a file a data set, or one file.
    output = f"{config}.json" if len(declared.of) < 2 else config
    options = {
        "--model {model}": {TOKENS, WEIGHTS} & set(declared.reads),
        f"--config {section(config)}": True,
        "--weights data/models/{model}": WEIGHTS in declared.reads,
        f"--tokens {RUNS}/tokens/{{model}}": TOKENS in declared.reads,
        f"--activations {RUNS}/activations/{{model}}": ACTIVATIONS in declared.reads,
        f"--output {RUNS}/measurements/{output}": True,
    }
    given = [option for option, is_given in options.items() if is_given]
    return " ".join([f"python -m posenc.measurements.{name}", *given, *joined_by(name)])


# What reads something else has a rule of its own, below.
for measurement, declared in MEASUREMENTS.items():
    if not set(declared.reads) <= {ACTIVATIONS, TOKENS, WEIGHTS, *MEASUREMENTS}:
        continue
    of_what = f"{measurement}/{{model}}" if declared.of else measurement

    rule:
        name:
            measurement
        input:
            **read_by(measurement),
        output:
            written_by(measurement),
        log:
            f"logs/{of_what}.log",
        benchmark:
            f"logs/benchmarks/{of_what}.tsv"
        params:
            # Not in `shell`, which looks a loop's variable up when the job runs.
            command=command_of(measurement),
        shell:
            "{params.command} 2>&1 | tee {log}"


rule conditions:
    input:
        **read_by("conditions"),
        evaluations=expand(
            f"{RUNS}/evaluations/{{{{model}}}}/{{dataset}}.parquet",
            dataset=EVALUATED_TEXTS,
        ),
        masks=f"{RUNS}/masks/{{model}}/masks.json",
    output:
        written_by("conditions"),
    log:
        "logs/conditions/{model}.log",
    benchmark:
        "logs/benchmarks/conditions/{model}.tsv"
    params:
        runs=RUNS,
    shell:
        "python -m posenc.measurements.conditions --model {wildcards.model} --config {input.config}"
        " --evaluations {params.runs}/evaluations/{wildcards.model}"
        " --masks {params.runs}/masks/{wildcards.model}"
        " --output {params.runs}/measurements/conditions/{wildcards.model} 2>&1 | tee {log}"


def learned_from(wildcards):
    """The tokens that a model of this workflow learned from; others' are not known."""
    return f"data/corpora/{wildcards.model}.parquet" if wildcards.model in STUDY.trained else []


rule reference:
    input:
        **read_by("reference"),
        corpus=learned_from,
        model=["data/models/{model}/config.json", "data/models/{model}/checksums.json"],
    output:
        written_by("reference"),
    log:
        "logs/reference/{model}.log",
    benchmark:
        "logs/benchmarks/reference/{model}.tsv"
    params:
        runs=RUNS,
        corpus=lambda wildcards, input: f"--corpus {input.corpus}" if input.corpus else "",
    shell:
        "python -m posenc.measurements.reference --model {wildcards.model} --config {input.config}"
        " --weights data/models/{wildcards.model} {params.corpus}"
        " --tokens {params.runs}/tokens/{wildcards.model}"
        " --output {params.runs}/measurements/reference/{wildcards.model} 2>&1 | tee {log}"


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


# Decoders that are trained with other schemes keep no activations. Probes, not the small model,
# take the time: they gain nothing by threads.
rule scheme_probes:
    input:
        **read_by("scheme_probes"),
        training=[f"data/training/{{model}}/{file}" for file in ["summary.json", "loss.csv"]],
    output:
        written_by("scheme_probes"),
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
