"""What figures share: rows by group, looks of lines, and shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from posenc.artifacts.results import Estimated
from posenc.artifacts.runs import Run
from posenc.drawing import common
from posenc.drawing.section import Style


def label_rows(axes: Axes, names: Sequence[tuple[str, bool]]) -> None:
    """Name the rows on the vertical axis, downwards; headings are bold."""
    labels = [name if is_heading else common.display(name) for name, is_heading in names]
    axes.set_yticks(range(len(names)), labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    for label, (_, is_heading) in zip(axes.get_yticklabels(), names, strict=True):
        label.set_fontweight("bold" if is_heading else "normal")
    for row, (_, is_heading) in enumerate(names):
        if not is_heading:
            axes.axhline(row, color="0.93", lw=0.5, zorder=0)


def share_rows(axes: Axes, names: Sequence[tuple[str, bool]], first: Axes | None) -> Axes:
    """Name the rows of a panel, or let it share those of the first one; return the first."""
    if first is None:
        label_rows(axes, names)
    else:
        axes.tick_params(axis="y", labelleft=False, length=0)
    return first or axes


def series(names: Iterable[str], style: Style) -> dict[str, dict]:
    """The look of a line for each condition; the intact model is dark grey.

    Later lines are thinner, so that both are visible where conditions do the same.
    """
    others = [name for name in names if name != common.INTACT]
    looks = {common.INTACT: {"color": common.GREY, "marker": "o", "ls": "-", "lw": 2.4, "ms": 4}}
    for index, name in enumerate(others):
        cycle, place = divmod(index, len(style.palette))
        looks[name] = {
            "color": style.palette[place],
            "marker": common.MARKERS[(index + 1) % len(common.MARKERS)],
            "ls": ("-", (0, (4, 1.5)), ":")[cycle % 3],
            "lw": max(0.9, 2.2 - 0.2 * index),
            "ms": max(2, 3.8 - 0.25 * index),
        }
    return looks


def curve(axes: Axes, xs: Sequence[float], estimates: Sequence[Estimated], **look) -> None:
    """A line through estimates with their intervals as a band."""
    axes.fill_between(
        xs, [e.low for e in estimates], [e.high for e in estimates],
        color=look["color"], alpha=0.13, lw=0,
    )  # fmt: skip
    axes.plot(xs, [e.value for e in estimates], **look)


def share(
    axes: Axes, estimate: Estimated, height: float, limits: tuple[float, float], colour: str,
    *, marker: str = "o", is_filled: bool = True, label: str | None = None,
) -> None:  # fmt: skip
    """Draw a mark with its interval at a height; off the axis, an arrow beside its number.

    Only filled marks have the number.
    """
    low, high = limits
    look = {"color": colour, "ls": "none", "ms": 3, "mfc": colour if is_filled else "white"}
    is_below = estimate.value < low
    if is_below or estimate.value > high:
        end, inwards = (low, 1) if is_below else (high, -1)
        axes.plot([end], [height], marker="<" if is_below else ">", clip_on=False, **look)
        if is_filled:
            axes.annotate(
                f"{estimate.value:.2f}".replace("-", "−"), (end, height), (5 * inwards, 0),
                textcoords="offset points", va="center", ha="left" if is_below else "right",
                color=colour, fontsize=common.SMALLEST_POINTS, zorder=4,
                bbox={"fc": "white", "ec": "none", "pad": 0.5},
            )  # fmt: skip
        return
    ends = [max(estimate.low, low), min(estimate.high, high)]
    axes.plot(ends, [height, height], color=colour, lw=1)
    axes.plot([estimate.value], [height], marker=marker, mew=0.7, label=label, zorder=3, **look)


def arrows(figure: Canvas) -> dict[str, Line2D]:
    """The legend's entry for shares beyond the axis, where :func:`share` drew any."""
    lines = [line for axes in figure.axes for line in axes.lines]
    if not any(line.get_marker() in ("<", ">") for line in lines):
        return {}
    return {"beyond the axis": Line2D([], [], color=common.GREY, marker="<", ls="none", ms=3)}


def nothing_is_lost(axes: Axes) -> None:
    """Say so where there are no shares."""
    axes.text(
        0.5, 0.5, "nothing is lost here\nwithout positions",
        ha="center", va="center", transform=axes.transAxes,
    )  # fmt: skip


def logarithmic_perplexity(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic vertical axis that holds the values, with round ticks."""
    low, high = min(values) / 1.08, max(values) * 1.08
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    ticks = common.logarithmic_ticks(low, high, 5)
    axes.set_yticks(ticks, [common.plain_number(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color="0.92", lw=0.6)
    axes.set_axisbelow(True)


def panel_title(run: Run) -> str:
    """Model and data set of a panel, on two lines."""
    return f"{common.display(run.model)}\n{common.display(run.dataset)}"


def band_name(edges: list[float], band: int) -> str:
    """A band by its limits in cycles per token; the first and the last have only one."""
    low, high = (f"{limit:.2g}" for limit in edges[band : band + 2])
    if band == 0:
        return f"below {high} / token"
    return f"above {low} / token" if band == len(edges) - 2 else f"{low}\u2013{high} / token"
