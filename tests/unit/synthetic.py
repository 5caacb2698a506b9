"""Made-up measurements in the files' real format, for tests of figures and documents."""

from __future__ import annotations

import atexit
import csv
import functools
import shutil
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from posenc.artifacts.files import sha256_file, write_json, write_sealed
from posenc.conditions.section import Condition
from posenc.figures.catalogue import FIGURES
from posenc.measurements.conditions.result import PairedLosses
from posenc.measurements.declaration import MASKS, MODEL
from posenc.study.declared import EXPERIMENTS, MEASUREMENTS
from posenc.study.facts import facts as facts_of
from posenc.study.params import Params, load

from . import synthetic_experiments as experiments
from . import synthetic_positions as positions

BINS = 200
EXACT = {"mode": "exact"}
"""Precision of what is computed in float32."""
PROJECT = Path(__file__).parents[2]
BUNDLED = [name for name, declared in MEASUREMENTS.items() if declared.bundled]
OF_WEIGHTS = [name for name, declared in MEASUREMENTS.items() if declared.of == MODEL]
"""Measurements with one file for a model and a data set, and with one for a model."""
OF_MODELS = [name for name, declared in MEASUREMENTS.items() if declared.subjects == "models"]
"""Measurements of every model of a study, whether its activations are kept or not."""
OF_EXAMINED = [n for n, declared in MEASUREMENTS.items() if declared.subjects == "examined"]
"""Measurements of the models that are looked into layer by layer."""
EVALUATING = [
    name
    for name, declared in MEASUREMENTS.items()
    if MASKS in declared.reads and "conditions" not in declared.parameters.model_fields
]
"""Measurements under all conditions that a model is evaluated under."""
KINDS = (*MEASUREMENTS, *EXPERIMENTS)
"""Folders of a study's measurements."""
OF_OTHER_STUDIES = {"retraining", "refits"}
"""Measurements, and figures of the same name, for which the default study has no model."""
FIGURE_INPUTS = {name: entry.measurements for name, entry in FIGURES.items()}
"""What each figure is made of."""
EVALUATED = "evaluated"
"""The default study, whose first model is a further decoder that is not captured."""


@functools.cache
def params_of(study: str = "default") -> Params:
    """The project's parameters with a study made active, read once."""
    return load(PROJECT / "params.yaml", {"study": study})


def estimate(value: float, half: float) -> dict:
    """An estimate with a symmetric interval."""
    return {"value": value, "low": value - half, "high": value + half}


def study_file(name: str = "default") -> dict:
    """What data/config/study.json holds for a study of the project's params.yaml."""
    params = params_of()
    study = params.studies["default" if name == EVALUATED else name]
    if name == EVALUATED:
        more = {group: ["gpt2", *getattr(study, group)] for group in ("models", "pretrained")}
        study = study.model_copy(update=more)
    return facts_of(params.model_copy(update={"study": study}))


def common(measurement: str, model: str, dataset: str, condition: str) -> dict:
    """The part that all measurements share."""
    return {
        "schema": 1,
        "measurement": measurement,
        "catalogue": ["A1"],
        "run": {"model": model, "dataset": dataset, "condition": condition},
        "status": "measured",
        "reason": None,
        "documents": 120,
        "tokens": 23456,
        "confidence": 0.95,
        "provenance": {},
    }


