"""What the study no longer has is set aside, and brought back when the study has it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from posenc.study import plan
from posenc.study.declared import KINDS
from posenc.study.params import Params

SET_ASIDE = Path("data/set_aside")


def _leaves(params: Params, root: Path) -> set[Path]:
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
    return paths | {root / f"{document}.pdf" for document in study.documents}


def tidy(params: Params, say: Callable[[str], None]) -> None:
    """Set aside results that the study no longer has; restore those that it has again.

    The folders of a study, and those of documents, are dependencies or outputs of DVC's stages as
    wholes: what lies in them must follow from params.yaml alone, not from what was run before.
    Nothing is deleted.

    Parameters
    ----------
    params
        The parameters.
    say
        Receives one line for what goes, and one for what comes back.
    """
    own = plan.folder(params)
    levels = [
        "training/*", "tokens/*/*", "texts/*/*", "masks/*", "evaluations/*", "activations/*/*/*",
        *(f"measurements/{kind}" + "/*" * len(what.of) for kind, what in KINDS.items() if what.of),
        "measurements/*.json", "trials/*/*/*", "figures/*", "*.pdf",
        # Of a measurement that is no more, as after `git pull`.
        *(f"measurements/{path.name}" for path in own.glob("measurements/*")
          if path.is_dir() and path.name not in KINDS),
    ]  # fmt: skip
    for place, aside, wanted in _places(params):
        _tidy(place, aside, wanted, levels if place == own else ["*.parquet"], say)
    plan.make_folders(params)


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
        for place, aside, wanted in _places(params)
        for path in wanted
        if (aside / path.relative_to(place)).exists() and not path.exists()
    ]
    if awaited:
        say(
            f"{len(awaited)} results of the study are in {SET_ASIDE}: a run brings them back first "
            f"and makes fewer than what is planned now"
        )


def _places(params: Params) -> Iterator[tuple[Path, Path, set[Path]]]:
    """Folders, where their results are set aside, and what the study has in them."""
    study = params.study
    own = plan.folder(params)
    yield own, SET_ASIDE / study.name, _leaves(params, own)
    # No study can have these names.
    for place, name, datasets in (
        (plan.DOCUMENTS, "_documents", study.all_datasets),
        (plan.APART, "_texts", study.corpora),
    ):
        yield place, SET_ASIDE / name, {place / f"{dataset}.parquet" for dataset in datasets}


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
    for path in gone:
        _move(path, aside / path.relative_to(place))
    for path in back:
        _move(aside / path.relative_to(place), path)
    if gone:
        say(f"set aside in {aside}: {len(gone)} results that the study no longer has")
    if back:
        say(f"brought back from {aside}: {len(back)} results that the study has again")


def _move(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
    stay = (plan.STUDIES, SET_ASIDE, plan.DOCUMENTS, plan.APART)
    for parent in source.parents:
        if parent in stay or any(parent.iterdir()):
            break
        parent.rmdir()
