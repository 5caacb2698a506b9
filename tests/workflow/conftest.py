"""A copy of the project with a study small enough to run whole in a test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from ruamel.yaml import YAML

from posenc.documents import DOCUMENTS
from posenc.files import sha256_file

ROOT = Path(__file__).parents[2]


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
        result = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
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
        """Run ``dvc repro`` and return the stages that it ran, the check of params.yaml aside."""
        output = self.run("dvc", "repro").stdout
        stages = re.findall(r"Running stage '([^']+)'", output)
        return [stage for stage in stages if stage != "check"]

    def edit(self, key: str, value) -> None:
        """Change one dotted key of params.yaml; the study stays an alias."""
        path = self.folder / "params.yaml"
        yaml = YAML(typ="safe")
        raw = yaml.load(path.read_text())
        *parts, last = key.split(".")
        node = raw
        for part in parts:
            node = node[part]
        if node[last] == value:
            raise AssertionError(f"{key} is {value!r} already")
        node[last] = value
        with path.open("w") as file:
            yaml.dump(raw, file)

    def copy(self, folder: Path) -> Project:
        """Copy it whole. Dates are kept: Snakemake knows its outputs by them."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Project(folder)

    def append(self, path: str, text: str) -> None:
        """Add text at the end of a file."""
        with (self.folder / path).open("a") as file:
            file.write(text)


