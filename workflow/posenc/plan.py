"""What a study consists of: its sections as small files, its runs, and the paths of artifacts.

Snakemake compares what a rule reads by content when it is a file; so what each job reads of
``params.yaml``, and which code it runs, is written to ``data/config``, only when it changed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import code
from .config.models import TrainSource
from .config.params import Params
from .files import write_json_if_changed

CONFIG = Path("data/config")
STUDIES = Path("data/studies")
SET_ASIDE = Path("data/set_aside")


def sections(params: Params) -> Iterator[tuple[Path, Any]]:
    """Pairs of a path under ``data/config`` and the JSON value that it holds.

    A file holds exactly what one job reads, or the checksums of the modules that a step imports, so
    that an edit reaches no other job; Snakemake's rules and DVC's stages name the same files.
    """
    for kind in ("datasets", "models"):
        for name, section in getattr(params, kind).items():
            for step, part in section.steps().items():
                yield CONFIG / kind / name / f"{step}.json", part.model_dump()
    study = params.study
    for name in study.models:
        yield from _jobs(params, name)
    for name, part in params.figures:
        yield CONFIG / "figures" / f"{name}.json", part.model_dump()
    runs = {kind: getattr(study, kind) for kind in ("models", "datasets", "conditions")}
    yield CONFIG / "runs.json", runs
    yield CONFIG / "study.json", facts(params)
    for module in code.modules("posenc.steps", "posenc.figures"):
        yield CONFIG / "code" / f"{module}.json", code.digests(module)


def _jobs(params: Params, name: str) -> Iterator[tuple[Path, Any]]:
    """What the jobs of one model's runs read."""
    study, model = params.study, params.models[name]
    reading = model.reading.model_dump()
    for dataset in study.datasets:
        evaluation = params.datasets[dataset].evaluation.model_dump()
        yield (
            CONFIG / "tokenize" / name / f"{dataset}.json",
            {"reading": reading, "evaluation": evaluation},
        )
    yield (
        CONFIG / "capture" / f"{name}.json",
        {
            "reading": reading,
            "activations": params.activations.model_dump(),
            "datasets": study.datasets,
            "conditions": {c: params.conditions[c].model_dump() for c in study.conditions},
        },
    )
    for measurement, section in params.measurements:
        yield (
            CONFIG / measurement / f"{name}.json",
            {
                "parameters": section.model_dump(),
                "datasets": study.datasets,
                "conditions": study.conditions,
            },
        )


def materialize(params: Params) -> None:
    """Write every section that changed to ``data/config``, and remove what is none.

    DVC's first stage does the same, and the others wait for it. A study that trains nothing has
    an empty folder of trainings, which DVC's stages name.
    """
    written = set()
    for path, value in sections(params):
        write_json_if_changed(path, value)
        written.add(path)
    for path in CONFIG.rglob("*"):
        # A hidden file is another process's, which is writing just now.
        if path.is_file() and path not in written and not path.name.startswith("."):
            path.unlink()
    (folder(params) / "training").mkdir(parents=True, exist_ok=True)


def folder(params: Params) -> Path:
    """Folder of the active study's tokens, activations, measurements and trainings."""
    return STUDIES / params.study.name


def _leaves(params: Params, root: Path) -> set[Path]:
    study = params.study
    paths = {root / "training" / model for model in study.trained}
    for model in study.models:
        for dataset in study.datasets:
            paths.add(root / "tokens" / model / f"{dataset}.parquet")
            for condition in study.conditions:
                paths.add(root / "activations" / model / dataset / condition)
                for measurement, _ in params.measurements:
                    paths.add(
                        root / "measurements" / measurement / model / dataset / f"{condition}.json"
                    )
    return paths


def tidy(params: Params, say: Callable[[str], None]) -> None:
    """Set aside what belongs to runs that the study no longer has; bring back what it has again.

    The folders of a study are dependencies and outputs of DVC's stages as wholes: what lies in them
    must follow from params.yaml alone, not from what was run before. Nothing is deleted.

    Parameters
    ----------
    params
        The parameters.
    say
        Receives one line a direction.
    """
    place, aside = folder(params), SET_ASIDE / params.study.name
    wanted = _leaves(params, place)
    depth = {"training": 2, "tokens": 3, "activations": 4, "measurements": 5}
    gone = [
        path
        for top, levels in depth.items()
        for path in place.glob("/".join([top, *["*"] * (levels - 1)]))
        if path not in wanted and not path.name.startswith(".")
    ]
    back = []
    for path in sorted(wanted):
        kept = aside / path.relative_to(place)
        if kept.exists() and not path.exists():
            back.append(path)
        elif kept.is_dir():  # DVC has brought it back from its own cache
            shutil.rmtree(kept)
        else:
            kept.unlink(missing_ok=True)
    for path in gone:
        _move(path, aside / path.relative_to(place))
    for path in back:
        _move(aside / path.relative_to(place), path)
    (place / "training").mkdir(parents=True, exist_ok=True)
    if gone:
        say(f"set aside in {aside}: {len(gone)} results of runs that the study no longer has")
    if back:
        say(f"brought back from {aside}: {len(back)} results of runs that the study has again")


def _move(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
    for parent in source.parents:
        if parent in (STUDIES, SET_ASIDE) or any(parent.iterdir()):
            break
        parent.rmdir()


def facts(params: Params) -> dict[str, Any]:
    """What tables and documents say of the active study."""
    active = params.study
    return {
        "study": active.model_dump(),
        "models": {
            name: {
                "family": model.family,
                "is_decoder": model.is_decoder,
                "max_tokens": model.max_tokens,
                "source": model.source.model_dump(),
            }
            for name in active.models
            for model in [params.models[name]]
        },
        "datasets": {name: params.datasets[name].model_dump() for name in active.datasets},
        "conditions": {name: params.conditions[name].model_dump() for name in active.conditions},
    }


def training_dataset(params: Params, model: str) -> str:
    """The data set that a trained model learns from, in whichever study names it.

    Raises
    ------
    ValueError
        If no study trains it.
    """
    for candidate in (params.study, *params.studies.values()):
        if model in candidate.trained:
            return candidate.trained[model]
    raise ValueError(f"no study trains {model!r}: list it under studies.*.trained")


def trained(params: Params) -> list[str]:
    """Models that the workflow trains."""
    return [n for n, model in params.models.items() if isinstance(model.source, TrainSource)]


def pretrained(params: Params) -> list[str]:
    """Models whose weights are fetched."""
    return [name for name in params.models if name not in trained(params)]


def alternatives(names) -> str:
    """A regular expression that matches exactly these names, and nothing when there are none."""
    return "|".join(map(re.escape, names)) or r"(?!)"
