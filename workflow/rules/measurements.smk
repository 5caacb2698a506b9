# activations, tokens and weights -> measurements. One job per model; a run whose measurement is current
# is kept.
def measured(*names):
    """The files of measurements and experiments, in the order of the study."""
    return [f"{RUNS}/{path}" for name in names for path in plan.files(PARAMS, name)]


def joined_by(name):
    """The files of the measurements that a measurement is made of."""
    return measured(*(other for other in MEASUREMENTS[name].reads if other in MEASUREMENTS))


def read_by(name):
    """What a measurement's job reads, by the names that its declaration gives."""
    declared = MEASUREMENTS[name]
    inputs = {
        "config": section(
            f"measurements/{name}/{{model}}" if declared.of else f"measurements/{name}"
        ),
        "code": code(f"posenc.measurements.{name}.measure"),
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
    if MASKS in declared.reads:
        inputs["masks"] = f"{RUNS}/masks/{{model}}/masks.json"
    if DATASETS in declared.reads:
        # A measurement that trains learns from the calibration's data set, evaluated or not.
        learned = [STUDY.calibration] if declared.learns and STUDY.calibration else []
        inputs["documents"] = expand(
            "data/documents/{dataset}.parquet",
            dataset=dict.fromkeys([*STUDY.datasets, *learned]),
        )
    if TOKENIZER in declared.reads:
        inputs["tokenizer"] = "data/tokenizers/{model}/tokenizer.json"
        inputs["checksums"] = "data/tokenizers/{model}/checksums.json"
    if joined := joined_by(name):
        inputs["measurements"] = joined
    return inputs


def written_by(name):
    """The files that a measurement's job writes: of the study, or of one model."""
    paths = [f"{RUNS}/{path}" for path in plan.files_of(PARAMS, name, models=["{model}"])]
    of_what = f"{name}/{{model}}" if MEASUREMENTS[name].of else name
    return {
        "measurements": update(paths) if MEASUREMENTS[name].keeps_runs else paths,
        "receipt": update(f"{RUNS}/receipts/measurements/{of_what}.json"),
    }


def options_of(wildcards, input, output):
    """What the command line of a measurement names, after what its rule reads and writes."""
    model = wildcards.get("model")
    # The file of the study or of a model, or a model's folder.
    first = output.measurements if isinstance(output.measurements, str) else output.measurements[0]
    written = Path(first).relative_to(f"{RUNS}/measurements").parts[:2]
    options = {
        f"--model {model}": {"tokens", "model"} & set(input.keys()),
        f"--config {shlex.quote(input.config)}": True,
        f"--weights data/models/{model}": "model" in input.keys(),
        f"--tokens {RUNS}/tokens/{model}": "tokens" in input.keys(),
        f"--activations {RUNS}/activations/{model}": "activations" in input.keys(),
        f"--masks {RUNS}/masks/{model}": "masks" in input.keys(),
        "--documents data/documents": "documents" in input.keys(),
        f"--tokenizer {shlex.quote(str(input.get('tokenizer')))}": "tokenizer" in input.keys(),
        f"--output {RUNS}/measurements/{'/'.join(written)}": True,
    }
    given = [option for option, is_given in options.items() if is_given]
    return " ".join([*given, *map(shlex.quote, input.get("measurements", []))])


# Measurements that read something else have rules of their own, below.
for measurement, declared in MEASUREMENTS.items():
    if not GIVEN.issuperset(declared.reads):
        continue
    of_what = f"{measurement}/{{model}}" if declared.of else measurement

    rule:
        name:
            measurement
        input:
            **read_by(measurement),
        output:
            **written_by(measurement),
        log:
            f"logs/{of_what}.log",
        benchmark:
            f"{TIMES}/{of_what}.tsv"
        # What runs a decoder under all conditions.
        priority: LONG_JOBS if MASKS in declared.reads else 0
        # On a cluster: a model and one batch, or activations shard by shard.
        resources:
            mem_mb=8000,
            runtime=240,
            # What trains.
            gpu=GPU * declared.learns,
        params:
            options=options_of,
        shell:
            job("posenc.measurements.{rule}.measure {params.options}")


rule conditions:
    input:
        **read_by("conditions"),
        evaluations=expand(
            f"{RUNS}/evaluations/{{{{model}}}}/{{dataset}}.parquet",
            dataset=EVALUATED_TEXTS,
        ),
    output:
        **written_by("conditions"),
    log:
        "logs/conditions/{model}.log",
    benchmark:
        TIMES + "/conditions/{model}.tsv"
    shell:
        job(
            "posenc.measurements.conditions.measure --model {wildcards.model} --config {input.config:q}"
            " --evaluations {RUNS}/evaluations/{wildcards.model}"
            " --masks {RUNS}/masks/{wildcards.model} --documents data/documents"
            " --output {RUNS}/measurements/conditions/{wildcards.model}"
        )


def learned_from(wildcards):
    """The tokens that a model of this workflow learned from; others' are not known."""
    return f"data/corpora/{wildcards.model}.parquet" if wildcards.model in STUDY.trained else []


rule reference:
    input:
        **read_by("reference"),
        corpus=learned_from,
        model=["data/models/{model}/config.json", "data/models/{model}/checksums.json"],
    output:
        **written_by("reference"),
    log:
        "logs/reference/{model}.log",
    benchmark:
        TIMES + "/reference/{model}.tsv"
    params:
        corpus=lambda wildcards, input: (
            f"--corpus {shlex.quote(str(input.corpus))}" if input.corpus else ""
        ),
    shell:
        job(
            "posenc.measurements.reference.measure --model {wildcards.model} --config {input.config:q}"
            " --weights data/models/{wildcards.model} {params.corpus}"
            " --tokens {RUNS}/tokens/{wildcards.model}"
            " --output {RUNS}/measurements/reference/{wildcards.model}"
        )


def position_table(wildcards):
    """The weights that hold a model's table. Of a file, params.yaml has the checksum."""
    if wildcards.subject in PARAMS.models:
        return [f"data/models/{wildcards.subject}/{file}" for file in MODEL_FILES]
    return []


# Of models, and of tables that are of none.
for measurement, declared in MEASUREMENTS.items():
    if MATRICES not in declared.reads:
        continue

    rule:
        name:
            measurement
        input:
            table=position_table,
            config=section(f"measurements/{measurement}/{{subject}}"),
            code=code(f"posenc.measurements.{measurement}.measure"),
        output:
            measurements=f"{RUNS}/measurements/{measurement}/{{subject}}.json",
            receipt=update(f"{RUNS}/receipts/measurements/{measurement}/{{subject}}.json"),
        log:
            f"logs/{measurement}/{{subject}}.log",
        benchmark:
            f"{TIMES}/{measurement}/{{subject}}.tsv"
        wildcard_constraints:
            subject=f"{MODELS}|{plan.alternatives(PARAMS.matrices)}",
        params:
            weights=lambda wildcards, input: (
                f"--weights {shlex.quote(str(Path(input.table[0]).parent))}" if input.table else ""
            ),
        shell:
            job(
                "posenc.measurements.{rule}.measure --subject {wildcards.subject}"
                " --config {input.config:q} {params.weights} --output {output.measurements:q}"
            )


# Decoders that are trained with other schemes keep no activations. Probes, not the small model,
# take the time: they gain nothing by threads.
rule scheme_probes:
    input:
        **read_by("scheme_probes"),
        training=[f"data/training/{{model}}/{file}" for file in ["summary.json", "loss.csv"]],
    output:
        **written_by("scheme_probes"),
    log:
        "logs/scheme_probes/{model}.log",
    benchmark:
        TIMES + "/scheme_probes/{model}.tsv"
    resources:
        gpu=GPU,
    shell:
        job(
            "posenc.measurements.scheme_probes.measure --model {wildcards.model} --config {input.config:q}"
            " --weights data/models/{wildcards.model} --tokens {RUNS}/tokens/{wildcards.model}"
            " --training {input.training[0]:q}"
            " --output {RUNS}/measurements/scheme_probes/{wildcards.model} --threads {threads}"
        )
