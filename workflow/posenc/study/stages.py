"""The stages of ``dvc.yaml`` that a study needs.

DVC resolves its templates before anything runs and cannot leave out an input, so the stages of
figures and documents that a study does not have are taken out of the file, and the lists of those
that it has are written again. The stages of measurements follow from their declarations and are
written whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from posenc.figures.catalogue import DOCUMENTS, FIGURES
from posenc.measurements.declaration import (
    ACTIVATIONS,
    DATASETS,
    MASKS,
    MATRICES,
    TOKENIZER,
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
BEGIN = "  # Measurements, by their declarations: `posenc stages` writes them whole.\n"
END = "  # The end of what `posenc stages` writes whole.\n\n"
LIST = re.compile(
    r"(?m)(?P<head>^    foreach:\n)(?:^      \w+: .+\n)+"
    rf"|(?:^      - {re.escape(FOLDER)}/(?:figures/.+|generated/tables/\w+\.tex)\n)+"
)
"""The names that a template is made for, or the figures and tables that a document shows."""
PLACES = {
    ACTIVATIONS: f"{FOLDER}/activations/${{item}}",
    TOKENS: f"{FOLDER}/tokens/${{item}}",
    MASKS: f"{FOLDER}/masks/${{item}}",
    DATASETS: "data/documents",
    TOKENIZER: "data/tokenizers/${item}",
    WEIGHTS: "data/models/${item}",
}
"""What a measurement may read, and where DVC finds it."""
GIVEN = frozenset({*PLACES, *MEASUREMENTS})
"""What a measurement can read without a rule and a stage of its own."""
PATH = re.compile(
    rf"^ +- {re.escape(FOLDER)}/(?:(?:measurements|trials)/(?P<measurement>\w+)"
    r"|texts/\$\{item\}/(?P<text>\w+)\."
    rf"|figures/(?P<figure>\w+)\.|(?P<document>{'|'.join(DOCUMENTS)})\.pdf)"
)
LISTED = ("pretrained", "trained", "schemes", "corpora", "matrices", "calibration")
"""Keys that a study may leave out; a template that reads one is then taken out as well."""


class StagesError(ValueError):
    """``dvc.yaml`` does not fit the active study."""


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
    """By stage, the names that its template is made for, or that it reads, each with its line."""
    drawn = {name: FIGURES[name].measurements for name in figures(params)}
    places = {name: list(map(_place, kinds)) for name, kinds in drawn.items()}
    return {
        "figure": {n: f"      {n}: {of[0]}\n" for n, of in places.items() if len(of) == 1},
        "figure_of_two": {
            n: f"      {n}: [{of[0]}, {of[1]}]\n" for n, of in places.items() if len(of) == 2
        },
        **{
            document: {
                file: f"      - {FOLDER}/{file}\n"
                for file in (
                    *(
                        f"figures/{n}.{form}"
                        for n in shown["figures"]
                        if n in drawn
                        for form in ("pdf", "json")
                    ),
                    *(f"generated/tables/{n}.tex" for n in shown["tables"]),
                )
                if document in params.study.documents
            }
            for document, shown in DOCUMENTS.items()
        },
    }


def _place(kind: str) -> str:
    """Where the files that a figure is made of are, below the study's folder."""
    return kind if kind == "training" else place_of(kind)


def _measurements(params: Params) -> str:
    """The stages of the study's measurements, but for those that have a rule of their own."""
    made = []
    for name in chosen(params, MEASUREMENTS):
        what = MEASUREMENTS[name]
        if GIVEN.issuperset(what.reads):
            made.append(_stage(name, what, what.subjects))
        elif MATRICES in what.reads:
            for subjects in (what.subjects, MATRICES):
                if getattr(params.study, subjects):
                    made.append(_stage(name, what, subjects))
    return "".join(made)


def _stage(name: str, what: Measurement, subjects: str) -> str:
    """The stage of a measurement for each model of a list of the study, or for the study."""
    each = ["${item}"] if what.of else []
    own = [name, *each]
    output = f"{FOLDER}/{place_of(name, *each)}"
    target = f"{FOLDER}/{place_of(name, *map(_first, what.of))}"
    options = f"--allowed-rules {name}"
    begin = ""
    if what.keeps_runs:
        begin, options = f"posenc reuse {output} && ", f"{options} --forcerun {name}"
    # A table that is given as a file is no dependency: the configuration has its checksum.
    reads = [part for part in what.reads if part != MATRICES] if subjects != MATRICES else []
    deps = [
        *(PLACES.get(part, f"{FOLDER}/measurements/{part}") for part in reads),
        f"data/config/{'/'.join(own)}.json",
        f"data/config/code/posenc.measurements.{name}.json",
    ]
    lines = [
        f"cmd: {begin}snakemake --cores all {options} -- {target}",
        "deps:",
        *(f"  - {dep}" for dep in deps),
        "outs:",
        f"  - {output}",
    ]
    title = name if subjects == what.subjects else f"{name}_of_{subjects}"
    if each:
        lines = [f"foreach: {_reads(subjects)}", "do:", *(f"  {line}" for line in lines)]
    return "\n".join([f"  {title}:", *(f"    {line}" for line in lines)]) + "\n\n"


def _first(part: str) -> str:
    """What a stage's command names, of all that one of its files can be of."""
    return "${item}" if part == "model" else f"${{study.{part}s[0]}}"


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
        Its measurements and lists are what the study has; all else is as it was, comments
        included.

    Raises
    ------
    StagesError
        If a comment is lost that measurements are written between.
    """
    lists = _lists(params)
    absent = [_reads(key) for key in LISTED if not getattr(params.study, key)]

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

    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise StagesError(
            f"{FILE} has lost a comment that `posenc stages` writes measurements between: take "
            f"{FILE} back from git, then run `posenc stages`"
        )
    return STAGE.sub(kept, before) + begin + _measurements(params) + end + STAGE.sub(kept, after)


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
