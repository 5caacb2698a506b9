"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import FLOAT64, Entry, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

RELATIVE = ("scores", "trace", "null_weights", "null_spectra")


def relative(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Errors of the identities on real weights, and the rotation of the null space."""
    turned = measurement["null_rotation"] or {}
    return {
        "scores": Number(measurement["residuals"]["scores"], rounding=FLOAT64),
        "trace": Number(measurement["residuals"]["trace"], rounding=FLOAT64),
        **{
            f"null_{name}": estimate(turned.get(key), "there is no null space to turn", FLOAT64)
            for name, key in (("weights", "weights"), ("spectra", "null_spectra"))
        },
    }


WORDS = {
    "scores": "residual of the scores",
    "trace": "residual of the trace",
    "null_weights": "turned null space: change of the weights",
    "null_spectra": "turned null space: change of the spectra",
}
QUANTITIES = Quantities(read=relative, names=RELATIVE, words=WORDS)
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
