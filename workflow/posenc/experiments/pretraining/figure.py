"""GPT-1's ablation: accuracy of each cell, effect of each factor, layers transferred."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.experiments.pretraining.result import Ablation
from posenc.experiments.results import OverSeeds

ARCHITECTURES = {"transformer": "Transformer", "lstm": "LSTM"}
ROWS = ((True, True), (True, False), (False, True), (False, False))
"""Pre-trained, and with the auxiliary loss; downwards."""
EFFECTS = {
    "pretrained": "pre-training",
    "auxiliary": "auxiliary loss",
    "architecture": "Transformer\nfor LSTM",
}


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw test accuracies in per cent, with intervals over seeds.

    Parameters
    ----------
    measurements : list of dict
        The measurement of pre-training.

    Returns
    -------
    Above, the accuracy of each cell; strokes are single seeds. Beside it, what each factor
    changes, paired by seed: on average over the settings of the other factors, and in GPT-1's
    own setting. Below, the accuracy by the number of blocks that are transferred to the
    Transformer; its dashed line and band are a new Transformer. Then, while pre-training goes on,
    the share of pairs of a text of each label in which the language model rather expects a label's
    word behind the text that has it, whatever the words' prior; dashed lines are other words.
    """
    runs = of_kind(measurements, "pretraining", Ablation)
    measured = common.measured(canvas, runs, "no measurement", 40)
    if not measured:
        return
    result = measured[0].result
    grid = canvas.add_gridspec(2, 2)
    panels = [canvas.add_subplot(grid[place]) for place in range(4)]
    _cells(panels[0], result, style)
    _effects(panels[1], result, style)
    _transfer(panels[2], result, style)
    _zero_shot(panels[3], result, style)
    panels[0].plot([], [], color=common.GREY, marker="|", ms=5, mew=0.8, ls="", label="one seed")
    common.legend_above(canvas, panels, columns=4)


def _cells(axes: Axes, result: Ablation, style: Style) -> None:
    cells = {(c.pretrained, c.auxiliary, c.architecture): c for c in result.cells}
    for index, (architecture, label) in enumerate(ARCHITECTURES.items()):
        for row, setting in enumerate(ROWS):
            place = row + (-0.17, 0.17)[index]
            estimate = cells[(*setting, architecture)].accuracy
            _estimate(axes, estimate, place, style.palette[index], common.MARKERS[index],
                      label if row == 0 else None)  # fmt: skip
    axes.axvline(100 * result.chance, color=common.GREY, ls=":", lw=0.9, label="chance")
    labels = [
        ("pre-trained" if pretrained else "new")
        + ",\n"
        + (f"λ = {result.auxiliary_weight:g}" if auxiliary else "λ = 0")
        for pretrained, auxiliary in ROWS
    ]
    axes.set_yticks(range(len(ROWS)), labels)
    axes.set_ylim(len(ROWS) - 0.5, -0.5)
    axes.set_title("accuracy")
    axes.set_xlabel("test accuracy (%)")
    # Intervals of few seeds can be wider than what is possible.
    axes.set_xlim(max(0, axes.get_xlim()[0]), min(103, axes.get_xlim()[1]))


def _estimate(
    axes: Axes, estimate: OverSeeds, place: float, colour: str, marker: str, label: str | None
) -> None:
    axes.plot([100 * estimate.low, 100 * estimate.high], [place, place], color=colour, lw=1.1)
    axes.plot([100 * value for value in estimate.values], [place] * len(estimate.values),
              color=colour, marker="|", ms=5, mew=0.8, ls="")  # fmt: skip
    axes.plot(100 * estimate.value, place, color=colour, marker=marker, ms=4, ls="", label=label)


def _effects(axes: Axes, result: Ablation, style: Style) -> None:
    looks = {
        "average": (style.palette[2], "D", "mean of settings"),
        "first": (style.palette[4], "^", "GPT-1's setting"),
    }
    for row, entry in enumerate(result.effects):
        estimates = {"average": entry.average, "first": entry.settings[0].difference}
        for place, name in ((row - 0.17, "average"), (row + 0.17, "first")):
            colour, marker, label = looks[name]
            _estimate(axes, estimates[name], place, colour, marker, label if row == 0 else None)
    axes.axvline(0, color=common.GREY, lw=0.8)
    axes.set_yticks(
        range(len(result.effects)),
        [EFFECTS[entry.factor] for entry in result.effects],
    )
    axes.set_ylim(len(result.effects) - 0.5, -0.5)
    axes.set_title("effects, paired by seed")
    axes.set_xlabel("change of accuracy (points)")


def _transfer(axes: Axes, result: Ablation, style: Style) -> None:
    colour = style.palette[0]
    (new,) = (
        c.accuracy
        for c in result.cells
        if (c.pretrained, c.auxiliary, c.architecture) == (False, True, "transformer")
    )
    axes.axhspan(100 * new.low, 100 * new.high, color=common.LIGHT, alpha=0.6, lw=0)
    axes.axhline(100 * new.value, color=common.GREY, ls="--", lw=0.9, label="new Transformer")
    layers = [entry.layers for entry in result.transfer]
    accuracies = [entry.accuracy for entry in result.transfer]
    axes.plot(layers, [100 * e.value for e in accuracies], color=colour, marker="o", ms=4, ls="")
    for layer, estimate in zip(layers, accuracies, strict=True):
        ends = [100 * estimate.low, 100 * estimate.high]
        axes.plot([layer, layer], ends, color=colour, lw=1.1)
    axes.axhline(100 * result.chance, color=common.GREY, ls=":", lw=0.9)
    axes.set_xticks(layers)
    axes.set_xlim(-0.4, max(layers) + 0.4)
    axes.set_ylim(max(0, axes.get_ylim()[0]), min(103, axes.get_ylim()[1]))
    axes.set_title("blocks transferred")
    axes.set_xlabel("blocks and embeddings")
    axes.set_ylabel("test accuracy (%)")


def _zero_shot(axes: Axes, result: Ablation, style: Style) -> None:
    models = {model.architecture: model.zero_shot for model in result.language_models}
    for index, (architecture, label) in enumerate(ARCHITECTURES.items()):
        colour, rows = style.palette[index], models[architecture]
        steps = [row.step for row in rows]
        low, value, high = (
            [100 * getattr(row.words_ranked, end) for row in rows]
            for end in ("low", "value", "high")
        )
        axes.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
        axes.plot(
            steps, value, color=colour, lw=1.2, marker=common.MARKERS[index], ms=3, gid=architecture
        )
        control = [100 * row.control_ranked.value for row in rows]
        axes.plot(steps, control, color=colour, lw=0.7, ls="--", label=f"{label}: other words")
    axes.axhline(100 * result.chance, color=common.GREY, ls=":", lw=0.9)
    axes.set_title("without fine-tuning")
    axes.set_xlabel("steps of pre-training")
    axes.set_ylabel("pairs in order (%)")


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