def similarity(model: str, dataset: str, condition: str, d_model: int, blocks: int) -> dict:
    """A similarity measurement whose cosine falls with depth, then rises."""
    generator = np.random.default_rng(len(model + dataset + condition))
    layers = []
    names = ["embedding", *(f"block {index}" for index in range(1, blocks)), "last"]
    for index, name in enumerate(names):
        cosine = 1.0 if condition == "intact" else 0.93 - 0.35 * np.sin(2.6 * index / blocks)
        baseline = 0.05 + 0.35 * index / blocks
        inside = 0.1 + 0.4 * index / blocks
        same_token = 0.8 - 0.3 * index / blocks
        layers.append(
            {
                "layer": index,
                "name": name,
                "cosine": estimate(cosine, 0.0123),
                "token_sd": 0.11,
                "baseline": estimate(baseline, 0.006),
                "rescaled": estimate((cosine - baseline) / (1 - baseline), 0.02),
                "same_document": estimate(inside, 0.007),
                "rescaled_same_document": estimate((cosine - inside) / (1 - inside), 0.03),
                "same_token": estimate(same_token, 0.008),
                "rescaled_same_token": estimate((cosine - same_token) / (1 - same_token), 0.05),
                "centred": estimate(cosine - 0.05, 0.013),
                "standardised": estimate(cosine - 0.07, 0.014),
                "retrieval": estimate(0.6 * cosine, 0.02),
                "cka": 0.9 * cosine,
            }
        )
    edges = np.linspace(-1, 1, BINS + 1)
    histograms: dict = {"edges": edges.tolist()}
    for layer in (layers[0], layers[-1]):
        drawn = {}
        spreads = {"cosine": 0.08, "baseline": 0.12, "same_document": 0.11, "same_token": 0.1}
        for kind, spread in spreads.items():
            centre = layer[kind]["value"] - 0.02
            sample = np.clip(generator.normal(centre, spread, 20000), -1, 1)
            drawn[kind] = np.histogram(sample, edges, density=True)[0].tolist()
        histograms[layer["name"]] = drawn
    return {
        **common("similarity", model, dataset, condition),
        "d_model": d_model,
        "sample_tokens": 4096,
        "same_token_share": 0.93,
        "layers": layers,
        "gaussian_null": {"mean": 0.0, "sd": d_model**-0.5},
        "histograms": histograms,
    }


def perplexity(model: str, dataset: str, condition: str, is_decoder: bool) -> dict:
    """A perplexity measurement, or one that was not run for an encoder."""
    shared = common("perplexity", model, dataset, condition)
    if not is_decoder:
        reason = f"{model} has no language-model head"
        return {**shared, "status": "not run", "reason": reason, "documents": 0, "tokens": 0}
    intact = 39.71234 if "reviews" in dataset else 152.4
    value = intact if condition == "intact" else 7.31 * intact
    change = float(np.log(value / intact))
    return {
        **shared,
        "vocabulary_size": 1024,
        "bos": True,
        "bytes": 98765,
        "perplexity": estimate(value, 0.04 * value),
        "sequence_perplexity": {"mean": 1.2 * value, "median": 0.97 * value},
        "bits_per_byte": estimate(float(np.log2(value)) / 4.2, 0.01),
        "nll_per_token": estimate(float(np.log(value)), 0.04),
        "worse_than_uniform": estimate(0.031 if condition == "intact" else 0.27, 0.004),
        "delta_nll": estimate(change, 0.0 if condition == "intact" else 0.03),
        "perplexity_ratio": estimate(float(np.exp(change)), 0.02),
    }


def share_of(name: str) -> float:
    """What a condition recovers of the loss without positions: any number, the same each time."""
    known = {"intact": 1.0, "zero": 0.0, "zero_hf_bool": 0.0}
    drawn = (zlib.crc32(name.encode()) % 1000) / 1000
    return known.get(name, 1.02 - 2.2 * drawn**3)


def losses(name: str, dataset: str, seed: int = 0) -> dict:
    """What a decoder's evaluation of a condition holds beside its layers.

    Nothing is lost without positions on the sample's questions, so there is no share of it.
    """
    intact, lost = (3.7, 0.8) if "reviews" in dataset else (5.0, 0.5)
    share = share_of(name) - 0.01 * seed
    nll, half = intact + lost * (1 - share), 0.0 if name == "intact" else 0.02
    has_shares = dataset != "sample_questions"
    return {
        "nll_per_token": estimate(nll, 0.03),
        "perplexity": estimate(float(np.exp(nll)), 0.03 * float(np.exp(nll))),
        "delta_nll": estimate(nll - intact, half),
        "delta_nll_without": estimate(nll - intact - lost, 0.0 if name == "zero" else 0.02),
        "recovered": estimate(share, half / lost) if has_shares else None,
        "recovered_perplexity": estimate(share, half / lost) if has_shares else None,
        "bits_per_byte": estimate(nll / 3, 0.01),
        "worse_than_uniform": estimate(0.05, 0.002),
    }


