"""A survey as the file of a study: many models, all else equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from posenc.conditions.positions import ROTATION, TABLE
from posenc.datasets.look import SPLITS, Look
from posenc.datasets.section import SPLITS as OF_FORMAT
from posenc.study import writing
from posenc.study.new import HEAD, check_name, dataset_of, definitions, looked_at, word
from posenc.study.params import load
from posenc.study.switch import StudyError

MOST_DOCUMENTS = 200
"""Documents that masks are learned from, at most."""
CONDITIONS = {
    TABLE: ("zero_closed", "placebo_heads"),
    ROTATION: ("zero_closed", "placebo_heads", "first_order", "first_order_heads"),
}
"""Beside those with and without positions; each placebo follows its counterpart."""
FIGURES = {TABLE: "recovered_share", ROTATION: "rotary_masks"}
BY_SIZE = "recovered_by_size"
STUDY = """\
# Written by `posenc survey`. Text, length (max_tokens) and activations.precision are the same for
# all models.
asks: What do masks recover of position, by model?
models: [{models}]
pretrained: [{models}]
captured: []
datasets: [{name}]
conditions: [intact, zero]
# The mask in closed form, rotation to first order (of rotary models alone), and their placebos.
evaluated: [{evaluated}]
# The data set whose calibration documents both are computed from.
calibration: {calibration}
# It counts parameters. How many documents are evaluated: measurements.conditions.documents.
measurements: [savings]
parameters: {{savings: {{documents: 2, tokens: 8, offsets: [1]}}}}
figures: [{figures}]
"""


@dataclass(frozen=True)
class Texts:
    """What a survey reads.

    Attributes
    ----------
    blocks
        Entries of ``datasets``.
    calibration
        The data set that masks are learned from.
    said
        What the texts are, in lines.
    """

    blocks: list[str]
    calibration: str
    said: list[str]


def texts_of(
    path: Path, name: str, text: Path, column: str | None, calibration: Path | None
) -> Texts:
    """Read the text that models are evaluated on, and the one that masks are learned from.

    Parameters
    ----------
    path
        ``params.yaml``.
    name
        Of the study, and of the data set.
    text, column
        As for :func:`posenc.study.new.write_study`.
    calibration
        A file or folder of other texts. Without it, masks are learned from the largest split of
        ``text`` that is not evaluated.

    Raises
    ------
    DatasetError
        If a text cannot be read.
    StudyError
        If the name is invalid or taken, or a text is missing, too small or evaluated.
    """
    params, other = load(path), f"{name}_calibration"
    check_name(params, name, [name] if calibration is None else [name, other])
    looked = looked_at(text, column)
    block, said = dataset_of(name, text, column, looked)
    split, _ = looked.largest_split
    share = params.measurements.conditions.calibration_share
    if calibration is None:
        splits = [
            candidate for candidate in SPLITS if candidate != split and looked.documents[candidate]
        ]
        if not splits:
            raise StudyError(
                f"{text} has one split, {split!r}, and masks are learned from text that is not "
                f"evaluated: name some as --calibration FILE, or give rows a column `split`"
            )
        learned = max(splits, key=lambda candidate: looked.documents[candidate])
        block += _calibration(text, looked, learned, share)
        return Texts([block], name, said)
    if calibration.exists() and calibration.samefile(text):
        raise StudyError(
            f"--calibration {calibration} is the text that is evaluated: masks are learned from "
            f"another one"
        )
    other_look = looked_at(calibration, column)
    second, told = dataset_of(other, calibration, column, other_look)
    learned, _ = other_look.largest_split
    unread = next(
        (candidate for candidate in OF_FORMAT[other_look.format] if candidate != learned), None
    )
    if unread is None:
        raise StudyError(
            f"--calibration {calibration} is read as format: {other_look.format}, which has one "
            f"split: give the texts alone, one in a line"
        )
    # A data set has to name a split for evaluation, though this one is not evaluated.
    second = second.replace(f"{{split: {learned},", f"{{split: {unread},")
    second += _calibration(calibration, other_look, learned, share)
    return Texts([block, second], other, [*said, told[0]])


def _calibration(text: Path, looked: Look, split: str, share: float) -> str:
    """The line of a data set that says what masks are learned from."""
    count = min(looked.documents[split], MOST_DOCUMENTS)
    if not 0 < round(share * count) < count:
        raise StudyError(
            f"{text} has too few documents ({count}) in the split {split!r} to learn masks from "
            f"some and choose by others: give it more text"
        )
    return f"    calibration: {{split: {split}, documents: {count}, seed: 1}}\n"


def write_survey(
    path: Path, name: str, texts: Texts, entries: Mapping[str, str], positions: Mapping[str, str]
) -> None:
    """Write the file of a study of many models, and nothing else.

    Parameters
    ----------
    path
        ``params.yaml``.
    name
        Of the study.
    texts
        What it reads.
    entries
        Lines of each model, by its key.
    positions
        How positions enter each: by a table or a rotation.

    Raises
    ------
    ParamsError
        If a name is taken by the workflow, or a condition of :data:`CONDITIONS` is not there.
    """
    kinds = [kind for kind in CONDITIONS if kind in positions.values()]
    block = STUDY.format(
        name=word(name),
        models=", ".join(map(word, entries)),
        calibration=word(texts.calibration),
        evaluated=", ".join(
            dict.fromkeys(condition for kind in kinds for condition in CONDITIONS[kind])
        ),
        figures=", ".join([*(FIGURES[kind] for kind in kinds), BY_SIZE]),
    )
    defined = {"datasets": texts.blocks, "models": list(entries.values())}
    writing.create(path, name, f"{HEAD}{block}{definitions(defined)}")
