"""Commands about params.yaml: what it has, and what is written to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from posenc.cli.common import PARAMS, OtherStudy, app, holding, read_params, stop, warn

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
    from posenc.study.config_files import is_edited, materialize

    tidy(params, warn)
    materialize(params)
    kept.keep_all(contents := Contents(), params.study.name)
    kept.restore_all(contents, params.study.name, warn)
    link(params.study.name)
    # DVC notes what its first stage read only after the stage has ended.
    if is_edited(read_params()):
        stop("params.yaml, the code or a text changed meanwhile: start again")


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
    from posenc.architectures.verification import fetched

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
    """Use your own copy of a published data set; it is verified by its documents."""
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
def models(
    names: Annotated[
        list[str] | None, typer.Argument(help="keys of `models`, folders, names of the hub")
    ] = None,
    revision: Annotated[str, typer.Option(help="commit, tag or branch of the hub")] = "main",
) -> None:
    """Show what was discovered about models and compared with transformers; by default, fetched."""
    from posenc.architectures.verification import fetched
    from posenc.artifacts.files import ArtifactError
    from posenc.models.files import ModelError

    for name in names if names else read_params().study.models:
        lines = fetched(name)
        if lines is None and names:
            from posenc.api.describing import looked_at

            try:
                lines = looked_at(name, revision)
            except (ModelError, ArtifactError) as error:
                stop(str(error))
        print("\n  ".join(lines or [f"{name}: not fetched yet, or trained here"]))


@app.command()
def repin(name: Annotated[str, typer.Argument(help="a key of `datasets`")]) -> None:
    """Accept a file of yours that has changed: its checksum replaces the old one."""
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
