"""Numbers of what weights alone say: of tables of positions (B), and of heads (C), by key.

Keys are those of :mod:`posenc.report.collection`: ``MODEL.positions.mae`` and
``matrix.NAME.positions.mae``, ``MODEL.readback.before.exact``,
``matrix.NAME.position_heads.near.heads`` and so on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from posenc.metrics.null_tables import NULLS
from posenc.metrics.position_scores import nearest, steepest
from posenc.report.position_quantities import estimate
from posenc.report.records import FLOAT64, Entry, NotRun, Number

REGRESSION = ("mae", "mae_sd", "order_error", "order_error_sd")
GEOMETRY = ("toeplitz", "first_4", "first_12", "frequency")
WAVES = ("correlation", "explained", "independent")
SHUFFLED = ("correlation", "explained")
LAST = ("norm", "cosine", "neighbours", "chance", "untouched")
POSITIONS = (
    *REGRESSION, *(f"{name}_control" for name in REGRESSION),
    *GEOMETRY, *(f"{name}_control" for name in GEOMETRY),
    *WAVES, *(f"{name}_shuffled" for name in SHUFFLED), *(f"last.{name}" for name in LAST),
    "rows", "d_model",
)  # fmt: skip
LEVELS = ("exact", "weak", "strong")
READBACK = (
    *(f"{place}.{level}" for place in ("before", "after") for level in LEVELS),
    *(f"alone.{what}" for what in ("token", "position")),
    "noise.weak", "noise.strong", "margin", "pairs", "searched", "mistaken",
    "bound.pairs", "bound.before", "bound.after", "angle", "angle_random",
)  # fmt: skip
RELATIVE = ("scores", "trace", "null_weights", "null_spectra")
PLACED = ("1", "2", "3")
"""Heads that are named, in order."""
DRAWN = ("distance_share", "heads", "nearest")
NULL = ("offset", "distance_share", "wave_share")
WAVE = ("period", "lag", "wave_share")
NEAR = ("head", "offset", "distance_share", *WAVE)
STEEP = ("layer", "head", "deviation", "distance_share", *WAVE)
OF_WAVES = ("period", "lag", "share", "lags", "lags_chance")
POSITION_HEADS = (
    "heads", "distance_share", "distance_share.least", "distance_share.most",
    *(f"near.{place}.{part}" for place in PLACED for part in NEAR),
    "near.heads", "near.tokens",
    *(
        f"null_{null}.{part}" for null in NULLS
        for part in (*DRAWN, *(f"near.{place}.{part}" for place in PLACED for part in NULL))
    ),
    *(f"steep.{place}.{part}" for place in PLACED for part in STEEP),
    *(f"waves.{part}" for part in OF_WAVES), *(f"null_{null}.waves.share" for null in NULLS),
)  # fmt: skip
NO_POSITION = "no head tells positions apart"


def positions(one: Mapping[str, Any]) -> dict[str, Entry]:
    """What a table of position embeddings is, and what is read off it.

    A ``_control`` is of a random table of the same shape and deviation; ``_shuffled`` of the same
    rows in random order, with the least and most of the draws.
    """
    found: dict[str, Entry] = {}
    regression = one["regression"]
    for suffix, part in (("", regression), ("_control", regression["control"])):
        for name, key in (("mae", "absolute"), ("order_error", "relative")):
            value = part[key]
            found[f"{name}{suffix}"] = Number(value["mean"])
            found[f"{name}_sd{suffix}"] = Number(value["sd"])
    for suffix, part in (("", one), ("_control", one["geometry_control"])):
        gram = part["toeplitz_share"]["gram"]
        found[f"toeplitz{suffix}"] = estimate(gram, "all rows are orthogonal")
        for key in ("first_4", "first_12"):
            found[f"{key}{suffix}"] = Number(100 * part["pca"][key])  # percent, as it is published
        found[f"frequency{suffix}"] = Number(part["median_frequency"])
    waves = one["components"]
    if waves["status"] != "measured":
        names = (*WAVES, *(f"{name}_shuffled" for name in SHUFFLED))
        found |= dict.fromkeys(names, NotRun(waves["reason"]))
    else:
        found["correlation"] = Number(waves["correlation"])
        found["explained"] = Number(max(waves["principal"]))
        found["independent"] = estimate(waves["independent_largest"])
        for key in SHUFFLED:
            found[f"{key}_shuffled"] = estimate(waves[f"{key}_shuffled"])
    for key in LAST:
        found[f"last.{key}"] = Number(one["last_rows"][key])
    for key in ("rows", "d_model"):
        found[key] = Number(one["shape"][key])
    return found


def readback(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Share of pairs that are read back: without noise, and at two levels of it.

    Bounds are of the percentage that fails with weak noise.
    """
    found: dict[str, Entry] = {}
    count = len(one["before"])
    places = dict(zip(LEVELS, (0, count // 2, count - 1), strict=True))
    for name in ("before", "after"):
        for level, place in places.items():
            found[f"{name}.{level}"] = estimate(one[name][place]["joint"]["both"])
    for what in ("token", "position"):
        found[f"alone.{what}"] = estimate(one["before"][0]["alone"][what])
    for level in LEVELS[1:]:
        noise = one["before"][places[level]]["noise"]
        found[f"noise.{level}"] = Number(noise, decimals=len(f"{noise:g}".partition(".")[2]))
    found["margin"] = Number(one["before"][0]["margin"]["least"])
    found["pairs"], found["searched"] = Number(one["pairs"]), Number(one["pairs_searched"])
    found["mistaken"] = Number(one["mistaken"])
    found["bound.pairs"] = Number(one["bounds"]["pairs"])
    for name in ("before", "after"):
        found[f"bound.{name}"] = Number(100 * one["bounds"][name]["upper"])
    for key, name in (("angle", "angles"), ("angle_random", "random")):
        found[key] = Number(math.degrees(statistics.median(one["subspaces"][name])))
    return found


def relative(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Errors of the identities on real weights, and the rotation of the null space."""
    turned = one["null_rotation"] or {}
    return {
        "scores": Number(one["residuals"]["scores"], rounding=FLOAT64),
        "trace": Number(one["residuals"]["trace"], rounding=FLOAT64),
        **{
            f"null_{name}": estimate(turned.get(key), "there is no null space to turn", FLOAT64)
            for name, key in (("weights", "weights"), ("spectra", "null_spectra"))
        },
    }


def position_heads(one: Mapping[str, Any]) -> dict[str, Entry]:
    """How much of the heads' scores a mask by distance explains, and the heads worth a look.

    ``near`` are those of layer 0 whose attention by positions alone is, in the mean, nearest to the
    query; ``steep`` those whose mask by distance tells the most positions apart. Of tables that
    know no order (``null_``) there is the same of those near heads, how many of all then look near,
    and the offset of the one of layer 0 that then looks nearest. Waves are those of the pair of
    signals that adds most to a head's score.
    """
    shares = [head["distance_share"] for head in one["heads"] if head["distance_share"] is not None]
    named: dict[str, Entry] = dict.fromkeys(POSITION_HEADS, NotRun("there are fewer heads"))
    named["heads"] = Number(len(one["heads"]))
    for name, of in (("", statistics.median), (".least", min), (".most", max)):
        named[f"distance_share{name}"] = Number(of(shares)) if shares else NotRun(NO_POSITION)
    near = one["near"]
    named |= {"near.heads": Number(near["heads"]), "near.tokens": Number(near["tokens"])}
    first, steep = nearest(one["heads"], len(PLACED)), steepest(one["heads"], len(PLACED))
    for group, parts, heads in (("near", NEAR, first), ("steep", STEEP, steep)):
        for place, head in zip(PLACED, heads, strict=False):
            pair = head["pairs"][0]
            of_head = {
                **head,
                "offset": head["profile"]["mean_offset"],
                "period": 1 / pair["frequency"],
                "lag": pair["lag"],
                "wave_share": pair["share"],
            }
            for part in parts:
                named[f"{group}.{place}.{part}"] = estimate(of_head[part], NO_POSITION)
    waves = one["waves"]
    named |= {f"waves.{part}": Number(waves[part]) for part in OF_WAVES}
    for null, of_all in near["nulls"].items():
        for part in DRAWN:
            named[f"null_{null}.{part}"] = estimate(of_all[part], NO_POSITION)
        for place, head in zip(PLACED, first, strict=False):
            for part, key in zip(NULL, ("mean_offset", *NULL[1:]), strict=True):
                value = head["nulls"][null][key]
                named[f"null_{null}.near.{place}.{part}"] = estimate(value, NO_POSITION)
        named[f"null_{null}.waves.share"] = estimate(waves["nulls"][null], NO_POSITION)
    return named


OF_MODELS = {
    "position_embeddings": (positions, POSITIONS),
    "readback": (readback, READBACK),
    "relative_attention": (relative, RELATIVE),
    "position_heads": (position_heads, POSITION_HEADS),
}
"""As in :mod:`posenc.report.position_quantities`."""
TOKENS = ("readback", "relative_attention", "embedding_sums", "norms")
"""Measurements of weights that need token embeddings; others need a model that runs."""


def not_of_parts(study: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """What is not measured of the parts of checkpoints of a study, by part and measurement."""
    parts = [name for name, one in study["matrices"].items() if one.get("n_heads")]
    kinds = [
        kind
        for kind, facts in study["measurements"].items()
        if kind in study["measured"] and "model" in facts["of"] and not facts.get("of_matrices")
    ]
    return {
        (part, kind): "needs token embeddings" if kind in TOKENS else "needs a model that runs"
        for part in parts
        for kind in kinds
    }
