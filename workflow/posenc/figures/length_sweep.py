"""Perplexity against the length that documents are cut to."""

from __future__ import annotations

from matplotlib.figure import Figure as Canvas

from posenc.figures import common, evaluated
from posenc.figures.section import Figure, Style


@common.drawing
def draw(made: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw perplexity against the length of documents, with a panel for each data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of evaluated conditions.

    Returns
    -------
    A line with its interval for each condition of the first decoder.
    """
    measured, reasons = evaluated.decoders(measurements)
    swept = {
        dataset: rows
        for dataset, runs in evaluated.by_dataset(measured).items()
        for rows in [_rows(runs[0])]
        if rows
    }
    if not swept:
        reasons = reasons if not measured else ["the study has no sweep of the length"]
        common.not_run(made.add_subplot(), reasons or ["the study has no runs"], 60)
        return
    looks = evaluated.series(
        common.unique(row["condition"] for rows in swept.values() for row in rows), style
    )
    for place, (dataset, rows) in enumerate(swept.items()):
        axes = made.add_subplot(1, len(swept), place + 1)
        axes.set_title(f"{common.display(measured[0]['run']['model'])}\n{common.display(dataset)}")
        for condition in common.unique(row["condition"] for row in rows):
            points = [row for row in rows if row["condition"] == condition]
            evaluated.curve(
                axes, [row["value"] for row in points], [row["perplexity"] for row in points],
                label=common.display(condition), **looks[condition],
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        values = common.unique(row["value"] for row in rows)
        axes.set_xticks(values, [common.plain_number(value) for value in values])
        ends = [row["perplexity"][end] for row in rows for end in ("low", "high")]
        evaluated.logarithmic_perplexity(axes, ends)
        if place == 0:
            axes.set_ylabel("perplexity")
    made.supxlabel("length that documents are cut to (tokens)", fontsize=style.font_size)
    common.legend_above(made, made.axes, columns=5)


def _rows(measurement: dict) -> list[dict]:
    return [
        row
        for sweep in measurement["sweeps"].values()
        if sweep["key"] == "tokens"
        for row in sweep["rows"]
    ]


main = common.command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
