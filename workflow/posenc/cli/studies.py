"""Commands about studies: which there are, new ones, the active one, and those that go."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posenc.cli.common import PARAMS, OtherStudy, StudyName, app, holding, read_params, stop, warn
from posenc.cli.parameters import check

if TYPE_CHECKING:
    from posenc.api.describing import Entry


@app.command()
def study(name: OtherStudy = None) -> None:
    """List studies, or make one the active one for both front ends: one line of params.yaml."""
    from posenc.artifacts.files import ArtifactError
    from posenc.report.links import link
    from posenc.study.params import ParamsError
    from posenc.study.switch import StudyError, activate

    if name is None:
        from posenc.cli.listing import of_studies

        print("\n".join(of_studies(read_params())))
        return
    try:
        with holding(f"study {name}"):
            activate(PARAMS, name)
            link(name)
    except (ParamsError, StudyError, ArtifactError) as error:
        stop(str(error))
    check()


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="of the study")],
    text: Annotated[Path | None, typer.Option(help="a file or folder of your own texts")] = None,
    column: Annotated[str | None, typer.Option(help="of a table, the column with the text")] = None,
    model: Annotated[
        str, typer.Option(help="a key of `models`, a folder, or a name of the hub")
    ] = "minilm",
    revision: Annotated[str, typer.Option(help="commit, tag or branch of the hub")] = "main",
) -> None:
    """Write the file of a small study, to begin with, and make it the active one."""
    from posenc.artifacts.files import ArtifactError
    from posenc.datasets.errors import DatasetError
    from posenc.study.new import write_study
    from posenc.study.params import ParamsError
    from posenc.study.switch import StudyError

    params, entry = read_params(), None
    if model not in params.models and (Path(model).is_dir() or "/" in model):
        from posenc.api.describing import entry_of
        from posenc.models.files import ModelError

        try:
            new_entry = entry_of(model, revision, params.models)
        except (ModelError, ArtifactError) as error:
            stop(str(error))
        model, entry = new_entry.key, new_entry.lines
    try:
        with holding(f"new {name}"):
            said = write_study(PARAMS, name, model, text, column, entry)
    except (DatasetError, StudyError, ParamsError, ArtifactError) as error:
        stop(str(error))
    print("\n".join(said), end="\n" if said else "")
    study(name)


@app.command()
def survey(
    models: Annotated[
        list[str], typer.Argument(metavar="HUB_ID...", help="or HUB_ID@REVISION, or folders")
    ],
    text: Annotated[Path, typer.Option(help="a file or folder of your own texts")],
    column: Annotated[str | None, typer.Option(help="of a table, the column with the text")] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="other texts, which masks are learned from; else another split of TEXT"),
    ] = None,
    name: Annotated[str, typer.Option(help="of the study")] = "survey",
    tokens: Annotated[int, typer.Option(min=4, help="the longest text; longer ones are cut")] = 512,
) -> None:
    """Write the file of a study of many decoders: what do masks recover, by model?

    Each model is downloaded, compared with the library and pinned by its commit. Text, precision
    and length are the same for all: the length is --tokens, or the shortest limit of a model.
    Conditions: with positions, without, the mask in closed form, rotation to first order (rotary
    models), and their placebos. If one model cannot be read, nothing is written.
    """
    from posenc.artifacts.files import ArtifactError
    from posenc.datasets.errors import DatasetError
    from posenc.study.params import ParamsError
    from posenc.study.survey import texts_of, write_survey
    from posenc.study.switch import StudyError

    known = read_params().models
    try:
        texts = texts_of(PARAMS, name, text, column, calibration)
        entries = _surveyed(models, known)
        length = min([tokens, *(entry.max_tokens for entry in entries)])
        with holding(f"survey {name}"):
            write_survey(
                PARAMS,
                name,
                texts,
                {model.key: replace(model, max_tokens=length).lines for model in entries},
                {model.key: model.position for model in entries},
            )
    except (DatasetError, StudyError, ParamsError, ArtifactError) as error:
        stop(str(error))
    print("\n".join(texts.said))
    print(f"{len(entries)} models; texts are cut at {length} tokens")
    study(name)


def _surveyed(names: list[str], known: Collection[str]) -> list[Entry]:
    """Entries of a survey's models; if any is refused, a line for each ends the command."""
    from posenc.api.describing import entry_of
    from posenc.artifacts.files import ArtifactError
    from posenc.models.files import ModelError

    entries: list[Entry] = []
    refused = []
    for number, name in enumerate(names):
        place, _, revision = (name, "", "") if Path(name).is_dir() else name.partition("@")
        try:
            if name in names[:number]:
                raise ModelError(f"{name} is named twice: once is enough")
            entry = entry_of(
                place, revision or "main", [*known, *(earlier.key for earlier in entries)]
            )
            if entry.without_losses is not None:
                raise ModelError(f"{name}: a survey compares losses; {entry.without_losses}")
            entries.append(entry)
            warn(f"{name}: {entry.position}, up to {entry.max_tokens} tokens")
        except (ModelError, ArtifactError) as error:
            refused.append(name)
            warn(f"error: {error}" if place in str(error) else f"error: {name}: {error}")
    if refused:
        stop(f"nothing was written: follow what is said above, or leave out {', '.join(refused)}")
    return entries


@app.command("list")
def list_names(
    kind: Annotated[
        str | None, typer.Argument(help="studies, models, datasets, conditions or figures")
    ] = None,
) -> None:
    """Name what params.yaml has: studies, models, data sets, conditions, figures."""
    from posenc.cli.listing import listed, overview
    from posenc.study.switch import StudyError

    params = read_params()
    try:
        print("\n".join(overview(params) if kind is None else listed(params, kind)))
    except StudyError as error:
        stop(str(error))


@app.command()
def remove(
    name: StudyName,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Remove a study: its file and results move to data/set_aside, and nothing is deleted."""
    from posenc.artifacts.files import ArtifactError
    from posenc.frontends.leftovers import SET_ASIDE, set_aside
    from posenc.report.links import list_pages
    from posenc.study.remove import check_removable, take_out
    from posenc.study.switch import StudyError

    try:
        check_removable(read_params(), name)
        if not yes and not typer.confirm(f"Take the study {name!r} out?"):
            raise typer.Exit(1)
        with holding(f"remove {name}"):
            kept, left = take_out(PARAMS, name, SET_ASIDE / "_studies")
            count = set_aside(name)
            list_pages()
    except (StudyError, ArtifactError) as error:
        stop(str(error))
    print(f"{name} was removed; its file is now {kept}")
    if count:
        print(f"{count} files of it are in {SET_ASIDE / name}; a study of that name has them back")
    for dataset in left:
        print(f"no study uses datasets.{dataset} any more; it stays until you delete it")
