"""The heads of the report page: what each looks at, and what a mask would make of it.

All of it comes from measurements: scores of one sentence (``sample_scores``), attention mass by
offset (``heads``), what position adds by distance (``score_parts``), and losses under masks
(``conditions``). The page computes patterns of the sentence's scores itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple, TypedDict

import numpy as np

from posenc.artifacts.numbers import Number
from posenc.artifacts.results import Interval
from posenc.artifacts.runs import R, Run, of_kind
from posenc.conditions.positions import ROTATION
from posenc.measurements.conditions.result import EvaluatedConditions, Evaluation, SweepPoint
from posenc.measurements.heads.result import Attention
from posenc.measurements.sample_scores.result import Scores, Sentence
from posenc.measurements.score_parts.result import Curves, Decomposition
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


class Measurements(NamedTuple):
    """Measured runs of all models: what heads look at, parts of their scores, and losses."""

    masses: list[Run[Attention]]
    parts: list[Run[Decomposition]]
    conditions: list[Run[EvaluatedConditions]]


def heads(results: Results) -> str | None:
    """All that the part needs, as JSON that can stand in HTML; None without measured scores."""
    sentences = measured(results, "sample_scores", Sentence)
    if not sentences:
        return None
    measurements = Measurements(
        measured(results, "heads", Attention),
        measured(results, "score_parts", Decomposition),
        measured(results, "conditions", EvaluatedConditions),
    )
    models = [of_model(sentence, measurements, results) for sentence in sentences]
    return embedded_json({"models": models, "clearest": clearest(sentences)})


def measured(results: Results, kind: str, result: type[R]) -> list[Run[R]]:
    """The runs of one kind of measurement that were measured."""
    return [run for run in of_kind(results.measurements, kind, result) if run.measured is not None]


def clearest(sentences: Iterable[Run[Sentence]]) -> ClearestHead:
    """The head whose mean attention, with positions, has the largest share at one offset.

    Offset 0 does not count: a head needs no positions to look at the query's own token.
    """
    candidates: list[ClearestHead] = []
    for run in sentences:
        sentence = run.result
        (layers,) = [c.layers for c in sentence.conditions if c.condition == "intact"]
        tokens = sentence.tokens
        seen = np.tri(tokens, dtype=bool) if sentence.is_causal else np.full([tokens] * 2, True)
        for layer, head in np.ndindex(sentence.n_layers, sentence.n_heads):
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
                    "model": run.model, "layer": layer, "head": head, "offset": offset,
                    "share": round(shares[offset], 3),
                }
            )  # fmt: skip
    return max(candidates, key=itemgetter("share"))


def of_model(run: Run[Sentence], measurements: Measurements, results: Results) -> Model:
    """A model: its sentence's scores, and what is measured of its heads on each data set."""
    model, sentence = run.model, run.result
    datasets: list[DataSetHeads] = []
    for dataset in results.study["study"]["datasets"]:

        def own(runs: list[Run[R]], dataset: str = dataset) -> list[Run[R]]:
            return [run for run in runs if (run.model, run.dataset) == (model, dataset)]

        masses, parts = own(measurements.masses), own(measurements.parts)
        conditions = [run.result for run in own(measurements.conditions)]
        is_rotary = results.study["models"][model]["positions"] == ROTATION
        closed = [
            closed_form(evaluated, parts[0].result, sentence.tokens)
            for evaluated in conditions
            if is_rotary and sentence.is_causal and parts
        ]
        window = masses[0].result.offsets[-1] if masses else WINDOW
        datasets.append(
            {
                "name": dataset,
                "window": window,
                "masses": {run.condition: masses_of(run.result) for run in masses},
                "curves": curves_of(parts[0].result, window) if parts else None,
                "masks": [
                    *filter(None, closed),
                    *(mask for evaluated in conditions for mask in masks_of(evaluated)),
                ],
                "intact": [cells for evaluated in conditions for cells in intact_of(evaluated)],
                "quantities": [
                    label("conditions", name) for name in quantities(sentence.is_causal)
                ],
            }
        )
    return {
        "name": model,
        "causal": sentence.is_causal,
        "layers": sentence.n_layers,
        "heads": sentence.n_heads,
        "pieces": sentence.pieces,
        "scores": {scores.condition: scores_of(scores) for scores in sentence.conditions},
        "datasets": datasets,
    }


def packed(values: Iterable[float | None], unit: float) -> str:
    """Numbers as one text of whole multiples of a unit; ``-`` where there is none."""
    return " ".join("-" if value is None else str(round(value / unit)) for value in values)


