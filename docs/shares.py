"""Draw the pages' pictures of recovered shares from the records of their studies.

``python docs/shares.py`` does. The figures of these studies show the same, from measurements that
take hours; a record has each share with its interval, so a picture can be drawn again whenever a
label or a figure changes. The numbers that are drawn are listed in the picture's metadata, which a
test compares with the records (tests/unit/test_shares.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Canvas
from PIL import Image

from posenc.artifacts.files import atomic_file
from posenc.conditions.positions import ROTATION, TABLE
from posenc.conditions.section import dumped
from posenc.drawing.common import DOTS_PER_INCH, styled
from posenc.drawing.section import Style
from posenc.figures import recovered_share, rotary_masks
from posenc.report import comparison
from posenc.study import params as schema
from posenc.study.params import Params

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
PICTURES = {
    "rotary_rotary_masks": ("rotary", rotary_masks),
    "rotary_first_order_rotary_masks": ("rotary_first_order", rotary_masks),
    "rotary_gemma_rotary_masks": ("rotary_gemma", rotary_masks),
    "local_recovered_share": ("local", recovered_share),
}
"""By picture, its study and the figure."""
SHOWN = ("recovered", "nll_per_token")
"""Of each condition."""


def estimates(numbers: Mapping[str, Any], place: str) -> dict[str, dict[str, float]]:
    """What is shown of a condition, with its intervals; empty where it was not run."""
    entries = {name: numbers.get(f"{place}.{name}", {}) for name in SHOWN}
    if not all("low" in entry for entry in entries.values()):
        return {}
    ends = ("value", "low", "high")
    return {name: {end: entry[end] for end in ends} for name, entry in entries.items()}


def measurements(params: Params, numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a record says of evaluated conditions, as the figures read it of measurements."""
    masks = [
        {"mask": name, "method": mask.method, "placebo": getattr(mask, "placebo", None)}
        for name, mask in params.masks.items()
    ]
    runs = []
    for model in params.study.models:
        # A model that the study trains has a table; the others of these studies are rotated.
        positions = TABLE if model in params.study.trained else ROTATION
        for dataset in params.study.datasets:
            conditions = [
                {"condition": name, "spec": dumped(condition), **shown}
                for name, condition in params.conditions.items()
                if (shown := estimates(numbers, f"{model}.{dataset}.{name}.conditions"))
            ]
            if conditions:  # an encoder has no losses
                runs.append(
                    {
                        "measurement": "conditions", "status": "measured", "is_decoder": True,
                        "positions": positions, "masks": masks, "conditions": conditions,
                        "run": {"model": model, "dataset": dataset, "condition": "intact"},
                    }
                )  # fmt: skip
    return runs


def draw(picture: str, numbers: Mapping[str, Any]) -> tuple[Canvas, Style, dict[str, float]]:
    """A picture, its style, and the recovered shares that it was given, by key."""
    study, figure = PICTURES[picture]
    params = schema.load(ROOT / "params.yaml", {"study": study})
    runs = measurements(params, numbers)
    section = getattr(params.figures, figure.__name__.rpartition(".")[2])
    canvas = figure.draw(runs, section, params.figures.style)
    given = {
        ".".join((*place, entry["condition"])): entry["recovered"]["value"]
        for run in runs
        for place in [(run["run"]["model"], run["run"]["dataset"])]
        for entry in run["conditions"]
    }
    return canvas, params.figures.style, given


def listed(path: Path) -> dict[str, float]:
    """The shares that a picture was given."""
    with Image.open(path) as image:
        return json.loads(image.info["Description"])


def main() -> None:
    """Write all pictures."""
    records = comparison.all_recorded(ROOT / comparison.RECORDS)
    for picture, (study, _) in PICTURES.items():
        path = IMAGES / f"{picture}.png"
        canvas, style, given = draw(picture, records[study])
        said = {"Description": json.dumps(given), "Software": None}
        with styled(style), atomic_file(path) as temporary:
            canvas.savefig(temporary, format="png", dpi=DOTS_PER_INCH, metadata=said)
        print(f"{path.relative_to(ROOT)}: drawn")


if __name__ == "__main__":
    main()
