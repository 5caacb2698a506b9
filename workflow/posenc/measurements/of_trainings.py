"""What measurements that train share: each training is evaluated on every data set of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from posenc.artifacts.results import NotMeasured, Result
from posenc.measurements.declaration import Measurement
from posenc.measurements.frame import seal
from posenc.tokens.tokenized import Tokens


class Cell(NamedTuple):
    """What is evaluated on one data set.

    Attributes
    ----------
    path, of
        The file of its measurement, and what is measured.
    text
        Its tokens.
    documents
        Token ids of those that are evaluated.
    """

    path: Path
    of: dict[str, str]
    text: Tokens
    documents: list[list[int]]


def partial_of(output: Path, measurement: Measurement, model: str) -> Path:
    """Folder of trainings that are done or under way.

    It lies apart from the output, which a workflow manager removes before a job.

    Parameters
    ----------
    output
        Folder of the model's measurements.
    measurement, model
        Which it is, and the model's name.
    """
    return output.parents[1].with_name("captures") / f"{measurement.name}.{model}"


def seal_each(
    measurement: Measurement,
    evaluated: Sequence[Cell],
    results: Sequence[Result | NotMeasured],
    parameters: BaseModel,
    inputs: Mapping[str, Any],
) -> None:
    """Write the measurement of each data set.

    Parameters
    ----------
    measurement, parameters
        Which it is, and its parameters.
    evaluated, results
        Data sets, and what is measured on each.
    inputs
        Checksums of all that is read beside a data set's own tokens.
    """
    for cell, result in zip(evaluated, results, strict=True):
        made_of = {"tokens": cell.text.digest, **inputs}
        seal(cell.path, measurement, cell.of, result, parameters, made_of)
