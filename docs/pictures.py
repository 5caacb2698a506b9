"""Draw pictures of the pages from the records of their studies.

``python docs/pictures.py`` does. The figures of these studies show the same, of more conditions,
from measurements that take hours; a record has the numbers that documents print, each with its
interval, so a picture can be drawn again whenever a label or a figure changes. The numbers that are
drawn are listed in the picture's metadata, which a test compares with the records
(tests/unit/test_pictures.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from matplotlib.figure import Figure as Canvas
from PIL import Image

from posenc.artifacts.files import atomic_file
from posenc.artifacts.results import Interval
from posenc.artifacts.runs import Run
from posenc.conditions.positions import ROTATION, TABLE
from posenc.conditions.section import dumped
from posenc.drawing.common import DOTS_PER_INCH, drawing, styled
from posenc.drawing.section import Style
from posenc.figures import recovered_share, rotary_masks
from posenc.measurements.conditions.result import EvaluatedConditions, Evaluation, Mask
from posenc.measurements.induction import figure as induction
from posenc.measurements.induction.result import Copying, Repetition, Uniform
from posenc.report import comparison
from posenc.study import params as schema
from posenc.study.params import Params

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"


class Picture(NamedTuple):
    """What is drawn of a study's record.

    Attributes
    ----------
    study
        Its name.
    name
        Of the figure in ``params.yaml``.
    draw_runs
        Draws it.
    measurement
        Of which the figure is.
    positions
        How positions enter the models that it shows; None for all.
    quantities
        Of each condition.
    """

    study: str
    name: str
    draw_runs: Callable[[Canvas, list[Run], Style], None]
    measurement: str
    positions: str | None
    quantities: tuple[str, ...]


def of_shares(study: str, figure: ModuleType, positions: str) -> Picture:
    """Recovered shares of conditions."""
    name, quantities = figure.__name__.rpartition(".")[2], ("recovered", "nll_per_token")
    return Picture(study, name, figure.draw_runs, "conditions", positions, quantities)


PICTURES = {
    "rotary_rotary_masks": of_shares("rotary", rotary_masks, ROTATION),
    "rotary_first_order_rotary_masks": of_shares("rotary_first_order", rotary_masks, ROTATION),
    "rotary_gemma_rotary_masks": of_shares("rotary_gemma", rotary_masks, ROTATION),
    "local_recovered_share": of_shares("local", recovered_share, TABLE),
    "rotary_induction": Picture(
        "rotary", "induction", induction.draw_runs, "induction", None, tuple(induction.PANELS)
    ),
}


def entries(
    picture: Picture, params: Params, numbers: Mapping[str, Any], model: str, dataset: str
) -> Iterator[Evaluation | Copying]:
    """Conditions of a run of which all quantities were recorded, with these alone."""
    entry = Copying if picture.measurement == "induction" else Evaluation
    for name, condition in params.conditions.items():
        keys = {
            quantity: key_of(picture, (model, dataset, name), quantity)
            for quantity in picture.quantities
        }
        recorded = {quantity: numbers.get(key, {}) for quantity, key in keys.items()}
        if all("low" in number for number in recorded.values()):
            intervals = {
                quantity: Interval(**{end: number[end] for end in ("value", "low", "high")})
                for quantity, number in recorded.items()
            }
            yield entry.model_construct(condition=name, spec=dumped(condition), **intervals)


def key_of(picture: Picture, place: tuple[str, str, str], quantity: str) -> str:
    """The key of a number of a condition: its measurement's name is before it or behind it."""
    model, dataset, condition = place
    middle = (condition, picture.measurement)
    if picture.measurement != "conditions":
        middle = (picture.measurement, condition)
    return ".".join((model, dataset, *middle, quantity))


def runs_of(picture: Picture, params: Params, numbers: Mapping[str, Any]) -> list[Run]:
    """What a record says of conditions: results that lack what no document prints."""
    masks = [
        Mask(mask=name, method=mask.method, placebo=getattr(mask, "placebo", None))
        for name, mask in params.masks.items()
    ]
    runs = []
    for model in params.study.models:
        # A model that the study trains has a table; the others of these studies are rotated.
        positions = TABLE if model in params.study.trained else ROTATION
        if picture.positions not in (None, positions):
            continue
        for dataset in params.study.datasets:
            conditions = list(entries(picture, params, numbers, model, dataset))
            if not conditions:  # an encoder has no losses
                continue
            if picture.measurement == "induction":
                uniform = Uniform.model_construct()
                result = Repetition.model_construct(conditions=conditions, uniform=uniform)
            else:
                result = EvaluatedConditions.model_construct(conditions=conditions, masks=masks)
            runs.append(Run(model, dataset, "", result, ""))
    return runs


def draw(picture: Picture, numbers: Mapping[str, Any]) -> tuple[Canvas, Style, dict[str, float]]:
    """A picture, its style, and by key the first quantity of each condition that is drawn."""
    params = schema.load(ROOT / "params.yaml", {"study": picture.study})
    runs = runs_of(picture, params, numbers)
    section = getattr(params.figures, picture.name)
    draw_runs = drawing(lambda canvas, shown, _, style: picture.draw_runs(canvas, shown, style))
    canvas = draw_runs(runs, section, params.figures.style)
    first = picture.quantities[0]
    given = {
        key_of(picture, (run.model, run.dataset, entry.condition), first): (
            getattr(entry, first).value
        )
        for run in runs
        for entry in run.result.conditions
    }
    return canvas, params.figures.style, given


def listed(path: Path) -> dict[str, float]:
    """The numbers that a picture was given."""
    with Image.open(path) as image:
        return json.loads(image.info["Description"])


def main() -> None:
    """Write all pictures."""
    records = comparison.all_recorded(ROOT / comparison.RECORDS)
    for name, picture in PICTURES.items():
        path = IMAGES / f"{name}.png"
        canvas, style, given = draw(picture, records[picture.study])
        said = {"Description": json.dumps(given), "Software": None}
        with styled(style), atomic_file(path) as temporary:
            canvas.savefig(temporary, format="png", dpi=DOTS_PER_INCH, metadata=said)
        print(f"{path.relative_to(ROOT)}: drawn")


if __name__ == "__main__":
    main()
