"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, NotRun, Number
from posenc.artifacts.printing import Fields, Printed, number, quantities

if TYPE_CHECKING:
    from posenc.measurements.position_embeddings.result import (
        Errors,
        Geometry,
        PositionTable,
    )

REGRESSION = ("mae", "mae_sd", "order_error", "order_error_sd")
GEOMETRY = ("toeplitz", "first_4", "first_12", "frequency")
WAVES = ("correlation", "explained", "independent")
SHUFFLED = ("correlation", "explained")
PRINTED: Fields = {
    "last_rows": Printed("the last row", name="last"),
    "last_rows.norm": Printed("norm, as a multiple of the median"),
    "last_rows.cosine": Printed("cosine with the row before"),
    "last_rows.neighbours": Printed("median cosine of neighbouring rows"),
    "last_rows.chance": Printed("cosine of independent directions, 95 % below"),
    "last_rows.untouched": Printed("rows at the end that are like no neighbour"),
}
NAMES = (
    *REGRESSION, *(f"{name}_control" for name in REGRESSION),
    *GEOMETRY, *(f"{name}_control" for name in GEOMETRY),
    *WAVES, *(f"{name}_shuffled" for name in SHUFFLED), "rows", "d_model",
)  # fmt: skip


def positions(result: PositionTable) -> Facts:
    """What a table of position embeddings is, and what is read off it.

    A ``_control`` is of a random table of the same shape and deviation; ``_shuffled`` of the same
    rows in random order, with the least and most of the draws.
    """
    return {
        **regression(result.regression, ""),
        **regression(result.regression.control, "_control"),
        **geometry(result, ""),
        **geometry(result.geometry_control, "_control"),
        **waves(result),
        "rows": Number(result.shape.rows),
        "d_model": Number(result.shape.d_model),
    }


def regression(errors: Errors, suffix: str) -> Facts:
    """Errors of both regressions on a table."""
    return {
        f"mae{suffix}": Number(errors.absolute.mean),
        f"mae_sd{suffix}": Number(errors.absolute.sd),
        f"order_error{suffix}": Number(errors.relative.mean),
        f"order_error_sd{suffix}": Number(errors.relative.sd),
    }


def geometry(table: Geometry, suffix: str) -> Facts:
    """What the rows of a table are to each other; shares in percent, as published."""
    orthogonal = Printed(absent="all rows are orthogonal")
    return {
        f"toeplitz{suffix}": number(table.toeplitz_share.gram, orthogonal),
        f"first_4{suffix}": Number(100 * table.pca.first_4),
        f"first_12{suffix}": Number(100 * table.pca.first_12),
        f"frequency{suffix}": Number(table.median_frequency),
    }


def waves(result: PositionTable) -> Facts:
    """What waves of position explain of components of the rows."""
    from posenc.measurements.position_embeddings.result import NoWaves

    components = result.components
    if isinstance(components, NoWaves):
        names = (*WAVES, *(f"{name}_shuffled" for name in SHUFFLED))
        return dict.fromkeys(names, NotRun(components.reason))
    return {
        "correlation": Number(components.correlation),
        "explained": Number(max(components.principal)),
        "independent": number(components.independent_largest),
        "correlation_shuffled": number(components.correlation_shuffled),
        "explained_shuffled": number(components.explained_shuffled),
    }


WORDS = {
    "mae": "error of the position (rows)",
    "mae_sd": "error of the position, standard deviation over repeats (rows)",
    "order_error": "share of pairs put in the wrong order",
    "order_error_sd": "share of pairs put in the wrong order, standard deviation",
    "toeplitz": "share of inner products that the offset explains",
    "first_4": "variance in the 4 leading components (%)",
    "first_12": "variance in the 12 leading components (%)",
    "frequency": "frequency below which half of the columns' power lies (cycles per token)",
    "correlation": "first canonical correlation of components with waves of position",
    "explained": "largest share of a principal component that waves explain",
    "independent": "largest share of an independent component that waves explain",
    "rows": "rows",
    "d_model": "columns",
}
QUANTITIES = quantities(__package__, "PositionTable", PRINTED, positions, NAMES, WORDS)