def evaluated(study: dict, model: str) -> dict[str, dict]:
    """By name, the conditions that a model of a study is evaluated under."""
    kind = [study["models"][model][key] for key in ("is_decoder", "positions")]
    own = study["study"]["evaluations"].get(model, study["study"])
    return {
        name: spec
        for name, spec in study["conditions"].items()
        if name in (*study["study"]["conditions"], *own["evaluated"])
        and Condition.model_validate(spec).is_for(*kind)
    }


def conditions(study: dict, sweeps: dict, model: str, dataset: str, seed: int = 0) -> dict:
    """A measurement of all conditions of a study, and of its sweeps for a decoder."""
    is_decoder, at = (study["models"][model][key] for key in ("is_decoder", "positions"))
    shared = common("conditions", model, dataset, "intact")
    shared["run"] = {"model": model, "dataset": dataset}
    own = study["study"]["evaluations"].get(model, study["study"])
    sweeps = {name: sweep for name, sweep in sweeps.items() if name in own["sweeps"]}
    entries, masks, place = [], set(), list(study["conditions"])
    for name, spec in evaluated(study, model).items():
        masks.update(Condition.model_validate(spec).masks())
        value = 1.0 if name == "intact" else 0.93 - 0.013 * place.index(name)
        layers = [{**estimate(value - 0.04 * k, 0.004), "layer": k} for k in range(5)]
        entry = {"condition": name, "spec": spec, "precision": EXACT, "layers": layers}
        own = {**losses(name, dataset, seed), "adaptation": None} if is_decoder else {}
        entries.append(entry | own)
    return {
        **shared, "is_decoder": is_decoder, "positions": at, "vocabulary_size": 1024,
        "coverage": {"documents": 40, "cut": 12, "read": 6000, "whole": 8000},
        "conditions": entries,
        "sweeps": {name: swept(sweep, dataset, seed) for name, sweep in sweeps.items()}
        if is_decoder else {},
        "categories": categories(evaluated(study, model))
        if is_decoder and dataset.endswith("questions") else None,
        "masks": [learned(name, mask) for name, mask in study["masks"].items() if name in masks],
        **({"scored_tokens": shared["tokens"] - shared["documents"], "bos": True}
           if is_decoder else {}),
    }  # fmt: skip


def categories(conditions: Iterable[str]) -> dict:
    """Costs by category, of which one differs; another is small."""
    gains = {"interaction": 0.36, "placebo_interaction": 0.09, "beyond_placebo": 0.27}
    adapted = {name: estimate(gain, 0.18) for name, gain in gains.items()}
    adapted |= {f"{name}_share": estimate(gain / 0.9, 0.2) for name, gain in gains.items()}
    rows = [("Law", 30, 0.5, 0.9), ("Maps", 30, 1.4, 0.001), ("Myths", 9, 0.7, 0.8)]
    return {
        "condition": "zero", "variance": 0.04, "expected": 0.01, "permutations": 2000,
        "p_value": 0.002,
        "delta_nll": {name: estimate(0.9, 0.3) for name in conditions if name != "intact"},
        "recovered": {name: estimate(0.5, 0.2) for name in conditions if name != "intact"},
        "adaptation": {name: adapted if name == "zero_fitted" else None for name in conditions},
        "categories": [
            {"category": name, "documents": n, "delta_nll": estimate(cost, 0.2), "p_value": p}
            for name, n, cost, p in rows
        ],
    }  # fmt: skip


