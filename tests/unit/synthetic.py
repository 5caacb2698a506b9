"""Made-up measurements in the files' real format, for tests of figures and documents."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from posenc import plan
from posenc.config.params import load
from posenc.files import sha256_file, write_json, write_sealed

BINS = 200
PROJECT = Path(__file__).parents[2]


def estimate(value: float, half: float) -> dict:
    """An estimate with a symmetric interval."""
    return {"value": value, "low": value - half, "high": value + half}


def study_file(name: str = "default") -> dict:
    """What data/config/study.json holds for a study of the project's params.yaml."""
    params = load(PROJECT / "params.yaml")
    return plan.facts(params.model_copy(update={"study": params.studies[name]}))


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
        layers.append(
            {
                "layer": index,
                "name": name,
                "cosine": estimate(cosine, 0.0123),
                "token_sd": 0.11,
                "baseline": estimate(baseline, 0.006),
                "rescaled": estimate((cosine - baseline) / (1 - baseline), 0.02),
            }
        )
    edges = np.linspace(-1, 1, BINS + 1)
    histograms: dict = {"edges": edges.tolist()}
    for layer in (layers[0], layers[-1]):
        drawn = {}
        for kind, spread in (("cosine", 0.08), ("baseline", 0.12)):
            centre = layer[kind]["value"] - 0.02
            sample = np.clip(generator.normal(centre, spread, 20000), -1, 1)
            drawn[kind] = np.histogram(sample, edges, density=True)[0].tolist()
        histograms[layer["name"]] = drawn
    return {
        **common("similarity", model, dataset, condition),
        "d_model": d_model,
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


def write_inputs(root: Path, name: str = "default", models: list[str] | None = None) -> dict:
    """Write a whole study's inputs under a folder.

    Parameters
    ----------
    root : Path
        Takes the place of the project's root.
    name : str
        A study of the project's params.yaml.
    models : list of str or None
        Only these of the study's models.

    Returns
    -------
    dict
        Lists of paths: ``study``, ``similarity``, ``perplexity`` and ``training``.
    """
    study = study_file(name)
    if models is not None:
        study["study"]["models"] = models
        study["study"]["trained"] = {
            model: data for model, data in study["study"]["trained"].items() if model in models
        }
        study["models"] = {model: study["models"][model] for model in models}
    written: dict = {"similarity": [], "perplexity": [], "training": []}
    written["study"] = root / "data/config/study.json"
    write_json(written["study"], study)
    for model, facts in study["models"].items():
        d_model, blocks = (128, 4) if facts["source"]["kind"] == "train" else (384, 6)
        for dataset in study["study"]["datasets"]:
            for condition in study["study"]["conditions"]:
                run = (model, dataset, condition)
                values = {
                    "similarity": similarity(*run, d_model, blocks),
                    "perplexity": perplexity(*run, facts["is_decoder"]),
                }
                for measurement, value in values.items():
                    place = root / "data/measurements" / measurement / model / dataset
                    written[measurement].append(_write(place / f"{condition}.json", value))
    for model, dataset in study["study"]["trained"].items():
        written["training"] += write_training(root, model, dataset)
    return written