def short_document(figures: list[str], tables: list[str]) -> str:
    """A document that shows all that the real one shows, and builds in a second."""
    lines = [
        r"\documentclass{article}",
        r"\usepackage{amsmath,booktabs,graphicx,siunitx,hyperref}",
        r"\pdfvariable suppressoptionalinfo \numexpr32+64+512\relax",
        r"\graphicspath{{../data/figures/}}",
        r"\input{generated/numbers}",
        r"\begin{document}",
        r"\studied{title}: \measured{decoder.reviews.zero.perplexity.perplexity}",
        *(rf"\input{{generated/tables/{table}}}" for table in tables),
        *(rf"\includegraphics[width=5cm]{{{figure}}}" for figure in figures),
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def make_project(folder: Path) -> Project:
    """Copy the project as git would clone it, and make its default study tiny."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in listing.splitlines():
        source, target = ROOT / name, folder / name
        if not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(os.readlink(source))
        else:
            shutil.copy2(source, target)
    project = Project(folder)
    (folder / "dvc.lock").unlink(missing_ok=True)
    (folder / "data" / "metrics.json").unlink(missing_ok=True)
    project.edit(
        "datasets.sample_reviews.source.documents", {"train": 150, "test": 24, "unsup": 12}
    )
    project.edit("datasets.sample_reviews.evaluation.documents", 16)
    project.edit("datasets.sample_reviews.calibration.documents", 8)
    project.edit("datasets.sample_questions.source.documents.validation", 30)
    project.edit("models.minilm.max_tokens", 48)
    project.edit("models.decoder.max_tokens", 48)
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
        project.edit(f"models.decoder.source.{key}", value)
    project.edit("measurements.similarity.baseline_pairs", 500)
    project.edit("measurements.similarity.bootstrap_samples", 200)
    project.edit("measurements.perplexity.bootstrap_samples", 200)
    for measurement in ("conditions", "reference"):
        project.edit(f"measurements.{measurement}.bootstrap_samples", 200)
    project.edit("measurements.norms.tokens", 400)
    # One decoder of a scheme that acts in the attention, and one table that is a file.
    project.edit("studies.default.schemes", {"scheme_rotary": "sample_reviews"})
    project.edit("studies.default.matrices", ["gaussian"])
    table = folder / "table.npy"
    np.save(table, np.random.default_rng(0).normal(size=(34, 16)).astype(np.float32))
    project.edit(
        "matrices.gaussian",
        {"kind": "path", "path": table.name, "sha256": sha256_file(table), "first_row": 2},
    )
    for key, value in (
        ("tokenizer.vocabulary_size", 400), ("n_layers", 1), ("d_model", 16), ("n_positions", 64),
        ("steps", 10), ("checkpoint_steps", 5), ("validate_steps", 5), ("warmup_steps", 2),
    ):  # fmt: skip
        project.edit(f"models.scheme_rotary.source.{key}", value)
    project.edit("models.scheme_rotary.max_tokens", 48)
    for measurement, changes in {
        "position_embeddings": {"rows": 32, "repeats": 2, "pairs": 100},
        "readback": {"tokens": 10, "noise": [0.0, 0.5, 1.0]},
        "probes": {"tokens": 200, "pairs": 200, "epochs": 2, "bootstrap_samples": 100},
        "random_causal": {"n_layers": 2, "d_model": 16, "tokens": 32, "sequences": 2, "models": 2},
        "spectra": {"window": 32, "bands": [0.05, 0.2], "bootstrap_samples": 100},
        "components": {"tokens": 400, "components": 4, "bootstrap_samples": 100},
        "layer_norm": {"tokens": 400},
        "relative_attention": {"rows": 32},
        "heads": {"bootstrap_samples": 100, "types": 3},
        "lags": {"bootstrap_samples": 100},
    }.items():
        for key, value in changes.items():
            project.edit(f"measurements.{measurement}.{key}", value)
    tiny = {"steps": 4, "batch": 3, "validate_steps": 2, "checkpoint_steps": 2, "warmup_steps": 1}
    for experiment, (size, changes) in {
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
             "optimization": tiny},
        ),
        "pretraining": (
            "sample",
            {"pretraining_documents": 16, "training_documents": 8, "validation_documents": 4,
             "test_documents": 8, "vocabulary_size": 300, "tokens": 12, "n_layers": 1,
             "d_model": 8, "n_heads": 1, "pretraining": tiny, "finetuning": tiny},
        ),
        "memory_networks": (
            "sample",
            {"tasks": ["order", "two_facts"], "training_stories": 10, "validation_stories": 10,
             "test_stories": 10, "d_model": 4, "hops": [1, 3], "linear_steps": 2,
             "optimization": tiny, "dynamic": tiny},
        ),
    }.items():  # fmt: skip
        place = f"experiments.{experiment}.{size}"
        project.edit(f"{place}.seeds", [0, 7])
        for key, value in changes.items():
            if not isinstance(value, dict):
                project.edit(f"{place}.{key}", value)
                continue
            for inner, number in value.items():
                project.edit(f"{place}.{key}.{inner}", number)
    project.edit("datasets.sample_japanese.source.documents", {"train": 12, "test": 8})
    project.edit("datasets.sample_japanese.evaluation.documents", 8)
    for measurement, changes in {
        "embedding_sums": {"dimensions": [4], "pairs": 20},
        "scaling": {"dimensions": [4], "queries": 100},
        "hard_attention": {"queries": 10, "heads": 2, "repeats": 10},
    }.items():
        for key, value in changes.items():
            project.edit(f"measurements.{measurement}.{key}", value)
    for mask in ("vectors", "fitted"):
        project.edit(f"masks.{mask}.steps", 2)
    project.edit("masks.slope_zero.slopes", [0.0, 0.1])
    project.edit("sweeps.slope.values", [0.1, 0.5])
    project.edit("activations.shard_tokens", 300)
    project.edit("studies.default.datasets", ["sample_reviews"])
    # One of each kind: a position, a mask, segments, each way to learn a mask.
    project.edit(
        "studies.default.evaluated",
        ["mean", "zero_log_mask", "single_token", "zero_slope", "zero_distilled", "fitted"],
    )
    project.edit("studies.default.sweeps", ["slope"])
    project.edit(
        "studies.default.extrapolation",
        {"tokens": 64, "documents": 20, "bucket": 16, "conditions": ["intact", "zero"]},
    )
    # On several threads the last bits of a sum are rarely others; bytes are compared on one.
    project.append(
        "workflow/profiles/default/config.yaml",
        "set-threads:\n"
        + "".join(
            f"  - {rule}=1\n" for rule in ("capture", "train", "masks", "evaluate", "gpu_trials")
        ),
    )
    for document, parts in DOCUMENTS.items():
        (folder / f"paper/{document}.tex").write_text(short_document(**parts))
    project.run("git", "init", "--quiet")
    project.run("git", "add", "--all")
    project.run("git", "commit", "--quiet", "--message", "tiny study")
    return project


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Project:
    """The tiny study, run by Snakemake and recorded in DVC. Tests undo what they edit.

    It is built once; each worker of pytest-xdist edits a copy of its own.
    """
    own = tmp_path_factory.mktemp("finished")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    built = shared / "finished-study"
    with FileLock(f"{built}.lock"):
        if not built.exists():
            project = make_project(own / "building")
            project.snakemake()
            project.run("posenc", "record")
            project.folder.rename(built)
    return Project(built).copy(own / "project")