def swept(sweep: dict, dataset: str, seed: int = 0) -> dict:
    """A sweep whose loss has its least value in the middle."""
    rows = []
    for place, value in enumerate(sweep["values"]):
        for name in sweep["conditions"]:
            evaluation = losses(name, dataset, seed)
            nll = evaluation["nll_per_token"]["value"] + 0.05 * (place - 2) ** 2
            evaluation["perplexity"] = estimate(float(np.exp(nll)), 0.03 * float(np.exp(nll)))
            cosine = estimate(0.9 - 0.02 * place, 0.004)
            row = {"condition": name, "value": float(value), "last_cosine": cosine}
            rows.append({**row, **{key: evaluation[key] for key in PairedLosses.model_fields}})
    return {"key": sweep["key"], "rows": rows}


def learned(name: str, mask: dict) -> dict:
    """What the measurement says of a learned mask."""
    by_method = {"slope": {"slope": 0.1}, "fitted": {"parameters": 368, "kept_step": 100}}
    return {
        "mask": name, "method": mask["method"], "placebo": mask.get("placebo"),
        "unit": "nats per token", "intact": 3.7, "start": 4.5, "loss": 3.9,
        **by_method.get(mask["method"], {}),
    }  # fmt: skip


def extrapolation(study: dict, model: str) -> dict:
    """Losses that rise after the trained length, or why there are none."""
    shared = common("extrapolation", model, "long", "intact")
    shared["run"] = {"model": model, "dataset": "long"}
    if not study["models"][model]["is_decoder"]:
        reason = "no language-model head"
        return {**shared, "status": "not run", "reason": reason, "documents": 0, "tokens": 0}
    section, trained = study["study"]["extrapolation"], study["models"][model]["max_tokens"]
    if trained >= section["tokens"]:
        reason = "the model reads 160 tokens or more as it is"
        return {**shared, "status": "not run", "reason": reason, "documents": 0, "tokens": 0}
    length, width = section["tokens"] - 1, section["bucket"]
    rows = []
    for index, name in enumerate(section["conditions"]):
        buckets = [
            {
                "from": start + 1,
                "to": min(start + width, length) + 1,
                "nll_per_token": estimate(
                    3.5 + 0.13 * index + (0.0 if start < trained else 0.8), 0.03
                ),
            }
            for start in range(0, length, width)
        ]
        difference = estimate(0.13 * index - 0.39, 0.02)
        is_base = name in ("intact", "zero")
        rows.append(
            {
                "condition": name,
                "precision": EXACT,
                "buckets": buckets,
                "difference": difference,
                "recovered": None
                if is_base
                else [estimate(0.9 - 0.1 * place, 0.05) for place in range(len(buckets))],
            }
        )
    against = section["conditions"][3]
    return {**shared, "trained_tokens": trained, "against": against, "conditions": rows}


def norms(model: str, dataset: str) -> dict:
    """A measurement of norms, which has no interval and no condition."""
    r2, spread = {"linear": -0.06, "flexible": 0.31}, {"mean": 0.4, "sd": 0.1}
    shared = {**common("norms", model, dataset, "intact"), "positions": 128}
    shared["run"] = {"model": model, "dataset": dataset}
    del shared["confidence"]
    names = ("position_embeddings", "token_embeddings", "sum")
    return {
        **shared,
        "r2": dict.fromkeys(names, r2),
        "norm": dict.fromkeys(names[:2], spread),
        "curve": [0.3] * 128,
    }


