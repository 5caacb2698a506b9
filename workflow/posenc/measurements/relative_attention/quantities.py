"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import FLOAT64, Facts, NotRun, Number
from posenc.artifacts.printing import Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.relative_attention.result import RelativeOffsets

RELATIVE = ("scores", "trace", "null_weights", "null_spectra")


def identities(result: RelativeOffsets) -> Facts:
    """Errors of the identities on real weights, and the rotation of the null space."""
    residuals, turned = result.residuals, result.null_rotation
    facts: Facts = {
        "scores": Number(residuals.scores, rounding=FLOAT64),
        "trace": Number(residuals.trace, rounding=FLOAT64),
    }
    if turned is None:
        why = NotRun("there is no null space to turn")
        return facts | {"null_weights": why, "null_spectra": why}
    exact = Printed(rounding=FLOAT64)
    return facts | {
        "null_weights": number(turned.weights, exact),
        "null_spectra": number(turned.null_spectra, exact),
    }


WORDS = {
    "scores": "residual of the scores",
    "trace": "residual of the trace",
    "null_weights": "turned null space: change of the weights",
    "null_spectra": "turned null space: change of the spectra",
}
QUANTITIES = quantities(__package__, "RelativeOffsets", {}, identities, RELATIVE, WORDS)
FIGURE = Exhibit(
    "C3 relative attention by weights",
    ("relative_attention",),
    height=4.4,
    caption="What weights alone say of each head: scores by offset that positions would "
    "give, heads ordered by layer; and frequency and lag of the leading pairs of singular "
    "vectors, with the bounds of half a period.",
    alt="Maps of scores by offset for each head, and points of the frequency and lag of its "
    "leading pairs of singular vectors.",
)
