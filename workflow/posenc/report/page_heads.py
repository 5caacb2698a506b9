"""The heads of the report page: what each looks at, and what a mask would make of it.

All of it comes from measurements: scores of one sentence (``sample_scores``), attention mass by
offset (``heads``), what position adds by distance (``score_parts``), and losses under masks
(``conditions``). The page computes patterns of the sentence's scores itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, TypedDict

import numpy as np

from posenc.artifacts.numbers import Number, estimate
from posenc.conditions.positions import ROTATION
from posenc.metrics.patterns import softmax
from posenc.report.page_numbers import inline
from posenc.report.page_tables import embedded_json
from posenc.report.records import Results
from posenc.report.words import label

WINDOW = 10
"""Offsets that are shown on either side, of a model whose masses by offset are not measured."""
WITHOUT = "zero"
PROFILES = {
    ("additive", "alibi"): ("slope", "ALiBi: minus slope × distance"),
    ("additive", "logarithmic"): ("slope", "minus slope × log of 1 + distance"),
    ("log_mask", "linear"): ("floor", "linear floor, its log added"),
    ("hf_le420", "linear"): ("floor", "linear floor, as transformers up to 4.20 took it"),
    ("logit_mul", "linear"): ("floor", "linear floor, times the scores"),
    ("prob_mul", "linear"): ("floor", "linear floor, times the pattern"),
}
"""By semantics and kind of profile, in order: the parameter that the page varies, and a title."""
NOTHING = {"slope": 0.0, "floor": 1.0}
"""Where a profile is no mask, so that the model is the one without positions."""
CLOSED_FORM = "zero_closed"
COMPARED = ("intact", WITHOUT, CLOSED_FORM, "placebo_heads")
"""Conditions whose losses stand beside the mask in closed form."""
OF_DECODERS, OF_ENCODERS = ("perplexity", "nll_per_token"), ("last_cosine",)


class ClearestHead(TypedDict):
    """A head, the offset that it looks at most, and its mean attention there."""

    model: str
    layer: int
    head: int
    offset: int
    share: float


class Point(TypedDict):
    """What was measured under a mask: the value of its parameter, or the name of a condition."""

    value: float | str
    cells: list[str]


class Mask(TypedDict):
    """A mask on the model without positions."""

    condition: str
    shape: str
    title: str
    points: list[Point]


class VariedMask(Mask):
    """A mask whose parameter the page varies, from the value that was measured as a condition."""

    parameter: str
    at: float


class ClosedFormMask(Mask):
    """The mask in closed form of each head.

    ``heads`` has, of each, what it adds to keys by distance and to the first key, in thousandths;
    where there is no pair it adds nothing.
    """

    heads: list[list[str]]


class DataSetHeads(TypedDict):
    """What is measured of a model's heads on a data set.

    Attributes
    ----------
    name
        Of the data set.
    window
        Offsets on either side.
    masses
        By condition, from :func:`masses_of`.
    curves
        From :func:`curves_of`.
    masks
        With what was measured under them.
    intact
        Quantities of the intact model, in the order of ``quantities``.
    quantities
        In words.
    """

    name: str
    window: int
    masses: dict[str, list[str]]
    curves: list[list[str]] | None
    masks: list[VariedMask | ClosedFormMask]
    intact: list[list[str]]
    quantities: list[str]


class Model(TypedDict):
    """A model: its sentence in pieces, with scores by condition, and its data sets."""

    name: str
    causal: bool
    layers: int
    heads: int
    pieces: list[str]
    scores: dict[str, list[list[str]]]
    datasets: list[DataSetHeads]


def heads(results: Results) -> str | None:
    """All that the part needs, as JSON that can stand in HTML; None without measured scores."""
    sentences = [run for run in results.of("sample_scores") if measured(run)]
    if not sentences:
        return None
    models = [of_model(sentence, results) for sentence in sentences]
    return embedded_json({"models": models, "clearest": clearest(sentences)})


def clearest(sentences: Iterable[Mapping[str, Any]]) -> ClearestHead:
    """The head whose mean attention, with positions, has the largest share at one offset.

    Offset 0 does not count: a head needs no positions to look at the query's own token.
    """
    candidates: list[ClearestHead] = []
    for sentence in sentences:
        (layers,) = [c["layers"] for c in sentence["conditions"] if c["condition"] == "intact"]
        tokens = sentence["tokens"]
        seen = np.tri(tokens, dtype=bool) if sentence["is_causal"] else np.full([tokens] * 2, True)
        for layer, head in np.ndindex(sentence["n_layers"], sentence["n_heads"]):
            scores = np.full([tokens] * 2, -np.inf)
            scores[seen] = np.array(layers[layer][head].split(" "), float)
            pattern = softmax(scores, causal=False)
            shares = {
                offset: float(np.trace(pattern, offset)) / tokens
                for offset in range(1 - tokens, tokens)
                if offset
            }
            offset = max(shares, key=shares.__getitem__)
            candidates.append(
                {
                    "model": sentence["run"]["model"], "layer": layer, "head": head,
                    "offset": offset, "share": round(shares[offset], 3),
                }
            )  # fmt: skip
    return max(candidates, key=itemgetter("share"))


def measured(measurement: Mapping[str, Any]) -> bool:
    """Whether a measurement was run."""
    return measurement["status"] == "measured"


def of_model(measurement: Mapping[str, Any], results: Results) -> Model:
    """A model: its sentence's scores, and what is measured of its heads on each data set."""
    model = measurement["run"]["model"]
    datasets: list[DataSetHeads] = []
    for dataset in results.study["study"]["datasets"]:
        own = {"model": model, "dataset": dataset}

        def of(kind: str, own: dict[str, str] = own) -> list[Mapping[str, Any]]:
            return [
                run
                for run in results.of(kind)
                if measured(run) and own.items() <= run["run"].items()
            ]

        masses, parts, conditions = of("heads"), of("score_parts"), of("conditions")
        is_rotary = results.study["models"][model]["positions"] == ROTATION
        closed = [
            closed_form(run, parts[0], measurement["tokens"])
            for run in conditions
            if is_rotary and measurement["is_causal"] and parts
        ]
        window = masses[0]["offsets"][-1] if masses else WINDOW
        datasets.append(
            {
                "name": dataset,
                "window": window,
                "masses": {run["run"]["condition"]: masses_of(run) for run in masses},
                "curves": curves_of(parts[0], window) if parts else None,
                "masks": [
                    *filter(None, closed),
                    *(mask for run in conditions for mask in masks_of(run)),
                ],
                "intact": [cells for run in conditions for cells in intact_of(run)],
                "quantities": [
                    label("conditions", name) for name in quantities(measurement["is_causal"])
                ],
            }
        )
    return {
        "name": model,
        "causal": measurement["is_causal"],
        "layers": measurement["n_layers"],
        "heads": measurement["n_heads"],
        "pieces": measurement["pieces"],
        "scores": {
            condition["condition"]: scores_of(condition) for condition in measurement["conditions"]
        },
        "datasets": datasets,
    }


