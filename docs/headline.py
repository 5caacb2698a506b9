"""Draw docs/images/headline.svg from the record of the study `rotary`: ``python docs/headline.py``.

The numbers that are drawn are listed in the picture's metadata, which a test compares with the
record (tests/unit/test_headline.py).
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from posenc.report import comparison
from posenc.study.params import load

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/images/headline.svg"
TEXTS = ("imdb_fresh", "truthfulqa_local")
ROWS = ("zero_slope", "placebo_heads", "placebo_mean", "zero_closed", "zero_scores_fitted")
COLOURS = {"zero_closed": "#0072B2", "zero_scores_fitted": "#56B4E9"}
GREY = "#666666"


def key(text: str, condition: str) -> str:
    """The key of a recovered share."""
    return f"smollm2.{text}.{condition}.conditions.recovered"


def numbers() -> dict[str, dict]:
    """What is drawn, by key, from the record."""
    record = comparison.all_recorded()["rotary"]
    return {name: record[name] for text in TEXTS for name in (key(text, row) for row in ROWS)}


def draw(found: dict[str, dict]) -> str:
    """The picture, as SVG; the same bytes for the same numbers."""
    labels = load(ROOT / "params.yaml").figures.style.labels
    style = {"svg.hashsalt": "posenc", "font.family": "DejaVu Sans", "font.size": 11}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(9, 3.1), layout="constrained")
        first = None
        for place, text in enumerate(TEXTS):
            axes = figure.add_subplot(1, len(TEXTS), place + 1, sharey=first)
            first = first or axes
            for row, condition in enumerate(ROWS):
                one = found[key(text, condition)]
                colour = COLOURS.get(condition, GREY)
                axes.barh(row, one["value"], color=colour, height=0.62)
                axes.plot([one["low"], one["high"]], [row, row], color="black", lw=1.5)
                axes.text(
                    one["high"] + 0.02, row, f"{100 * one['value']:.0f} %", va="center",
                    bbox={"color": "white", "pad": 1},
                )  # fmt: skip
            axes.set_title(labels[text], fontsize=11)
            axes.set_xlim(0, 1.08)
            axes.set_xticks([0, 0.5, 1], ["without rotation", "", "with rotation"], fontsize=9)
            axes.axvline(1, color="black", lw=0.8)
            axes.set_yticks(range(len(ROWS)), [labels[row] for row in ROWS])
            axes.tick_params(left=False, labelleft=place == 0)
            for side in ("top", "right", "left"):
                axes.spines[side].set_visible(False)
        first.invert_yaxis()
        text = io.StringIO()
        said = json.dumps({name: one["value"] for name, one in found.items()})
        figure.savefig(text, format="svg", metadata={"Date": None, "Description": said})
    return text.getvalue()


def drawn(picture: str) -> dict[str, float]:
    """The numbers that a picture shows."""
    said = re.search(r"<dc:description>(.*?)</dc:description>", picture, re.DOTALL)
    assert said, "no numbers in the picture"
    return json.loads(said[1].replace("&quot;", '"'))


if __name__ == "__main__":
    PICTURE.write_text(draw(numbers()), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: drawn")
