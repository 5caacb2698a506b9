"""The phases from raw text to what readers get: their rules, what they read, and what they make.

They are DVC's stages, the same for every study; Snakemake's rules are finer.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from posenc.artifacts.receipts import FOLDER
from posenc.figures.catalogue import DOCUMENTS
from posenc.study.declared import MEASUREMENTS

STUDY = "data/studies/{study}"
SHARED = ("data/raw", "data/documents", "data/texts", "data/models", "data/tokenizers",
          "data/corpora", "data/training")  # fmt: skip
"""Folders that studies share: they hold the files that the active study names."""


@dataclass(frozen=True)
class Phase:
    """A step of the workflow as a person would draw it.

    Attributes
    ----------
    rules
        Its Snakemake rules.
    reads, makes
        Files and folders of artifacts, ``{study}`` for the study's name.
    steps
        Modules that its rules run, below ``posenc.steps``.
    text
        Files by people that it reads, beside ``params.yaml`` and the package.
    """

    rules: tuple[str, ...]
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    steps: tuple[str, ...] = ()
    text: tuple[str, ...] = ()


PHASE_OF_STEP = {
    ("datasets", "fetch"): "raw_text",
    ("datasets", "documents"): "documents",
    ("models", "fetch"): "models",
    ("models", "corpus"): "models",
    ("models", "train"): "models",
}
"""The phase of each step of a data set and a model."""
PUBLISHED = ("paper/published.yaml", "docs/mask-versions.json")
PHASES = {
    "raw_text": Phase(("fetch",), (), ("data/raw",), ("fetch",)),
    "documents": Phase(
        ("documents", "corpus"), ("data/raw",), ("data/documents", "data/texts"), ("documents",)
    ),
    "models": Phase(
        ("model", "tokenizer", "training_tokens", "train"),
        ("data/documents",),
        ("data/models", "data/tokenizers", "data/corpora", "data/training"),
        ("model", "tokenizer", "training_tokens", "train"),
    ),
    "trainings": Phase(("training",), ("data/training",), (f"{STUDY}/training",), ("training",)),
    "tokens": Phase(
        ("tokenize", "texts"),
        ("data/documents", "data/tokenizers"),
        (f"{STUDY}/tokens", f"{STUDY}/texts"),
        ("tokenize",),
    ),
    "activations": Phase(
        ("capture", "store"),
        ("data/models", f"{STUDY}/tokens"),
        (f"{STUDY}/activations",),
        ("capture", "store"),
    ),
    "masks": Phase(
        ("masks",), ("data/models", f"{STUDY}/texts"), (f"{STUDY}/masks",), ("masks",)
    ),
    "evaluations": Phase(
        ("evaluate",),
        ("data/models", f"{STUDY}/tokens", f"{STUDY}/texts", f"{STUDY}/masks"),
        (f"{STUDY}/evaluations",),
        ("evaluate",),
    ),
    "trials": Phase(
        ("trials", "gpu_trials"),
        ("data/documents", "data/texts", "data/models", "data/tokenizers"),
        (f"{STUDY}/trials",),
    ),
    "measurements": Phase(
        (*MEASUREMENTS, "experiment", "experiment_of_model"),
        ("data/documents", "data/models", "data/tokenizers", "data/corpora", "data/training",
         f"{STUDY}/tokens", f"{STUDY}/activations", f"{STUDY}/masks", f"{STUDY}/evaluations",
         f"{STUDY}/trials"),
        (f"{STUDY}/measurements",),
    ),
    "figures": Phase(
        ("figure",), (f"{STUDY}/measurements", f"{STUDY}/training"), (f"{STUDY}/figures",)
    ),
    "numbers": Phase(
        ("typeset",),
        ("data/models", f"{STUDY}/measurements", f"{STUDY}/training"),
        (f"{STUDY}/generated", f"{STUDY}/plots", f"{STUDY}/numbers.json", f"{STUDY}/metrics.json"),
        ("typeset",),
        PUBLISHED,
    ),
    "paper": Phase(
        tuple(DOCUMENTS),
        (f"{STUDY}/generated", f"{STUDY}/figures"),
        (f"{STUDY}/pdf",),
        ("latex",),
        (*(f"paper/{name}.tex" for name in DOCUMENTS), "paper/preamble.tex",
         "paper/references.bib"),
    ),
    "page": Phase(
        ("page",),
        ("data/models", f"{STUDY}/measurements", f"{STUDY}/training", f"{STUDY}/figures"),
        (f"{STUDY}/index.html",),
        ("page",),
        PUBLISHED,
    ),
}  # fmt: skip
"""In the order of the workflow."""
METRICS = "metrics.json"
NAMED_AS_RULES = frozenset(PHASES) & {rule for phase in PHASES.values() for rule in phase.rules}
"""Phases that have the name of one of their rules."""


def target(phase: str) -> str:
    """The Snakemake target that makes a phase."""
    return f"all_{phase}" if phase in NAMED_AS_RULES else phase


def phase_of_command(module: str) -> str:
    """The phase whose rules run a module of the package."""
    *package, name = module.split(".")
    if package[1] == "steps":
        return next(phase for phase, what in PHASES.items() if name in what.steps)
    if name == "figure":
        return "figures"
    if package[1] == "experiments":
        return "trials" if name == "trials" else "measurements"
    return package[1]


def receipts(phase: str) -> str:
    """Folder of the receipts of a phase's jobs, ``{study}`` for the study's name."""
    shared = all(path.startswith(SHARED) for path in PHASES[phase].makes)
    return f"{'data' if shared else STUDY}/{FOLDER}/{phase}"


def folders(study: str, names: Iterable[str] = PHASES) -> Iterator[Path]:
    """Folders that phases make; they exist even where a study has nothing in them."""
    for name in names:
        for path in (*PHASES[name].makes, receipts(name)):
            if not Path(path).suffix:
                yield Path(path.format(study=study))


def makes(phase: str, path: Path, study: str) -> bool:
    """Whether a phase of a study makes a file, its receipts included."""
    places = (*PHASES[phase].makes, receipts(phase))
    return any(path.is_relative_to(place.format(study=study)) for place in places)


PIPELINE = Path("dvc.yaml")


def is_pipeline_ours() -> bool:
    """Whether ``dvc.yaml`` holds the stages of the phases and nothing else."""
    return PIPELINE.is_file() and PIPELINE.read_bytes() == dvc_yaml().encode()


def dvc_yaml() -> str:
    """DVC's stages, one for each phase, with the same names for every study."""
    head = """\
# The versioning front end: a stage for each phase of the workflow, the same for every study.
# Written by `posenc dvc`; a test compares. Each stage runs Snakemake restricted to its own rules.
stages:
  # What people write: checked before DVC removes any output, written to the files that jobs read.
  check:
    foreach: ["${study}"]
    do:
      cmd: posenc check --write
"""
    written = dict.fromkeys(text for phase in PHASES.values() for text in phase.text)
    lines = _paths("deps", ["params.yaml", "studies", "workflow/posenc", *written, "data/packages"])
    lines += ["      outs:", "        - data/config:", "            cache: false"]
    for name, phase in PHASES.items():
        outputs = [*phase.makes, receipts(name)]
        metrics = [path for path in outputs if path.endswith(METRICS)]
        lines += [
            f"  {name}:",
            '    foreach: ["${study}"]',
            "    do:",
            f"      cmd: posenc stage {name}",
            *_paths("deps", [*phase.reads, f"data/config/{name}", "workflow/rules"]),
            *_paths("outs", [path for path in outputs if path not in metrics]),
            *(_paths("metrics", metrics) if metrics else []),
        ]
    return head + "\n".join(lines) + TAIL


TAIL = """

# Shown by `dvc exp show` and `dvc params diff`; the stages depend on their own parts.
params:
  - params.yaml

plots:
  - data/studies/${study}/plots/layers:
      x: layer
      y: cosine
  - perplexity:
      title: Perplexity by run
      template: bar_horizontal
      x: perplexity
      y:
        data/studies/${study}/plots/perplexity.csv: run
"""


def _paths(key: str, paths: Iterable[str]) -> list[str]:
    """A list in a stage, as lines; DVC puts the study's name into paths."""
    quoted = (
        f'"{path.replace("{study}", "${study}")}"' if "{study}" in path else path for path in paths
    )
    text = textwrap.fill(
        f"{key}: [{', '.join(quoted)}]", 96, break_long_words=False, break_on_hyphens=False
    )
    return textwrap.indent(text.replace("\n", "\n  "), "      ").split("\n")