def scores_of(scores: Scores) -> list[list[str]]:
    """The scores of a condition by layer and head, in hundredths, as they were measured."""
    return [
        [packed(map(float, head.split(" ")), 0.01) for head in layer] for layer in scores.layers
    ]


def masses_of(attention: Attention) -> list[str]:
    """Of each head, in thousandths, the mass before the window, at each offset, and after it."""
    return [packed([head.before, *head.mass, head.after], 0.001) for head in attention.heads]


def curves_of(parts: Decomposition, window: int) -> list[list[str]]:
    """Of each head, what position adds by offset, measured and in closed form, in thousandths."""

    def at(curves: Curves) -> list[float | None]:
        past, future = curves.past[: window + 1], (curves.future or [])[: window + 1]
        missing = [None] * (window + 1)
        before = [*past, *missing][window::-1]  # offsets -window to 0
        return [*before, *[*future, *missing][1 : window + 1]]

    return [
        [packed(at(curves), 0.001) for curves in (head.measured, head.closed_form)]
        for head in parts.heads
    ]


def quantities(is_decoder: bool) -> tuple[str, ...]:
    """What is measured under a mask."""
    return OF_DECODERS if is_decoder else OF_ENCODERS


def cells_of(entry: Evaluation | SweepPoint, is_decoder: bool) -> list[str]:
    """The quantities of a condition or a point of a sweep, as they are shown."""
    of_name: dict[str, Interval | None] = {
        "perplexity": entry.perplexity,
        "nll_per_token": entry.nll_per_token,
        "last_cosine": entry.layers[-1] if isinstance(entry, Evaluation) else entry.last_cosine,
    }
    shown = (of_name[name] for name in quantities(is_decoder))
    return [inline(Number(*interval.numbers)) for interval in shown if interval is not None]


def intact_of(evaluated: EvaluatedConditions) -> list[list[str]]:
    """The quantities of the intact model."""
    return [
        cells_of(entry, evaluated.is_decoder)
        for entry in evaluated.conditions
        if entry.condition == "intact"
    ]


def closed_form(
    evaluated: EvaluatedConditions, parts: Decomposition, tokens: int
) -> ClosedFormMask | None:
    """The mask in closed form of each head of a decoder, and what was measured of all together."""
    entries = {entry.condition: entry for entry in evaluated.conditions}
    if not {WITHOUT, CLOSED_FORM} <= entries.keys():
        return None

    def curve(values: Iterable[float | None]) -> str:
        return packed((value or 0.0 for value in values), 0.001)

    curves = [head.closed_form for head in parts.heads]

    return {
        "condition": CLOSED_FORM,
        "shape": "closed_form",
        "title": f"closed form of this head ({CLOSED_FORM})",
        "heads": [[curve(own.past[:tokens]), curve(own.first_key[:tokens])] for own in curves],
        "points": [
            {"value": name, "cells": cells_of(entries[name], evaluated.is_decoder)}
            for name in COMPARED
            if name in entries
        ],
    }


def masks_of(evaluated: EvaluatedConditions) -> list[VariedMask]:
    """Masks on the model without positions, each with the values at which it was measured."""
    entries = {entry.condition: entry for entry in evaluated.conditions}
    if WITHOUT not in entries:
        return []
    masks: dict[tuple[str, str], VariedMask] = {}
    for name, entry in entries.items():
        spec = entry.spec
        mask = spec.get("mask") or {"semantics": "", "profile": {"kind": ""}}
        profile = mask["profile"]
        kind = (mask["semantics"], profile["kind"])
        if kind not in PROFILES or spec["position"] != WITHOUT or "span" in mask:
            continue
        parameter, title = PROFILES[kind]
        points: dict[float, Evaluation | SweepPoint] = {
            NOTHING[parameter]: entries[WITHOUT], profile[parameter]: entry,
        }  # fmt: skip
        for sweep in evaluated.sweeps.values():
            if sweep.key == f"mask.profile.{parameter}":
                points |= {row.value: row for row in sweep.rows if row.condition == name}
        masks[kind] = {
            "condition": name,
            "shape": profile["kind"] if mask["semantics"] == "additive" else mask["semantics"],
            "title": f"{title} ({name})",
            "parameter": parameter,
            "at": profile[parameter],
            "points": [
                {"value": value, "cells": cells_of(points[value], evaluated.is_decoder)}
                for value in sorted(points)
            ],
        }
    return [masks[kind] for kind in PROFILES if kind in masks]
