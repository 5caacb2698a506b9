"""A copy of the project with a study small enough to run in a test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import psutil
import pytest
from filelock import FileLock
from ruamel.yaml import YAML

from posenc.artifacts.files import sha256_file
from posenc.figures.catalogue import DOCUMENTS
from tests.copies import ROOT, copy_project
from tests.unit.synthetic import OF_OTHER_STUDIES

LONGEST = 1800
"""Seconds that a command may run: the whole tiny study takes a few hundred."""


class Project:
    """A working copy, and the commands of both front ends in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(folder / "workflow"),
            "POSENC_SHARED": str(ROOT / ".." / "shared"),
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "user.name",
            "GIT_CONFIG_VALUE_0": "test",
            "GIT_CONFIG_KEY_1": "user.email",
            "GIT_CONFIG_VALUE_1": "test@example.invalid",
        }

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run a command; its output is in ``stdout``, errors included."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            output, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            # Its jobs hold the pipe open.
            for job in [*psutil.Process(process.pid).children(recursive=True), process]:
                job.kill()
            output, _ = process.communicate()
            line = f"`{' '.join(command)}` ran for more than {LONGEST} s"
            raise AssertionError(f"{line}\n{output[-6000:]}") from None
        result = subprocess.CompletedProcess(command, process.returncode, output)
        if check:
            assert result.returncode == 0, result.stdout[-6000:]
        return result

    def snakemake(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run Snakemake as the README does."""
        return self.run(
            "snakemake", "--cores", "2", "--resources", "gpu=1", *arguments, check=check
        )

    def planned(self) -> dict[str, int]:
        """Jobs that Snakemake would run now, by rule."""
        output = self.snakemake("--dry-run").stdout
        if "Nothing to be done" in output:
            return {}
        table = output.split("Job stats:")[1].split("total")[0]
        jobs = {rule: int(count) for rule, count in re.findall(r"(?m)^(\w+) +(\d+)$", table)}
        jobs.pop("all", None)
        return jobs

    def reproduced(self) -> list[str]:
        """Run ``dvc repro`` and return the phases that it ran, the check of params.yaml aside."""
        return reproduced(self.run("dvc", "repro").stdout)

    def edit(self, key: str, value) -> None:
        """Change one dotted key of params.yaml, or add it."""
        self.edit_all({key: value})

    def edit_all(self, changes: Mapping[str, object]) -> None:
        """Change dotted keys of params.yaml, which is read and written once."""
        path = self.folder / "params.yaml"
        yaml = YAML(typ="safe")
        # As people write it: DVC breaks long flow-style lines where they cannot be read again.
        yaml.default_flow_style = False
        raw = yaml.load(path.read_text())
        for key, value in changes.items():
            *parts, last = key.split(".")
            node = raw
            for part in parts:
                node = node.setdefault(part, {})
            if node.get(last) == value:
                raise AssertionError(f"{key} is {value!r} already")
            node[last] = value
        # In one step, as editors save: a command may be reading it.
        edited = path.with_name(f"{path.name}.edited")
        with edited.open("w") as file:
            yaml.dump(raw, file)
        edited.replace(path)

    def copy(self, folder: Path) -> Project:
        """Copy it whole, dates included: Snakemake knows its outputs by them."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", self.folder, folder], check=True)  # a third of copytree's time
        return Project(folder)

    def append(self, path: str, text: str) -> None:
        """Add text at the end of a file."""
        with (self.folder / path).open("a") as file:
            file.write(text)


def reproduced(output: str) -> list[str]:
    """The phases that DVC says it runs, the check of params.yaml aside."""
    phases = re.findall(r"Running stage '(\w+)@\w+'", output)
    return [phase for phase in phases if phase != "check"]


def ran(output: str) -> set[str]:
    """Rules of the jobs that Snakemake says have ended."""
    return set(re.findall(r"(?m)^\d+ of \d+: (\w+)", output))


