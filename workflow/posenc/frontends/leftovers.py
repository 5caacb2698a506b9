"""What the study no longer has is set aside, and brought back when the study has it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from posenc.artifacts import receipts
from posenc.artifacts.receipts import FOLDER
from posenc.study import plan
from posenc.study.declared import KINDS
from posenc.study.params import Params
from posenc.study.phases import SHARED

SET_ASIDE = Path("data/set_aside")
DATA = Path("data")


def _leaves(params: Params, root: Path) -> set[Path]:
    """Files and folders that the study has below its own folder."""
    study = params.study
    paths = {root / "training" / model for model in study.trained}
    paths |= {root / path for name in study.measured for path in plan.files(params, name)}
    paths |= {
        root / f"{path}.json"
        for kind in study.experiments.kinds
        for path in plan.trials(params, kind)
    }
    paths |= {
        root / "tokens" / model / f"{dataset}.parquet"
        for model in (*study.models, *study.schemes)
        for dataset in study.datasets
    }
    for model in study.models:
        paths |= {root / "texts" / model / f"{use}.parquet" for use in study.texts}
        paths |= {root / "masks" / model, root / "evaluations" / model}
    paths |= {
        root / "activations" / model / dataset / condition
        for model in study.captured
        for dataset in study.datasets
        for condition in study.conditions
    }
    paths |= {root / "figures" / f"{n}.{form}" for n in plan.figures(params) for form in plan.FORMS}
    return paths | {root / "pdf" / f"{document}.pdf" for document in study.documents}


def _shared_leaves(params: Params) -> set[Path]:
    """Files and folders of the study in folders that studies share."""
    study = params.study
    paths = {DATA / "raw" / dataset for dataset in (*study.all_datasets, *study.corpora)}
    paths |= {plan.DOCUMENTS / f"{dataset}.parquet" for dataset in study.all_datasets}
    paths |= {plan.APART / f"{dataset}.parquet" for dataset in study.corpora}
    for model in (*study.models, *study.schemes):
        paths |= {DATA / "models" / model, DATA / "tokenizers" / model}
        paths |= {DATA / "corpora" / f"{model}.parquet", DATA / "training" / model}
    return paths


def tidy(params: Params, say: Callable[[str], None]) -> None:
    """Set aside results that the study no longer has; restore those that it has again.

    DVC's stages have whole folders of phases as dependencies and outputs: what lies in them must
    follow from params.yaml alone, not from what was run before. Nothing is deleted.

    Parameters
    ----------
    params
        The parameters.
    say
        Receives one line for what goes, and one for what comes back.
    """
    _take_back(params.study.name, say)
    for place, aside, wanted, levels in _places(params):
        _tidy(place, aside, wanted, levels, say)


def announce(params: Params, say: Callable[[str], None]) -> None:
    """Say how many of the study's results are set aside; :func:`tidy` restores them.

    Parameters
    ----------
    params
        The parameters.
    say
        Receives one line, if there are any.
    """
    awaited = [
        path
        for place, aside, wanted, _ in _places(params)
        for path in wanted
        if (aside / path.relative_to(place)).exists() and not path.exists()
    ]
    if awaited:
        say(
            f"{len(awaited)} results of the study are in {SET_ASIDE}: a run brings them back first "
            f"and makes fewer than what is planned now"
        )


def _places(params: Params) -> Iterator[tuple[Path, Path, set[Path], list[str]]]:
    """Folders, where their results are set aside, what the study has there, and their patterns."""
    own = plan.folder(params)
    levels = [
        "training/*", "tokens/*/*", "texts/*/*", "masks/*", "evaluations/*", "activations/*/*/*",
        *(f"measurements/{kind}" + "/*" * len(what.of) for kind, what in KINDS.items() if what.of),
        "measurements/*.json", "trials/*/*/*", "figures/*", "pdf/*",
        # Of a measurement that no longer exists, as after `git pull`.
        *(f"measurements/{path.name}" for path in own.glob("measurements/*")
          if path.is_dir() and path.name not in KINDS),
    ]  # fmt: skip
    yield own, SET_ASIDE / params.study.name, _leaves(params, own), levels
    # No study can have this name.
    shared = [f"{Path(folder).relative_to(DATA)}/*" for folder in SHARED]
    yield DATA, SET_ASIDE / "_shared", _shared_leaves(params), shared


def _tidy(
    place: Path, aside: Path, wanted: set[Path], levels: list[str], say: Callable[[str], None]
) -> None:
    gone = [
        path
        for level in levels
        for path in place.glob(level)
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
    # A receipt goes with all that it names, and comes with any of it.
    goes = [path for path in _receipts(place) if path.exists() and _names(path, gone, every=True)]
    comes = [
        path
        for path in _receipts(aside)
        if _names(path, back, every=False) and not (place / path.relative_to(aside)).exists()
    ]
    for path in (*gone, *goes):
        _move(path, aside / path.relative_to(place))
    for path in (*(aside / path.relative_to(place) for path in back), *comes):
        _move(path, place / path.relative_to(aside))
    if gone:
        say(f"set aside in {aside}: {len(gone)} results that the study no longer has")
    if back:
        say(f"brought back from {aside}: {len(back)} results that the study has again")


def set_aside(study: str) -> int:
    """Set aside all results of a study that is removed; nothing is deleted.

    A study of the same name that is written again brings them back.

    Parameters
    ----------
    study
        Its name.

    Returns
    -------
    int
        How many files went.
    """
    own, aside = plan.STUDIES / study, SET_ASIDE / study
    files = [path for path in sorted(own.rglob("*")) if path.is_symlink() or path.is_file()]
    for path in files:
        _move(path, aside / path.relative_to(own))
    if own.is_dir():
        shutil.rmtree(own)  # folders without files
    return len(files)


def _take_back(study: str, say: Callable[[str], None]) -> None:
    """Bring a study that was removed back as a whole, with its page and its receipts."""
    own, aside = plan.STUDIES / study, SET_ASIDE / study
    if aside.is_dir() and not own.exists():
        own.parent.mkdir(parents=True, exist_ok=True)
        aside.rename(own)
        say(f"brought back from {aside}: the study as it was when it was removed")


def _receipts(place: Path) -> list[Path]:
    return sorted((place / FOLDER).rglob("*.json"))


def _names(path: Path, results: list[Path], every: bool) -> bool:
    """Whether all of a receipt's outputs belong to some results, or any."""
    receipt = receipts.read(path) if results else None
    if receipt is None or not receipt.outputs:
        return False
    covered = [
        any(Path(name).is_relative_to(result) for result in results) for name in receipt.outputs
    ]
    return all(covered) if every else any(covered)


def _move(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
    stay = (DATA, plan.STUDIES, SET_ASIDE, *map(Path, SHARED))
    for parent in source.parents:
        if parent in stay or any(parent.iterdir()):
            break
        parent.rmdir()