def reference(study: dict, model: str, dataset: str) -> dict:
    """Levels of a trained decoder; fewer where its corpus is not known, or for an encoder."""
    result = {**common("reference", model, dataset, "intact"), "vocabulary_size": 1024}
    result["run"] = {"model": model, "dataset": dataset}
    if not study["models"][model]["is_decoder"]:
        return {**result, "status": "not run", "reason": "no language-model head", "levels": []}
    names = {"uniform": 1024.0}
    if model in study["study"]["trained"]:
        names |= {"unigram": 705.0, "Kneser-Ney bigram": 72.5, "Kneser-Ney trigram": 51.0}
    else:
        result["reason"] = "what the model learned from is not here: uniform only"
    result["levels"] = [
        {
            "level": name,
            "perplexity": estimate(value, 0.0 if name == "uniform" else 0.03 * value),
            "nll_per_token": estimate(float(np.log(value)), 0.03),
            "bits_per_byte": estimate(float(np.log2(value)) / 4, 0.01),
        }
        for name, value in names.items()
    ]
    return result


def _write(path: Path, value: dict) -> Path:
    """Write a file as the step that makes it does: with its own checksum."""
    write_sealed(path, value)
    return path


def write_training(root: Path, model: str, dataset: str) -> list[Path]:
    """Write loss.csv and summary.json of a trained model."""
    folder = root / "data/training" / model
    folder.mkdir(parents=True, exist_ok=True)
    loss = folder / "loss.csv"
    with open(loss, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "tokens", "training_loss", "validation_loss"])
        for step in range(0, 1001, 10):
            value = 2.9 + 4 * np.exp(-step / 180)
            validation = f"{value + 0.08:.4f}" if step % 100 == 0 else ""
            noise = 0.08 * np.sin(step * 12.9898)
            writer.writerow([step, step * 2048, f"{value + noise:.4f}", validation])
    summary = {
        "schema": 1, "measurement": "training", "model": model, "dataset": dataset,
        "status": "measured", "parameters": 943232, "steps": 1000, "tokens_seen": 2048000,
        "training_documents": 5700, "validation_documents": 300, "final_training_loss": 2.9123,
        "final_validation_loss": 2.9954, "best_validation_loss": 2.9812,
        "curve": {"file": loss.name, "sha256": sha256_file(loss)},
    }  # fmt: skip
    return [loss, _write(folder / "summary.json", summary)]


VERIFIED = {
    "n_layers": 6,
    "d_model": 384,
    "library": "5.1.0",
    "checks": [
        {"name": "hidden states", "difference": 0.0, "allowed": 2e-4, "reason": None},
        {"name": "patterns", "difference": 3.2e-7, "allowed": 1e-6, "reason": None},
        {"name": "losses", "difference": None, "allowed": 2e-4, "reason": "it has no head"},
    ],
    "can": {"patterns": None, "loss": "it has no head", "rotation": "its positions are a table"},
}
"""What a comparison of a fetched model with the library may have found."""


def write_inputs(root: Path, name: str = "default", models: list[str] | None = None) -> dict:
    """Write a whole study's inputs under a folder.

    Parameters
    ----------
    root : Path
        Takes the place of the project's root.
    name : str
        A study of the project's params.yaml, or :data:`EVALUATED`.
    models : list of str or None
        Only these of the study's models.

    Returns
    -------
    dict
        ``study``, a path, and lists of paths: of ``KINDS``, and ``training``. ``conditions`` holds
        the measurements of long documents too, as the step writes them.
    """
    # Made once and copied: printing its numbers is what takes time.
    template, files = _template(name, None if models is None else tuple(models))
    shutil.copytree(template, root, dirs_exist_ok=True)

    def moved(value: Path | list[Path]) -> Path | list[Path]:
        if isinstance(value, list):
            return [root / path.relative_to(template) for path in value]
        return root / value.relative_to(template)

    return {kind: moved(value) for kind, value in files.items()}


