# what is trained to answer a question: trials, one job per seed -> measurements over all seeds
STUDY_EXPERIMENTS = [kind for kind in STUDY.experiments.kinds if kind not in plan.OF_MODELS]
EXPERIMENT_MEASUREMENTS = [
    f"{RUNS}/{path}" for kind in STUDY.experiments.kinds for path in plan.files(PARAMS, kind)
]
# What fine-tunes a pretrained model; the networks of the others are too small to gain by more than a
# thread, and their seeds run beside each other.
ON_GPU = [kind for kind, experiment in EXPERIMENTS.items() if experiment.on_gpu]
SMALL = [kind for kind in STUDY.experiments.kinds if kind not in ON_GPU]


wildcard_constraints:
    experiment=plan.alternatives(STUDY.experiments.kinds),
    seed=r"\d+",


def trials_documents(wildcards):
    """The documents that an experiment reads, of one data set or several."""
    documents = {
        LABELLED: [f"data/documents/{STUDY.labelled}.parquet"],
        CORPORA: [f"data/texts/{dataset}.parquet" for dataset in STUDY.corpora],
    }
    return [path for what in EXPERIMENTS[wildcards.experiment].reads for path in documents[what]]


def trials_model(wildcards):
    """The pretrained model that an experiment fine-tunes, and its tokenizer."""
    if wildcards.experiment not in plan.OF_MODELS:
        return []
    name = wildcards.subject
    return [
        *(f"data/models/{name}/{file}" for file in MODEL_FILES),
        *(f"data/tokenizers/{name}/{file}" for file in TOKENIZER_FILES),
    ]


def trials_options(wildcards, input):
    """What the command line names beside configuration and output."""
    options = [f"--documents {shlex.quote(path)}" for path in input.documents]
    if input.model:
        name = wildcards.subject
        options += [
            f"--model {name} --weights data/models/{name}",
            f"--tokenizer data/tokenizers/{name}/tokenizer.json",
        ]
    return " ".join(options)


def trials_of(kind, subject):
    """The trials of all seeds of an experiment."""
    paths = plan.trials(PARAMS, kind)
    return [f"{RUNS}/{path}.json" for path in paths if path.split("/")[2] == subject]


# A trial that is current is kept; one that was killed goes on from its checkpoint.
rule trials:
    input:
        model=trials_model,
        documents=trials_documents,
        config=section("trials/{experiment}/{subject}"),
        code=code("posenc.experiments.{experiment}.trials"),
    output:
        trial=update(f"{RUNS}/trials/{{experiment}}/{{subject}}/{{seed}}.json"),
        receipt=update(f"{RUNS}/receipts/trials/{{experiment}}/{{subject}}/{{seed}}.json"),
    log:
        "logs/trials/{experiment}/{subject}/{seed}.log",
    benchmark:
        TIMES + "/trials/{experiment}/{subject}/{seed}.tsv"
    wildcard_constraints:
        experiment=plan.alternatives(SMALL),
        subject=plan.alternatives(["study", *STUDY.finetuned]),
    priority: LONG_JOBS
    params:
        options=trials_options,
    shell:
        job(
            "posenc.experiments.{wildcards.experiment}.trials --seed {wildcards.seed}"
            " --config {input.config:q} {params.options} --output {output.trial:q}"
            " --partial"
            " {RUNS}/partial/{wildcards.experiment}/{wildcards.subject}/{wildcards.seed}"
            " --threads {threads}"
        )


use rule trials as gpu_trials with:
    wildcard_constraints:
        experiment=plan.alternatives(ON_GPU),
        subject=plan.alternatives(["study", *STUDY.finetuned]),
    threads: THREADS
    resources:
        gpu=GPU,


rule experiment:
    input:
        trials=lambda wildcards: trials_of(wildcards.experiment, "study"),
        config=section("measurements/{experiment}"),
        code=code("posenc.experiments.{experiment}.summary"),
    output:
        measurement=f"{RUNS}/measurements/{{experiment}}.json",
        receipt=update(f"{RUNS}/receipts/measurements/{{experiment}}.json"),
    log:
        "logs/experiment/{experiment}.log",
    benchmark:
        TIMES + "/experiment/{experiment}.tsv"
    wildcard_constraints:
        experiment=plan.alternatives(STUDY_EXPERIMENTS),
    shell:
        job(
            "posenc.experiments.{wildcards.experiment}.summary --config {input.config:q}"
            " --output {output.measurement:q} {input.trials:q}"
        )


rule experiment_of_model:
    input:
        trials=lambda wildcards: trials_of(wildcards.experiment, wildcards.model),
        config=section("measurements/{experiment}"),
        code=code("posenc.experiments.{experiment}.summary"),
    output:
        measurement=f"{RUNS}/measurements/{{experiment}}/{{model}}.json",
        receipt=update(f"{RUNS}/receipts/measurements/{{experiment}}/{{model}}.json"),
    log:
        "logs/experiment/{experiment}/{model}.log",
    benchmark:
        TIMES + "/experiment/{experiment}/{model}.tsv"
    wildcard_constraints:
        experiment=plan.alternatives(plan.OF_MODELS),
        model=plan.alternatives(STUDY.finetuned),
    shell:
        job(
            "posenc.experiments.{wildcards.experiment}.summary --config {input.config:q}"
            " --output {output.measurement:q} {input.trials:q}"
        )
