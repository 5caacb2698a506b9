"""Commands about params.yaml: what it has, and what is written to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posenc.cli.common import PARAMS, OtherStudy, StudyName, app, holding, read_params, stop, warn

if TYPE_CHECKING:
    from posenc.api.describing import Entry

SCHEMAS = Path("workflow/schemas")


@app.command()
def check(
    name: OtherStudy = None,
    write: Annotated[bool, typer.Option(help="also write its sections to data/config")] = False,
) -> None:
    """Validate params.yaml, look for the files that it names, and show what the study has."""
    params = read_params(name)
    if write and name is not None:
        stop(f"--write is for the active study: `posenc study {name}` makes it active")
    if write:
        with holding("check --write"):
            write_sections(params)
    print("\n".join(_parts(params)))
    _say_models(params)
    # DVC begins with `--write`: what it has fetched need not be there any more.
    if not write:
        say_sizes(params)
        _look_for_sources(params)


def write_sections(params) -> None:
    """Write what jobs read, and put results where the study has them; for the holder."""
    from posenc.artifacts import kept
    from posenc.artifacts.contents import Contents
    from posenc.frontends.leftovers import tidy
    from posenc.report.links import link
    from posenc.study.configs import is_edited, materialize

    tidy(params, warn)
    materialize(params)
    kept.keep_all(contents := Contents(), params.study.name)
    kept.restore_all(contents, params.study.name, warn)
    link(params.study.name)
    # DVC notes what its first stage read only after the stage has ended.
    if is_edited(read_params()):
        stop("params.yaml, the code or a text was saved meanwhile: start again")


def _parts(params) -> list[str]:
    """What the active study has, a line for each kind."""
    from posenc.study.plan import figures, has_files

    study = params.study
    runs = len(study.captured) * len(study.datasets) * len(study.conditions)
    lines = [f"params.yaml is valid. Study {study.name!r}: {runs} runs"]
    for kind in ("models", "captured", "schemes", "datasets", "conditions"):
        if names := list(getattr(study, kind)):
            lines.append(f"  {kind}: {', '.join(names)}")
    for model in study.models:
        own, section = study.evaluation_of(model), params.models[model]
        further = [
            name
            for name in own.evaluated
            if name not in study.conditions
            and params.conditions[name].is_for(section.is_decoder, section.positions)
        ]
        sweeps = own.sweeps if section.is_decoder else []  # an encoder has no loss to sweep
        if further or sweeps:
            what = [f"{len(further)} conditions", *(f"the sweep {name}" for name in sweeps)]
            lines.append(f"  evaluated of {model}: {', '.join(what)}")
    for kind, names in {
        "measurements": [name for name in study.measured if has_files(params, name)],
        "experiments": study.experiments.kinds,
        "figures": figures(params),
        "documents": study.documents,
    }.items():
        if names:
            lines.append(f"  {kind}: {', '.join(names)}")
    return lines


def _say_models(params) -> None:
    """Print what fetched models were verified to lack."""
    from posenc.api.describing import fetched

    for name in params.study.models:
        for line in (fetched(name) or [])[1:]:
            print(f"  {name}: {line}")


def say_sizes(params) -> None:
    from posenc.study import room
    from posenc.study.cut import lines
    from posenc.study.storage import summary

    if line := summary(params, Path()):
        print(f"  disk: {line}")
    for line in (*lines(params), *room.lines(params)):
        print(f"  {line}")


def _look_for_sources(params) -> None:
    from posenc.report import latex
    from posenc.study.sources import places, problems

    for line in places(params):
        print(f"  {line}")
    lines = list(problems(params))
    if params.study.documents and (advice := latex.advice()):
        print(f"note: {advice}", file=sys.stderr)
    for line in lines[:-1]:
        print(f"error: {line}", file=sys.stderr)
    if lines:
        stop(lines[-1])


@app.command()
def take(
    dataset: Annotated[str, typer.Argument(help="a data set with `kind: public`")],
    path: Annotated[Path, typer.Argument(help="your copy: a file, or a folder of reviews")],
) -> None:
    """Have a published data set taken from a copy that you have; it is known by its documents."""
    from posenc.datasets import public
    from posenc.datasets.errors import DatasetError
    from posenc.datasets.raw_file import RawFile
    from posenc.datasets.section import PublicSource
    from posenc.report.links import point

    known = {
        name: (section.source, section.format)
        for name, section in read_params().datasets.items()
        if isinstance(section.source, PublicSource)
    }
    if dataset not in known:
        stop(
            f"{dataset!r} is no data set with `kind: public`: {', '.join(known) or 'there is none'}"
        )
    if not path.exists():
        stop(f"{path}: no such file or folder")
    raw = RawFile(path, instead="name another copy")
    try:
        public.check(raw, *known[dataset], dataset)
    except DatasetError as error:
        stop(str(error))
    with holding(f"take {dataset}"):
        point(public.OWN_COPIES / dataset, str(path.resolve()))
    print(f"{dataset}: taken from {path}, which has the documents that were published")


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
    column: Annotated[str | None, typer.Option(help="of a table: the one with the text")] = None,
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
    column: Annotated[str | None, typer.Option(help="of a table: the one with the text")] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="other texts, which masks are learned from; else another split of TEXT"),
    ] = None,
    name: Annotated[str, typer.Option(help="of the study")] = "survey",
    tokens: Annotated[int, typer.Option(min=4, help="at which texts are cut, at most")] = 512,
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
        stop(f"nothing is written: do what is said above, or leave out {', '.join(refused)}")
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
    """Take a study out; its file and its results go to data/set_aside, and none is deleted."""
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
    print(f"{name} is taken out: its file is {kept} now")
    if count:
        print(f"{count} files of it are in {SET_ASIDE / name}; a study of that name has them back")
    for dataset in left:
        print(f"datasets.{dataset} is of no study now: it stays until you delete it")


@app.command()
def models(
    names: Annotated[
        list[str] | None, typer.Argument(help="keys of `models`, folders, names of the hub")
    ] = None,
    revision: Annotated[str, typer.Option(help="commit, tag or branch of the hub")] = "main",
) -> None:
    """Say what was found of models, and what was compared with the library; by default, fetched."""
    from posenc.api.describing import fetched, looked_at
    from posenc.artifacts.files import ArtifactError
    from posenc.models.files import ModelError

    for name in names if names else read_params().study.models:
        lines = fetched(name)
        if lines is None and names:
            try:
                lines = looked_at(name, revision)
            except (ModelError, ArtifactError) as error:
                stop(str(error))
        print("\n  ".join(lines or [f"{name}: not fetched yet, or trained here"]))


@app.command()
def repin(name: Annotated[str, typer.Argument(help="a key of `datasets`")]) -> None:
    """Take in that a file of yours has changed: writes its checksum where the old one stands."""
    from posenc.artifacts.files import ArtifactError
    from posenc.datasets.errors import DatasetError
    from posenc.study.params import ParamsError
    from posenc.study.repin import write_checksum
    from posenc.study.sources import of_dataset
    from posenc.study.switch import StudyError

    read_params()
    try:
        with holding(f"repin {name}"):
            print(write_checksum(PARAMS, name))
    except (DatasetError, StudyError, ParamsError, ArtifactError) as error:
        stop(str(error))
    for line in of_dataset(read_params(), name):
        stop(line)


@app.command()
def schema(
    verify: Annotated[bool, typer.Option(help="only compare, and fail when it differs")] = False,
) -> None:
    """Write the JSON Schemas of params.yaml and of studies, which editors use for completion."""
    from posenc.artifacts.files import write_text
    from posenc.study.schema import json_schema, study_schema

    for name, builder in (("params", json_schema), ("study", study_schema)):
        path, text = SCHEMAS / f"{name}.schema.json", json.dumps(builder(), indent=1) + "\n"
        if not verify:
            write_text(path, text)
        elif not path.exists() or path.read_text() != text:
            stop(f"{path} is out of date: run `posenc schema`")


@app.command()
def migrate() -> None:
    """Rewrite an older params.yaml as plain YAML, each study as a file of its own."""
    from posenc.artifacts.files import ArtifactError
    from posenc.study.migrate import migrate as rewrite
    from posenc.study.params import ParamsError
    from posenc.study.switch import StudyError

    try:
        with holding("migrate"):
            print("\n".join(rewrite(PARAMS)))
    except (ParamsError, StudyError, ArtifactError) as error:
        stop(str(error))


@app.command()
def conditions(
    names: Annotated[list[str] | None, typer.Argument(help="by default, all")] = None,
) -> None:
    """Say what conditions there are: name, label, and what is done to the model."""
    from posenc.cli.listing import of_conditions
    from posenc.study.layers import Layers
    from posenc.study.switch import StudyError

    params = read_params()
    try:
        print("\n".join(of_conditions(params, Layers(PARAMS), names or [])))
    except StudyError as error:
        stop(str(error))
