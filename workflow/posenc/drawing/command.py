"""Command lines of figures: inputs are read, a figure is drawn, and its files say what it shows."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.command import read_section
from posenc.artifacts.files import (
    ArtifactError,
    read_sealed,
    sha256_file,
    unbundled,
    write_sealed,
)
from posenc.artifacts.precision import note, precisions
from posenc.artifacts.provenance import versions
from posenc.drawing.common import SMALLEST_POINTS, save
from posenc.drawing.section import Figure, Style


def read_measurements(paths: Sequence[Path]) -> list[dict]:
    """Read measurements.

    Raises
    ------
    DamagedError
        If a file was altered.
    ArtifactError
        If a file is not a measurement.
    """
    measurements: list[dict] = []
    for path in paths:
        value = read_sealed(path)
        if not all(
            {"run", "status", "measurement"} <= measurement.keys()
            for measurement in unbundled(value)
        ):
            raise ArtifactError(f"{path} is not a measurement; delete it and rerun")
        measurements += map(dict, unbundled(value))
    return measurements


def say_precision(figure: Canvas, measurements: Sequence[Any], style: Style) -> None:
    """Say below a figure what was computed in bfloat16, and how far that is from float32."""
    line = note(p for m in measurements if isinstance(m, dict) for p in precisions(m))
    if line:
        # Below the label that panels share, if there is one; the panels keep their size.
        label = figure.get_supxlabel()
        size = style.font_size if label else SMALLEST_POINTS
        text = textwrap.fill(line, int(figure.get_figwidth() * 72 / (0.55 * size)))
        figure.supxlabel(f"{label}\n{text}" if label else text, fontsize=size)
        lines = text.count("\n") + (1 if label else 2)
        figure.set_figheight(figure.get_figheight() + 1.3 * size * lines / 72)


def command(
    draw: Callable[[list, Any, Style], Canvas],
    section: type[Figure],
    read: Callable[[Sequence[Path]], list] = read_measurements,
    for_slides: Callable[[list, Style], Canvas] | None = None,
) -> Callable[..., None]:
    """Make a figure's command line.

    Parameters
    ----------
    draw : callable
        ``draw(measurements, figure, style)``.
    section : type
        The figure's section of params.yaml.
    read : callable
        What reads the inputs.
    for_slides : callable, optional
        ``for_slides(measurements, style)``: what slides show of it, the second page of the PDF.

    Returns
    -------
    callable
        For ``posenc.artifacts.command.run``.
    """

    def main(
        config: Annotated[Path, typer.Option(help="The figure's section, as JSON.")],
        style: Annotated[Path, typer.Option(help="The shared style, as JSON.")],
        output: Annotated[list[Path], typer.Option(help="A .pdf or .svg file; repeatable.")],
        inputs: Annotated[list[Path] | None, typer.Argument(metavar="INPUT...")] = None,
    ) -> None:
        shared = read_section(style, Style)
        measurements = read(inputs or [])
        canvas = draw(measurements, read_section(config, section), shared)
        say_precision(canvas, measurements, shared)
        save(canvas, output, shared, for_slides(measurements, shared) if for_slides else None)
        # What the figure is made of, and the checksums that its files should have later.
        write_sealed(
            output[0].with_suffix(".json"),
            {
                "files": {path.name: sha256_file(path) for path in output},
                # Without checksums: a document is not rebuilt when its figure stays the same.
                "inputs": [str(path) for path in inputs or []],
                "versions": versions("matplotlib"),
            },
        )

    main.__doc__ = (draw.__doc__ or "").split("\n")[0]
    return main
