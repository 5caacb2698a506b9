"""Draw docs/images/headline.svg from the record of the study `headline`.

``python docs/headline.py`` does; with a FILE.svg it draws what was made here (`make headline`) into
that. The numbers that are drawn are listed in the picture's metadata, which a test compares with
the record (tests/unit/test_headline.py).
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from posenc.artifacts.files import read_json, write_text
from posenc.report import comparison
from posenc.study.params import load

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/images/headline.svg"
STUDY = "headline"
TEXTS = {"imdb_public": "IMDB", "truthfulqa_public": "TruthfulQA"}
ROWS = (
    "zero_slope",
    "placebo_heads",
    "placebo_mean",
    "zero_closed",
    "first_order_heads",
    "first_order",
)
COLOURS = {"zero_closed": "#0072B2", "first_order": "#56B4E9"}
GREY = "#666666"


def key(text: str, condition: str) -> str:
    """The key of a recovered share."""
    return f"smollm2.{text}.{condition}.conditions.recovered"


def percent(share: float) -> str:
    """A share as it is written beside its bar."""
    return f"{100 * share:.0f} %".replace("-", "−")


def numbers(of: Mapping[str, Any]) -> dict[str, dict]:
    """What is drawn, by key, of the numbers of the study."""
    return {name: of[name] for text in TEXTS for name in (key(text, row) for row in ROWS)}


def draw(found: dict[str, dict]) -> str:
    """The picture, as SVG; the same bytes for the same numbers."""
    labels = load(ROOT / "params.yaml").figures.style.labels
    style = {"svg.hashsalt": "posenc", "font.family": "DejaVu Sans", "font.size": 11}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(9, 3.1), layout="constrained")
        first, least = None, min(0, *(one["low"] for one in found.values()))
        for place, text in enumerate(TEXTS):
            axes = figure.add_subplot(1, len(TEXTS), place + 1, sharey=first)
            first = first or axes
            for row, condition in enumerate(ROWS):
                one = found[key(text, condition)]
                colour = COLOURS.get(condition, GREY)
                axes.barh(row, one["value"], color=colour, height=0.62)
                axes.plot([one["low"], one["high"]], [row, row], color="black", lw=1.5)
                axes.text(
                    max(one["high"], 0) + 0.02, row, percent(one["value"]), va="center",
                    bbox={"color": "white", "pad": 1},
                )  # fmt: skip
            axes.set_title(TEXTS[text], fontsize=11)
            axes.set_xlim(least - 0.02, 1.08)
            axes.set_xticks([0, 0.5, 1], ["without rotation", "", "with rotation"], fontsize=9)
            for line in (0, 1):
                axes.axvline(line, color="black", lw=0.8)
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
    if len(sys.argv) > 1:
        picture, known = Path(sys.argv[1]), read_json(comparison.made_of(STUDY))
    else:
        picture, known = PICTURE, comparison.all_recorded()[STUDY]
    write_text(picture, draw(numbers(known)))
    print(f"{picture}: drawn")
