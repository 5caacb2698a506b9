"""Training and validation loss of the models that the workflow trains."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator

from posenc.artifacts.files import (
    ArtifactError,
    DamagedError,
    read_sealed,
    sha256_file,
)
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style

COLUMNS = ("step", "tokens", "training_loss", "validation_loss")
THIN = 0.7
"""Width of the lines of training losses, in points."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw loss against tokens seen, a colour for each model.

    Parameters
    ----------
    measurements : list of dict
        Each ``{"summary": ..., "loss": rows}``, as ``read_training`` gives them.

    Returns
    -------
    A thin line for the training loss and joined points for the validation loss.
    """
    axes = canvas.add_subplot()
    if not measurements:
        common.not_run(axes, ["the study trains no model"], 40)
        return
    for index, training in enumerate(measurements):
        colour = style.palette[index % len(style.palette)]
        name = common.display(training["summary"]["model"])
        rows = training["loss"]
        axes.plot(
            [row["tokens"] for row in rows], [row["training_loss"] for row in rows],
            color=colour, lw=THIN, alpha=0.6,
        )  # fmt: skip
        validated = [row for row in rows if row["validation_loss"] is not None]
        axes.plot(
            [row["tokens"] for row in validated], [row["validation_loss"] for row in validated],
            color=colour, marker="o", ms=3, label=name,
        )  # fmt: skip
    axes.plot([], [], color=common.GREY, lw=THIN, label="training")
    axes.plot([], [], color=common.GREY, marker="o", ms=3, label="validation")
    axes.set_xlabel("tokens seen")
    axes.set_ylabel("loss (nats per token)")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: common.plain_number(value)))
    common.legend_above(canvas, [axes], columns=2)


def read_training(paths: Sequence[Path]) -> list[dict]:
    """Read each model's ``summary.json`` and the ``loss.csv`` beside it.

    Parameters
    ----------
    paths : sequence of path
        Both files of every model, in any order.

    Returns
    -------
    list of dict
        ``{"summary": ..., "loss": rows}`` in order of the summaries; a row maps each column to a
        float, or to None where the cell is empty.

    Raises
    ------
    ArtifactError
        If a file lacks its partner, or is not what its name says.
    """
    summaries = {path.parent: path for path in map(Path, paths) if path.name == "summary.json"}
    losses = {path.parent: path for path in map(Path, paths) if path.name == "loss.csv"}
    for folder in sorted(summaries.keys() ^ losses.keys()):
        raise ArtifactError(f"{folder}: give both summary.json and loss.csv")
    trainings = []
    for folder, path in summaries.items():
        summary, loss = read_sealed(path), losses[folder]
        if summary["curve"]["sha256"] != sha256_file(loss):
            raise DamagedError(loss, f"{loss} does not match its checksum in {path}")
        trainings.append({"summary": summary, "loss": _read_loss(loss)})
    return trainings


def _read_loss(path: Path) -> list[dict[str, float | None]]:
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ArtifactError(f"{path} does not have the columns {', '.join(COLUMNS)}")
        return [
            {key: float(value) if value else None for key, value in row.items()} for row in reader
        ]


main = command(draw, Figure, read_training)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