@functools.cache
def _template(name: str, models: tuple[str, ...] | None) -> tuple[Path, dict]:
    """A folder of a study's inputs, and what :func:`write_inputs` returns of it."""
    root = Path(tempfile.mkdtemp(prefix="posenc-synthetic-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root, _write_inputs(root, name, None if models is None else list(models))


def _write_inputs(root: Path, name: str, models: list[str] | None) -> dict:
    study, sweeps = study_file(name), params_of().sweeps
    chosen = {sweep: sweeps[sweep].model_dump() for sweep in study["study"]["sweeps"]}
    if models is not None:
        study["study"]["models"] = models
        study["study"]["trained"] = {
            model: data for model, data in study["study"]["trained"].items() if model in models
        }
        for group in ("captured", "examined", "pretrained", "finetuned", "retrained"):
            study["study"][group] = [m for m in study["study"][group] if m in models]
        study["study"]["schemes"], study["schemes"] = {}, {}
        study["models"] = {model: study["models"][model] for model in models}
    written: dict = {kind: [] for kind in (*KINDS, "training")}
    written["study"] = root / "data/config/study.json"
    write_json(written["study"], study)
    for model, facts in study["models"].items():
        is_captured = model in study["study"]["captured"]
        d_model, blocks = (128, 4) if facts["source"]["kind"] == "train" else (384, 6)
        for dataset in study["study"]["datasets"]:
            for condition in study["study"]["conditions"] if is_captured else []:
                run = (model, dataset, condition)
                values = {
                    "similarity": similarity(*run, d_model, blocks),
                    "perplexity": perplexity(*run, facts["is_decoder"]),
                }
                for measurement, value in values.items():
                    place = root / "data/measurements" / measurement / model / dataset
                    written[measurement].append(_write(place / f"{condition}.json", value))
        seed = list(study["models"]).index(model)
        once = {
            "conditions": lambda m, d, s=seed: conditions(study, chosen, m, d, s),
            **({"norms": norms} if is_captured else {}),
            "reference": lambda m, d: reference(study, m, d),
        }
        for measurement, make in once.items():
            place = root / "data/measurements" / measurement / model
            for dataset in study["study"]["datasets"]:
                written[measurement].append(_write(place / f"{dataset}.json", make(model, dataset)))
        place = root / "data/measurements/conditions" / model
        written["conditions"].append(_write(place / "long.json", extrapolation(study, model)))
    for model, dataset in study["study"]["trained"].items():
        written["training"] += write_training(root, model, dataset)
    _write_positions(root / "data/measurements", study, written)
    return written


def _write_positions(root: Path, study: dict, written: dict) -> None:
    """Write the measurements of position embeddings and of relative attention."""

    def add(kind: str, path: str, value: dict) -> None:
        written[kind].append(_write(root / kind / path, value))

    models = {name: study["models"][name]["is_decoder"] for name in study["study"]["captured"]}
    datasets, conditions = study["study"]["datasets"], study["study"]["conditions"]
    for model, is_decoder in models.items():
        add("position_embeddings", f"{model}.json", positions.position_embeddings(model, "model"))
        add("position_heads", f"{model}.json", positions.position_heads(model, is_decoder))
        add("readback", f"{model}.json", positions.readback(model))
        add("embedding_sums", f"{model}.json", experiments.embedding_sums(model, is_decoder))
        add("exchanged_roles", f"{model}.json", experiments.exchanged_roles(model, is_decoder))
        value = positions.relative_attention(model, is_decoder)
        add("relative_attention", f"{model}.json", value)
        for dataset in datasets:
            run = {"model": model, "dataset": dataset}
            place = f"{model}/{dataset}.json"
            add("layer_norm", place, positions.layer_norm(model, dataset, is_decoder))
            for kind in BUNDLED:
                make = getattr(experiments if kind == "hard_attention" else positions, kind)
                runs = [
                    make({**run, "condition": condition}, is_decoder) for condition in conditions
                ]
                add(kind, place, {"measurement": kind, "run": run, "runs": runs})
    for model, facts in study["models"].items():
        add("sample_scores", f"{model}.json", positions.sample_scores(model, facts["is_decoder"]))
        for dataset in datasets:
            result = positions.score_parts(model, dataset, facts["is_decoder"])
            add("score_parts", f"{model}/{dataset}.json", result)
            result = positions.rotation_terms(model, dataset)
            if facts["positions"] == "table":
                result = {**result, "status": "not run", "reason": "nothing is turned"}
            add("rotation_terms", f"{model}/{dataset}.json", result)
            result = positions.savings(model, dataset, facts["is_decoder"], facts["positions"])
            add("savings", f"{model}/{dataset}.json", result)
            result = experiments.effective_keys(model, dataset, facts["is_decoder"])
            add("effective_keys", f"{model}/{dataset}.json", result)
            result = experiments.unrotated_heads(model, dataset)
            if facts["positions"] == "table":
                result = {**result, "status": "not run", "reason": "positions come in by a table"}
            if model in study["study"]["examined"]:
                add("unrotated_heads", f"{model}/{dataset}.json", result)
                result = positions.filtered_loss(model, dataset, facts["is_decoder"])
                add("filtered_loss", f"{model}/{dataset}.json", result)
                result = positions.position_interventions(model, dataset, facts["is_decoder"])
                if facts["positions"] != "table":
                    result = {**result, "status": "not run", "reason": "positions turn queries"}
                add("position_interventions", f"{model}/{dataset}.json", result)
                result = positions.causal_probes(model, dataset, facts["is_decoder"])
                add("causal_probes", f"{model}/{dataset}.json", result)
            for kind in ("induction", "swaps", "joint_order", "choices", "token_classes"):
                result = getattr(positions, kind)(model, dataset, evaluated(study, model))
                if not facts["is_decoder"]:
                    result = {**result, "status": "not run", "reason": "no language-model head"}
                add(kind, f"{model}/{dataset}.json", result)
    for model in study["study"]["retrained"]:
        for dataset in datasets:
            add("retraining", f"{model}/{dataset}.json", experiments.retraining(model, dataset))
    for model in study["study"]["refitted"]:
        for dataset in datasets:
            add("refits", f"{model}/{dataset}.json", experiments.refits(model, dataset))
    for model, scheme in study["schemes"].items():
        for dataset in datasets:
            run = {"model": model, "dataset": dataset, "condition": "intact"}
            add("scheme_probes", f"{model}/{dataset}.json", positions.probes(run, True, scheme))
    for name, matrix in study["matrices"].items():
        value = positions.position_embeddings(name, matrix["kind"])
        add("position_embeddings", f"{name}.json", value)
        heads = positions.position_heads(name, True, "matrix")
        if not matrix.get("n_heads"):
            heads = positions.no_heads(name)
        add("position_heads", f"{name}.json", heads)
    reviews = datasets[0]
    for model in study["study"]["finetuned"]:
        add("downstream", f"{model}.json", experiments.downstream(model, reviews))
    for kind, value in (
        ("superposition", experiments.superposition()),
        ("mixed_images", experiments.mixed_images()),
        ("tokenizers", experiments.tokenizers([reviews, *study["study"]["corpora"]])),
        ("scaling", experiments.scaling()),
        ("pretraining", experiments.pretraining(reviews)),
        ("memory_networks", experiments.memory_networks()),
        ("random_causal", positions.random_causal()),
        ("lags", positions.lags(models, datasets)),
    ):
        written[kind].append(_write(root / f"{kind}.json", value))


def write_chosen(root: Path, params: Params) -> dict:
    """The same for a study that leaves something out of the default one."""
    written = write_inputs(root)
    write_json(written["study"], facts_of(params))
    kept = {*params.study.measured, "training", "study"}
    return {kind: files for kind, files in written.items() if kind in kept}


def measured(written: dict) -> list[Path]:
    """All files of :func:`write_inputs` that are typeset."""
    return [path for kind in (*KINDS, "training") for path in written.get(kind, ())]


def inputs_of(figure: str, written: dict) -> list[Path]:
    """Those of the files of :func:`write_inputs` that a figure is made of."""
    return [path for kind in FIGURE_INPUTS[figure] for path in written[kind]]
