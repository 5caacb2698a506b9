"""Whatever a valid edit of the parameters, one run ends with documents that fit it.

Random edits of values, lists, measurements, experiments, figures, conditions and models of the tiny
study. An edit's seed is in the name of its test; ``POSENC_EDITS=60`` makes more of them
than `make test` does.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from posenc.figures.catalogue import DOCUMENTS
from posenc.study import plan
from posenc.study.declared import OPTIONAL
from posenc.study.params import Params, ParamsError, load
from tests.unit.test_typeset import asked_by, defined, unknown_to
from tests.workflow.conftest import Project

EDITS = int(os.environ.get("POSENC_EDITS", "1"))
STUDY = "studies.default"
NUMBERS = "data/studies/default/generated/numbers.tex"
Changes = dict[str, Any]


def values(prefix: str, node: Any) -> Iterator[tuple[str, Any]]:
    """Dotted keys of plain values and of lists."""
    if isinstance(node, dict):
        for key, part in node.items():
            yield from values(f"{prefix}.{key}", part)
    elif not isinstance(node, str | None):
        yield prefix, node


def changed(value: Any, chance: random.Random) -> Any:
    """Another value of the same kind, which need not be allowed."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(0, value + chance.choice((-2, -1, 1, 2)))
    if isinstance(value, float):
        return round(value * chance.choice((0.5, 0.8, 1.25)), 6)
    kept = chance.sample(range(len(value)), chance.randint(1, max(1, len(value) - 1)))
    return [value[index] for index in sorted(kept)]


def of_a_value(params: Params, chance: random.Random) -> Changes:
    """A value or a list of a measurement, an experiment or a figure."""
    study = params.study
    sections = [
        (f"measurements.{name}", getattr(params.measurements, name))
        for name in study.measured
        if hasattr(params.measurements, name)
    ]
    sections += [
        (f"figures.{name}", getattr(params.figures, name)) for name in plan.figures(params)
    ]
    for kind in study.experiments.kinds:
        size = getattr(study.experiments, kind)
        sections.append((f"experiments.{kind}.{size}", getattr(params.experiments, kind)[size]))
    prefix, section = chance.choice(sections)
    candidates = list(values(prefix, section.model_dump(mode="json")))
    if not candidates:
        return {}
    key, value = chance.choice(candidates)
    return {key: changed(value, chance)}


def of_the_study(params: Params, chance: random.Random) -> Changes:
    """What the study measures, trains, draws, evaluates or runs."""
    study = params.study
    measured = [kind for kind in study.measured if kind in OPTIONAL]
    trained = {kind: getattr(study.experiments, kind) for kind in study.experiments.kinds}
    left_out = {*chance.sample(measured, 3), chance.choice([*trained])}
    left_out |= {chance.choice(study.evaluated)}
    fewer: list[Changes] = [
        {
            f"{STUDY}.measurements": [kind for kind in measured if kind not in left_out],
            f"{STUDY}.figures": ["perplexity", "training_loss"],
        },
        {f"{STUDY}.experiments": {k: size for k, size in trained.items() if k not in left_out}},
        {f"{STUDY}.figures": ["perplexity"]},
        {f"{STUDY}.evaluated": [name for name in study.evaluated if name not in left_out]},
        {
            f"{STUDY}.{key}": [name for name in getattr(study, key) if name != "minilm"]
            for key in ("models", "captured", "examined", "pretrained", "finetuned")
        }
        | {f"{STUDY}.experiments": {k: size for k, size in trained.items() if k != "downstream"}},
        {f"{STUDY}.extrapolation": None},
    ]
    return chance.choice(fewer)


def edit(project: Project, chance: random.Random) -> Changes:
    """Make one or two valid edits, and return them."""
    path = project.folder / "params.yaml"
    before, done = path.read_bytes(), {}
    wanted = chance.choice((1, 2))
    while len(done) < wanted:
        kept = path.read_bytes()
        changes = chance.choice((of_a_value, of_the_study))(load(path), chance)
        try:
            project.edit_all(changes)
            load(path)
        except (AssertionError, ParamsError):
            path.write_bytes(kept)  # it changes nothing, or is refused
            continue
        done |= changes
    assert path.read_bytes() != before
    return done


def lacking(project: Project) -> dict[str, set[str]]:
    """The numbers that each shipped document asks for and the study lacks."""
    text = (project.folder / NUMBERS).read_text()
    had = defined(text, "posencestimate") | defined(text, "posencvalue")
    for document in DOCUMENTS:
        assert unknown_to(text, document) == set(), f"{document} does not build"
    return {document: asked_by(document, had) - had for document in DOCUMENTS}


@pytest.mark.parametrize("seed", range(EDITS))
def test_documents_follow_an_edit(finished, tmp_path: Path, seed: int):
    chance = random.Random(seed)
    before = lacking(finished)
    project = finished.copy(tmp_path / "project")
    changes = edit(project, chance)
    print(f"seed {seed}: {changes}")
    project.snakemake()
    assert project.planned() == {}, changes
    for document, keys in lacking(project).items():
        more = keys - before[document]
        # A value or a shortened list takes no number from a text.
        if not any(key.startswith(f"{STUDY}.") for key in changes):
            assert more == set(), (changes, document)
    project.run("posenc", "verify")