def packed(values: Iterable[float | None], unit: float) -> str:
    """Numbers as one text of whole multiples of a unit; ``-`` where there is none."""
    return " ".join("-" if value is None else str(round(value / unit)) for value in values)


def scores_of(condition: Mapping[str, Any]) -> list[list[str]]:
    """The scores of a condition by layer and head, in hundredths, as they were measured."""
    return [
        [packed(map(float, head.split(" ")), 0.01) for head in layer]
        for layer in condition["layers"]
    ]


def masses_of(measurement: Mapping[str, Any]) -> list[str]:
    """Of each head, in thousandths, the mass before the window, at each offset, and after it."""
    return [
        packed([head["before"], *head["mass"], head["after"]], 0.001)
        for head in measurement["heads"]
    ]


def curves_of(measurement: Mapping[str, Any], window: int) -> list[list[str]]:
    """Of each head, what position adds by offset, measured and in closed form, in thousandths."""

    def at(curves: Mapping[str, Any]) -> list[float | None]:
        past, future = (curves.get(side, [])[: window + 1] for side in ("past", "future"))
        missing = [None] * (window + 1)
        before = [*past, *missing][window::-1]  # offsets -window to 0
        return [*before, *[*future, *missing][1 : window + 1]]

    return [
        [packed(at(head[kind]), 0.001) for kind in ("measured", "closed_form")]
        for head in measurement["heads"]
    ]


