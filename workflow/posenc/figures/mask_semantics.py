"""What one line of user code does to attention under each semantics: patterns of one head."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from posenc.conditions import profiles
from posenc.conditions import semantics as rows
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Style
from posenc.figures.parameters import LINEAR, MaskSemantics
from posenc.metrics.patterns import softmax

PER_ROW = 6
TITLES = {"none": "no mask", "per_query": "for each query", "alibi": "ALiBi"}
"""Of patterns that are not those of a semantics."""
SCALE = 1.5
"""Standard deviation of the random scores."""
VERSIONS = ("none", *LINEAR)
SLIDE_TOKENS = 8


@common.drawing
def draw(canvas: Canvas, measurements: list, figure: MaskSemantics, style: Style) -> None:
    """Draw the attention pattern of a head under each semantics of the same linear mask.

    Parameters
    ----------
    measurements : list
        Not read: patterns follow from the definitions alone.

    Returns
    -------
    Two patterns for each semantics, queries downwards and keys to the right: of scores that are all
    zero, and of one random matrix of scores. Above the diagonal lies the future.
    """
    scores = {
        "scores\nall zero": np.zeros((figure.tokens, figure.tokens)),
        "scores\nrandom": np.random.default_rng(figure.seed).normal(
            scale=SCALE, size=(figure.tokens, figure.tokens)
        ),
    }
    by_name = changes(figure.tokens, figure.floor, figure.slope)
    blocks = -(-len(by_name) // PER_ROW)
    layout = canvas.add_gridspec(blocks * len(scores), PER_ROW)
    image = None
    for place, (name, change) in enumerate(by_name.items()):
        block, column = divmod(place, PER_ROW)
        for line, (label, z) in enumerate(scores.items()):
            axes = canvas.add_subplot(layout[block * len(scores) + line, column])
            image = _draw_pattern(axes, pattern(z, change))
            if line == 0:
                axes.set_title(common.title(canvas, TITLES.get(name, name), PER_ROW))
            if column == 0:
                axes.set_ylabel(label)
    bar = canvas.colorbar(image, ax=canvas.axes, location="right", fraction=0.03, pad=0.01)
    bar.set_ticks([0, 0.05, 0.2, 0.5, 1], labels=["0", "0.05", "0.2", "0.5", "1"])
    bar.set_label("attention")
    bar.outline.set_linewidth(0.4)


def changes(tokens: int, floor: float, slope: float) -> dict[str, rows.Change]:
    """What each semantics does to a causal model's attention, by name."""
    document = profiles.Document(tokens)
    along = profiles.Document(tokens, per_query=True)
    linear = profiles.linear(document, floor=floor)  # [1, tokens]
    by_name = {"none": rows.Change()}
    for name in rows.semantics.functions:
        by_name[name] = rows.semantics.functions[name](linear, True)
    by_name["per_query"] = rows.log_mask(profiles.linear(along, floor=floor), True)
    places = profiles.Places.of(tokens)
    by_name["alibi"] = rows.additive(profiles.alibi(places, slope=slope))
    return by_name


def pattern(z: NDArray[np.float64], change: rows.Change) -> NDArray[np.float64]:
    """Attention of a causal head, [tokens, tokens].

    Parameters
    ----------
    z
        [tokens, tokens]: scaled scores.
    change
        What a mask does.

    Returns
    -------
    Softmax over keys of the changed scores, times the factor of the pattern where there is one.
    """
    scores = np.array(z, np.float64)
    if change.score_factor is not None:
        scores = scores * change.score_factor
    if change.bias is not None:
        # As in the library: beside the lowest number of float32, a score has no weight.
        scores = (scores.astype(np.float32) + np.float32(change.bias)).astype(np.float64)
    weights = softmax(scores, causal=not change.sees_future)
    return weights if change.pattern_factor is None else weights * change.pattern_factor


def _draw_pattern(axes: Axes, values: NDArray[np.float64]):
    tokens = len(values)
    image = axes.imshow(
        values, cmap="Blues", norm=PowerNorm(0.5, 0, 1), interpolation="nearest", aspect="equal"
    )
    # The stairs between past and future.
    steps = np.arange(tokens + 1) - 0.5
    axes.step(steps, steps, where="post", color=common.GREY, lw=0.5)
    axes.set_xlim(-0.5, tokens - 0.5)
    axes.set_ylim(tokens - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(True)
    axes.spines[:].set_color("0.6")
    axes.spines[:].set_linewidth(0.4)
    return image


@common.slide(5.6, 1.06)
def for_slides(canvas: Canvas, measurements: list, style: Style) -> None:
    """Draw the patterns of equal scores that versions of the library made, in their order."""
    by_name = changes(SLIDE_TOKENS, floor=0.1, slope=0.0)
    for axes, name in zip(canvas.subplots(1, len(VERSIONS)), VERSIONS, strict=True):
        _draw_pattern(axes, pattern(np.zeros((SLIDE_TOKENS, SLIDE_TOKENS)), by_name[name]))


main = command(draw, MaskSemantics, for_slides=for_slides)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
