"""The stages of ``dvc.yaml`` that a study needs.

DVC resolves its templates before anything runs and cannot leave out an input, so the stages of
measurements, figures and documents that a study does not have are taken out of the file. Stages of
one shape are one template over a list of names, which is written again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from posenc.figures.catalogue import DOCUMENTS, FIGURES
from posenc.measurements.declaration import (
    CELL,
    MASKS,
    MATRICES,
    MODEL,
    TOKENS,
    WEIGHTS,
    Measurement,
)
from posenc.study.declared import EXPERIMENTS, MEASUREMENTS, OPTIONAL, place_of
from posenc.study.params import Params
from posenc.study.plan import chosen, figures

FILE = Path("dvc.yaml")
STAGE = re.compile(r"(?m)(?:^  #.*\n)*^  (?P<name>\w+):\n(?:^    .*\n)*\n?")
"""A stage with the comment above it."""
FOLDER = "data/studies/${study.name}"
LIST = re.compile(
    r"(?m)(?P<head>^(?:      measurement|    foreach):\n)"
    r"(?:(?:^        - \w+\n)+|(?:^      \w+: .+\n)+)"
    rf"|(?:^      - {re.escape(FOLDER)}/figures/.+\n)+"
)
"""The names that a template is made for, or the figures that the slides show."""
PATH = re.compile(
    rf"^ +- {re.escape(FOLDER)}/(?:(?:measurements|trials)/(?P<measurement>\w+)"
    r"|texts/\$\{item\}/(?P<text>\w+)\."
    r"|figures/(?P<figure>\w+)\.|(?P<document>paper|slides)\.pdf)"
)
LISTED = ("pretrained", "trained", "schemes", "corpora", "matrices", "calibration")
"""Keys that a study may leave out; a template that reads one is then taken out as well."""
OF_MEASUREMENTS = ("examined",)
"""The same, of keys that measurements alone read, which a study may have and not choose."""


SHAPES = {
    "of_weights": (MODEL, (WEIGHTS,), "captured"),
    "of_tokens": (CELL, (TOKENS, WEIGHTS), "models"),
    "of_masks": (CELL, (TOKENS, WEIGHTS, MASKS), "models"),
}
"""By template, what its measurements are of, what they read, and whose they are."""


class StagesError(ValueError):
    """``dvc.yaml`` does not fit the active study."""


def _shape(what: Measurement) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    return what.of, what.reads, what.subjects


def _reads(key: str) -> str:
    """How a template reads a list of the active study."""
    return f"${{study.{key}}}"


def _is_lacking(line: str, params: Params) -> bool:
    """Whether a line names a file that the active study does not have."""
    found = PATH.match(line)
    if found is None:
        return False
    study = params.study
    if (name := found["measurement"]) is not None:
        return name in (*OPTIONAL, *EXPERIMENTS) and name not in study.measured
    if (name := found["figure"]) is not None:
        return name not in figures(params)
    if (name := found["text"]) is not None:
        return name not in study.texts
    return found["document"] not in study.documents


def _lists(params: Params) -> dict[str, dict[str, str]]:
    """By stage, the names that its template is made for, or that it reads, each with its lines."""
    measured = {name: MEASUREMENTS[name] for name in chosen(params, MEASUREMENTS)}
    of_tables = [name for name, what in measured.items() if MATRICES in what.reads]
    matrix = {
        "of_tables": of_tables,
        "of_matrices": of_tables,
        "of_activations": [name for name, what in measured.items() if what.bundled],
        **{
            stage: [name for name, what in measured.items() if shape == _shape(what)]
            for stage, shape in SHAPES.items()
        },
    }
    drawn = {name: FIGURES[name].measurements for name in figures(params)}
    places = {name: list(map(_place, kinds)) for name, kinds in drawn.items()}
    shown = DOCUMENTS["slides"]["figures"] if "slides" in params.study.documents else []
    return {
        **{
            stage: {name: f"        - {name}\n" for name in names}
            for stage, names in matrix.items()
        },
        "figure": {n: f"      {n}: {of[0]}\n" for n, of in places.items() if len(of) == 1},
        "figure_of_two": {
            n: f"      {n}: [{of[0]}, {of[1]}]\n" for n, of in places.items() if len(of) == 2
        },
        "slides": {
            n: "".join(f"      - {FOLDER}/figures/{n}.{form}\n" for form in ("pdf", "json"))
            for n in shown
            if n in drawn
        },
    }


def _place(kind: str) -> str:
    """Where the files that a figure is made of are, below the study's folder."""
    return kind if kind == "training" else place_of(kind)


def needed(text: str, params: Params) -> str:
    """``dvc.yaml`` without the stages and inputs that the active study does not have.

    Parameters
    ----------
    text
        The whole file, or one that fewer stages are left in.
    params
        The parameters.

    Returns
    -------
    str
        Its lists hold what the study has; all else is as it was, comments included.
    """
    lists = _lists(params)

    absent = [_reads(key) for key in (*LISTED, *OF_MEASUREMENTS) if not getattr(params.study, key)]

    def kept(match: re.Match[str]) -> str:
        if any(reading in match[0] for reading in absent):
            return ""
        if (names := lists.get(match["name"])) is not None:
            written = "".join(names.values())
            return LIST.sub(lambda found: (found["head"] or "") + written, match[0] * bool(names))
        inputs, outs, outputs = match[0].partition("outs:\n")
        if any(_is_lacking(line, params) for line in outputs.splitlines()):
            return ""
        lines = inputs.splitlines(keepends=True)
        return "".join(line for line in lines if not _is_lacking(line, params)) + outs + outputs

    return STAGE.sub(kept, text)


def check(params: Params) -> None:
    """Compare ``dvc.yaml``, if there is one, with the active study.

    Raises
    ------
    StagesError
        If it has a stage that the study does not need, or lacks one.
    """
    if not FILE.exists():
        return
    text = FILE.read_text(encoding="utf-8")
    if needed(text, params) != text:
        raise StagesError(
            f"{FILE} has other stages than study {params.study.name!r} needs: run `posenc stages`"
        )
    study = params.study
    present = {match["name"] for match in STAGE.finditer(text)}
    listed = {name for stage in present for name in _lists(params).get(stage, ())}
    for key in LISTED:
        if getattr(study, key) and _reads(key) not in text:
            raise StagesError(
                f"{FILE} has no stage of {key}, which study {study.name!r} has: take {FILE} back "
                f"from git, then run `posenc stages`"
            )
    made: dict[str, tuple[Sequence[str], str]] = {
        "measurements/": (
            [n for n in study.measured if n in (*OPTIONAL, *EXPERIMENTS)],
            r"[/.\n]",
        ),
        "figures/": (figures(params), r"\.pdf"),
        "": (study.documents, r"\.pdf"),
    }
    for place, (names, end) in made.items():
        for name in names:
            if re.search(rf"{re.escape(FOLDER)}/{place}{name}{end}", text) or name in listed:
                continue
            raise StagesError(
                f"{FILE} has no stage of {place}{name}, which study {study.name!r} has: take "
                f"{FILE} back from git, then run `posenc stages`"
            )