def quantities(is_decoder: bool) -> tuple[str, ...]:
    """What is measured under a mask."""
    return OF_DECODERS if is_decoder else OF_ENCODERS


def cells_of(entry: Mapping[str, Any], is_decoder: bool) -> list[str]:
    """The quantities of a condition or a point of a sweep, as they are shown."""
    last = {"last_cosine": entry["layers"][-1]} if "layers" in entry else {}
    estimates = (estimate({**last, **entry}[name]) for name in quantities(is_decoder))
    return [inline(number) for number in estimates if isinstance(number, Number)]


def intact_of(measurement: Mapping[str, Any]) -> list[list[str]]:
    """The quantities of the intact model."""
    return [
        cells_of(entry, measurement["is_decoder"])
        for entry in measurement["conditions"]
        if entry["condition"] == "intact"
    ]


def closed_form(
    measurement: Mapping[str, Any], parts: Mapping[str, Any], tokens: int
) -> ClosedFormMask | None:
    """The mask in closed form of each head of a decoder, and what was measured of all together."""
    entries = {entry["condition"]: entry for entry in measurement["conditions"]}
    if not {WITHOUT, CLOSED_FORM} <= entries.keys():
        return None

    def curve(values: Iterable[float | None]) -> str:
        return packed((value or 0.0 for value in values), 0.001)

    return {
        "condition": CLOSED_FORM,
        "shape": "closed_form",
        "title": f"closed form of this head ({CLOSED_FORM})",
        "heads": [
            [curve(head["closed_form"][kind][:tokens]) for kind in ("past", "first_key")]
            for head in parts["heads"]
        ],
        "points": [
            {"value": name, "cells": cells_of(entries[name], measurement["is_decoder"])}
            for name in COMPARED
            if name in entries
        ],
    }


def masks_of(measurement: Mapping[str, Any]) -> list[VariedMask]:
    """Masks on the model without positions, each with the values at which it was measured."""
    entries = {entry["condition"]: entry for entry in measurement["conditions"]}
    if WITHOUT not in entries:
        return []
    masks: dict[tuple[str, str], VariedMask] = {}
    for name, entry in entries.items():
        spec = entry["spec"]
        mask = spec.get("mask") or {"semantics": "", "profile": {"kind": ""}}
        profile = mask["profile"]
        kind = (mask["semantics"], profile["kind"])
        if kind not in PROFILES or spec["position"] != WITHOUT or "span" in mask:
            continue
        parameter, title = PROFILES[kind]
        points = {NOTHING[parameter]: entries[WITHOUT], profile[parameter]: entry}
        for sweep in measurement["sweeps"].values():
            if sweep["key"] == f"mask.profile.{parameter}":
                points |= {row["value"]: row for row in sweep["rows"] if row["condition"] == name}
        masks[kind] = {
            "condition": name,
            "shape": profile["kind"] if mask["semantics"] == "additive" else mask["semantics"],
            "title": f"{title} ({name})",
            "parameter": parameter,
            "at": profile[parameter],
            "points": [
                {"value": value, "cells": cells_of(points[value], measurement["is_decoder"])}
                for value in sorted(points)
            ],
        }
    return [masks[kind] for kind in PROFILES if kind in masks]