def short_document(figures: list[str], tables: list[str]) -> str:
    """A document that shows all that the real one does and builds in a second."""
    lines = [
        r"\documentclass{article}",
        r"\usepackage{amsmath,booktabs,graphicx,siunitx,hyperref}",
        r"\pdfvariable suppressoptionalinfo \numexpr32+64+512\relax",
        r"\graphicspath{{figures/}}",
        r"\input{generated/numbers}",
        r"\begin{document}",
        r"\studied{title}: \measured{decoder.reviews.zero.perplexity.perplexity}",
        *(rf"\input{{generated/tables/{table}}}" for table in tables),
        *(rf"\iffigure{{{name}}}{{\includegraphics[width=5cm]{{{name}}}}}{{}}" for name in figures),
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


CORE = {
    "models": ["decoder"],
    "captured": ["decoder"],
    "examined": ["decoder"],
    "pretrained": [],
    "finetuned": [],
    "schemes": {},
    "matrices": [],
    "corpora": [],
    "experiments": {"superposition": "digits"},
    "measurements": ["heads"],
    "figures": ["perplexity", "training_loss", "head_offsets"],
    "documents": ["supplement"],
    "evaluated": ["zero_log_mask", "zero_slope"],
    "sweeps": [],
}
"""The core study: one of each mechanism of the workflow, and no more."""


def make_project(folder: Path, core: bool = False) -> Project:
    """Copy the project as git would clone it, and make its default study tiny.

    With ``core``, it keeps one of each mechanism: a decoder that is trained, capture and store, a
    learned mask, measurements with a file per run and bundled ones, an experiment, three figures
    and the supplement.
    """
    copy_project(folder)
    project = Project(folder)
    (folder / "dvc.lock").unlink(missing_ok=True)
    shutil.rmtree(folder / "data/records", ignore_errors=True)
    changes: dict[str, object] = {}
    changes["datasets.sample_reviews.source.documents"] = {"train": 150, "test": 24, "unsup": 12}
    changes["datasets.sample_reviews.evaluation.documents"] = 16
    changes["datasets.sample_reviews.calibration.documents"] = 8
    changes["datasets.sample_questions.source.documents.validation"] = 30
    changes["models.minilm.max_tokens"] = 48
    changes["models.decoder.max_tokens"] = 48
    for key, value in (
        ("tokenizer.vocabulary_size", 400),
        ("n_layers", 2),
        ("d_model", 32),
        ("n_positions", 64),
        ("steps", 30),
        ("checkpoint_steps", 10),
        ("validate_steps", 10),
        ("warmup_steps", 5),
    ):
        changes[f"models.decoder.source.{key}"] = value
    changes["measurements.similarity.baseline_pairs"] = 500
    changes["measurements.similarity.bootstrap_samples"] = 200
    changes["measurements.perplexity.bootstrap_samples"] = 200
    for measurement in ("conditions", "reference"):
        changes[f"measurements.{measurement}.bootstrap_samples"] = 200
    changes["measurements.norms.tokens"] = 400
    # One decoder of a scheme that acts in the attention, and one table that is a file.
    changes["studies.default.schemes"] = {"scheme_rotary": "sample_reviews"}
    changes["studies.default.matrices"] = ["gaussian"]
    table = folder / "table.npy"
    np.save(table, np.random.default_rng(0).normal(size=(34, 16)).astype(np.float32))
    changes["matrices.gaussian"] = {
        "kind": "path",
        "path": table.name,
        "sha256": sha256_file(table),
        "first_row": 2,
    }
    for key, value in (
        ("tokenizer.vocabulary_size", 400), ("n_layers", 1), ("d_model", 16), ("n_positions", 64),
        ("steps", 10), ("checkpoint_steps", 5), ("validate_steps", 5), ("warmup_steps", 2),
    ):  # fmt: skip
        changes[f"models.scheme_rotary.source.{key}"] = value
    changes["models.scheme_rotary.max_tokens"] = 48
    for measurement, section in {
        "position_embeddings": {"rows": 32, "repeats": 2, "pairs": 100},
        "readback": {"tokens": 10, "bounded": 10, "noise": [0.0, 0.5, 1.0]},
        "probes": {"tokens": 200, "pairs": 200, "epochs": 2, "bootstrap_samples": 100},
        "random_causal": {"n_layers": 2, "d_model": 16, "tokens": 32, "sequences": 2, "models": 2},
        "spectra": {"window": 32, "bands": [0.05, 0.2], "bootstrap_samples": 100},
        "filtered_loss": {"documents": 3, "tokens": 24, "bootstrap_samples": 100},
        "position_interventions": {"documents": 4, "tokens": 24, "bootstrap_samples": 100},
        "components": {"tokens": 400, "components": 4, "bootstrap_samples": 100},
        "layer_norm": {"tokens": 400},
        "position_heads": {"rows": 32, "null_draws": 1},
        "relative_attention": {"rows": 32},
        "heads": {"bootstrap_samples": 100, "types": 3},
        "lags": {"bootstrap_samples": 100},
        "causal_probes": {"documents": 12, "tokens": 300, "windows": [4], "bootstrap_samples": 100},
        "swaps": {"every": 1, "tokens": 12, "bootstrap_samples": 100},
        "joint_order": {"documents": 2, "tokens": 4, "candidates": 3, "bootstrap_samples": 100},
        "choices": {"questions": 4, "bootstrap_samples": 100},
        "token_classes": {"every": 1, "tokens": 24, "bootstrap_samples": 100},
        "induction": {"sequences": 4, "tokens": 8, "heads": 2, "bootstrap_samples": 100},
        "score_parts": {"documents": 3, "tokens": 24, "bootstrap_samples": 100},
        "exchanged_roles": {"sentences": 4, "bootstrap_samples": 100},
        "effective_keys": {"documents": 3, "tokens": 24, "keys": [1], "bootstrap_samples": 100},
        "savings": {"documents": 3, "tokens": 12, "offsets": [1, 8], "bootstrap_samples": 100},
        "rotation_terms": {"documents": 3, "tokens": 12, "bootstrap_samples": 100},
        "unrotated_heads": {"documents": 4, "tokens": 12, "counts": [2], "bootstrap_samples": 100},
        "retraining": {
            "documents": 8,
            "tokens": 16,
            "evaluated_tokens": 100,
            "steps": 2,
            "warmup_steps": 1,
            "batch_sequences": 2,
            "evaluate_steps": [0, 2],
            "bootstrap_samples": 100,
        },
        "refits": {"fitting": 2, "choosing": 2, "evaluated": 2, "bootstrap_samples": 100},
    }.items():
        for key, value in section.items():
            changes[f"measurements.{measurement}.{key}"] = value
    tiny = {"steps": 4, "batch": 3, "validate_steps": 2, "checkpoint_steps": 2, "warmup_steps": 1}
    for experiment, (size, section) in {
        "downstream": (
            "sample",
            {"training_documents": 8, "validation_documents": 4, "test_documents": 8,
             "max_tokens": 12, "tasks": ["word_swap"], "trained_layers": 1, "optimization": tiny},
        ),
        "superposition": ("digits", {"width": 2, "pairs": 10, "optimization": tiny}),
        "tokenizers": (
            "sample",
            {"training_documents": 8, "validation_documents": 4, "test_documents": 4,
             "n_layers": 1, "d_model": 8, "n_heads": 1, "context_bytes": 64,
             "tried_steps": 2, "optimization": tiny},
        ),
        "pretraining": (
            "sample",
            {"pretraining_documents": 16, "training_documents": 8, "validation_documents": 4,
             "test_documents": 8, "vocabulary_size": 300, "tokens": 12, "n_layers": 1,
             "d_model": 8, "n_heads": 1, "zero_shot": {"prompt": "is"}, "pretraining": tiny,
             "finetuning": tiny},
        ),
        "memory_networks": (
            "sample",
            {"tasks": ["order", "two_facts"], "training_stories": 10, "validation_stories": 10,
             "test_stories": 10, "d_model": 4, "hops": [1, 3], "linear_steps": 2,
             "optimization": tiny, "dynamic": tiny, "attempts": 1},
        ),
    }.items():  # fmt: skip
        place = f"experiments.{experiment}.{size}"
        changes[f"{place}.seeds"] = [0, 7]
        for key, value in section.items():
            if not isinstance(value, dict):
                changes[f"{place}.{key}"] = value
                continue
            for inner, number in value.items():
                changes[f"{place}.{key}.{inner}"] = number
    changes["datasets.sample_japanese.source.documents"] = {"train": 12, "test": 8}
    changes["datasets.sample_japanese.evaluation.documents"] = 8
    for measurement, section in {
        "embedding_sums": {"dimensions": [4], "pairs": 20},
        "mixed_images": {
            "images": {
                "package": "foolbox",
                "classes": {
                    "data/imagenet_01_559.jpg": 559,
                    "data/imagenet_08_915.jpg": 915,
                    "data/imagenet_13_471.jpg": 471,
                },
                "sha256": "40bf864014ce49980c6be6fdfccacd5547525cc79faa3cb6e5eb6c839be4f70f",
            },
            "weights": [0.5],
            "bootstrap_samples": 100,
        },
        "scaling": {"dimensions": [4], "queries": 100},
        "hard_attention": {"queries": 10, "heads": 2, "repeats": 10},
    }.items():
        for key, value in section.items():
            changes[f"measurements.{measurement}.{key}"] = value
    for mask in ("vectors", "fitted"):
        changes[f"masks.{mask}.steps"] = 2
    changes["masks.slope_zero.slopes"] = [0.0, 0.1]
    changes["sweeps.slope.values"] = [0.1, 0.5]
    changes["activations.shard_tokens"] = 300
    changes["studies.default.datasets"] = ["sample_reviews"]
    # One of each kind: a position, a mask, segments, each way to learn a mask.
    changes["studies.default.evaluated"] = [
        "mean",
        "zero_log_mask",
        "single_token",
        "zero_slope",
        "zero_distilled",
        "zero_closed",
        "fitted",
    ]
    changes["studies.default.sweeps"] = ["slope"]
    # The weights of a real decoder take half a gigabyte in each copy.
    changes["studies.default.models"] = ["minilm", "decoder"]
    changes["studies.default.pretrained"] = ["minilm"]
    changes["studies.default.evaluations"] = {}
    changes["studies.default.extrapolation"] = {
        "tokens": 64,
        "documents": 20,
        "bucket": 16,
        "conditions": ["intact", "zero"],
    }
    if core:
        changes |= {f"studies.default.{key}": value for key, value in CORE.items()}
    project.edit_all(changes)
    # On several threads the last bits of a sum rarely differ; bytes are compared on one.
    project.append(
        "workflow/profiles/default/config.yaml",
        "set-threads:\n"
        + "".join(
            f"  - {rule}=1\n" for rule in ("capture", "train", "masks", "evaluate", "gpu_trials")
        ),
    )
    for document, parts in DOCUMENTS.items():
        drawn = CORE["figures"] if core else set(parts["figures"]) - OF_OTHER_STUDIES
        figures = [name for name in parts["figures"] if name in drawn]
        (folder / f"paper/{document}.tex").write_text(short_document(figures, parts["tables"]))
    project.run("git", "init", "--quiet")
    project.run("git", "add", "--all")
    project.run("git", "commit", "--quiet", "--message", "tiny study")
    project.run("git", "gc", "--quiet")  # one file in place of a thousand, in every copy
    return project


def bare_project(folder: Path) -> Project:
    """The project as it is, without data, under DVC alone."""
    copy_project(folder)
    project = Project(folder)
    project.run("dvc", "init", "--no-scm", "--quiet", "--force")
    return project


def built(tmp_path_factory, core: bool) -> Project:
    """A study, run by Snakemake and recorded in DVC: built once, a copy for each worker."""
    name = "core" if core else "tiny"
    own = tmp_path_factory.mktemp(name)
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    whole = shared / f"{name}-study"
    with FileLock(f"{whole}.lock"):
        if not whole.exists():
            project = make_project(own / "building", core=core)
            project.snakemake()
            project.run("posenc", "record")
            project.folder.rename(whole)
    return Project(whole).copy(own / "project")


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Project:
    """The tiny study, run by Snakemake and recorded in DVC. Tests undo what they edit."""
    return built(tmp_path_factory, core=False)


@pytest.fixture(scope="session")
def core(tmp_path_factory) -> Project:
    """The core study, in the same way."""
    return built(tmp_path_factory, core=True)
