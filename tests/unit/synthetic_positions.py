"""Made-up measurements of positions and heads in the files' real format."""

from __future__ import annotations

import numpy as np

from posenc.measurements.token_classes.measure import FACTORS
from posenc.metrics.null_tables import NULLS

OFFSETS = list(range(-10, 11))
BANDS = [0.0, 0.0234375, 0.1171875, 0.5]
SIZES = {False: (6, 12), True: (4, 4)}
"""Layers and heads of an encoder and of a decoder."""


def estimate(value: float, half: float = 0.01) -> dict:
    """An estimate with a symmetric interval."""
    return {"value": value, "low": value - half, "high": value + half}


def shared(measurement: str, **run: str) -> dict:
    """The part that all measurements share."""
    return {
        "schema": 1, "measurement": measurement, "catalogue": ["B1"], "run": run,
        "status": "measured", "reason": None, "provenance": {},
    }  # fmt: skip


def drawn(value: float) -> dict:
    """A statistic over draws of a null."""
    return {"mean": value, "least": 0.9 * value, "most": 1.1 * value}


def falling(layer: int, layers: int, start: float, end: float) -> float:
    return start + (end - start) * layer / max(1, layers - 1)


def names(layers: int) -> list[str]:
    """Names of the hidden states."""
    return ["embedding", *(f"block {index}" for index in range(1, layers)), "last"]


def position_embeddings(subject: str, kind: str) -> dict:
    """A table of waves, and what was read off it."""
    run = {"model": subject} if kind == "model" else {"matrix": subject}
    rows, cells = 128, 32
    place = np.arange(cells)
    waves = np.sin(place[:, None] * (place + 1) / 20)
    control = {"absolute": 60.6, "relative": 31.7, "relative_unit_deviation": 30.1}
    errors = {"absolute": 9.7, "relative": 2.5, "relative_unit_deviation": 4.1}
    if kind == "random":
        errors = control
    frequencies = np.arange(rows // 2 + 1) / rows

    def spread(values: dict) -> dict:
        return {key: {"mean": value, "sd": value / 12} for key, value in values.items()}

    geometry = {
        "toeplitz_share": {"gram": 0.711, "cosine": 0.72},
        "pca": {"shares": [0.2, 0.1], "first_4": 0.717, "first_12": 0.793},
        "median_frequency": 0.0156,
        "spectrum": {
            "unit": "cycles per token",
            "frequencies": frequencies.tolist(),
            "mean_amplitude": (1 / (1 + frequencies)).tolist(),
        },
    }
    edges = np.geomspace(0.5, rows // 2 + 0.5, 21) / rows
    return {
        **shared("position_embeddings", **run),
        "subject": subject,
        "kind": kind,
        "shape": {"rows": rows, "available": rows, "d_model": 128, "deviation": 0.02},
        "regression": {
            "units": {}, "repeats": 10, "pairs": 512, **spread(errors), "control": spread(control),
        },
        **geometry,
        "geometry_control": {**geometry, "spectrum": None},
        "components": {
            "status": "measured", "reason": None, "correlation": 0.97,
            "correlation_shuffled": drawn(0.1), "principal": [0.6, 0.9, 0.3],
            "independent": [0.95, 0.2, 0.1], "independent_largest": drawn(0.95),
            "explained_shuffled": drawn(0.04), "converged": True,
        },
        "last_rows": {
            "norm": 1.1, "cosine": 0.9, "neighbours": 0.98, "chance": 0.17, "untouched": 0,
        },
        "identities": None,
        "maps": {
            "row_stride": 4,
            "column_stride": 4,
            "table": {"unit": "standard deviations of the entries", "values": waves.tolist()},
            "cosine": np.cos((place[:, None] - place) / 9).tolist(),
            "spectra": {
                "edges": edges.tolist(),
                "amplitude": np.abs(np.sinc((place[:20, None] - place / 2) / 3)).tolist(),
                "of": "root mean square in the band",
            },
        },
    }  # fmt: skip


def position_heads(subject: str, is_decoder: bool, kind: str = "model") -> dict:
    """Heads whose mask falls with the distance, each a little more steeply.

    Of a model, or of a matrix that is part of one.
    """
    layers, heads = SIZES[is_decoder]
    distance = np.arange(0 if is_decoder else -127, 127)
    per_head = [
        {
            "layer": layer, "head": head,
            "predicted_lag": -head % 3,
            "profile": {"mean_offset": -0.5 - head - layer, "peak": -head, "peak_mass": 0.1,
                        "mass": [0.01 * place for place in range(21)], "preference": [0.1] * 21},
            "deviation": 0.4 + layer + head / 3,
            "distance_share": 0.3 + head / 20,
            "first_score": 0.2, "first_mass": 0.01,
            "nulls": {name: {"mean_offset": drawn(5.0), "distance_share": drawn(0.01),
                             "wave_share": drawn(0.05), "mass": [0.01] * 21} for name in NULLS},
            "pairs": [{"pair": 0, "frequency": 0.02, "phase": -0.3, "lag": -2.4, "share": 0.9,
                       "coherence": 0.9, "contribution": 0.5}],
            "pairs_share": 0.9,
            "distances": {
                "from": int(distance[0]),
                "bias": (-np.abs(distance) * (1 + head) / 60).tolist(),
            },
        }
        for layer in range(layers)
        for head in range(heads)
    ]  # fmt: skip
    return {
        **shared("position_heads", **{kind: subject}), "subject": subject,
        "kind": kind if kind == "model" else "path",
        "is_causal": is_decoder, "n_layers": layers, "n_heads": heads, "rows": 128,
        "input": "layer normalisation of the position embedding alone", "uniform": [0.01] * 21,
        "near": {
            "tokens": 2, "heads": 3, "nearest": -0.5,
            "nulls": {
                name: {"heads": drawn(1.0), "nearest": drawn(4.5), "distance_share": drawn(0.01)}
                for name in NULLS
            },
        },
        "waves": {"period": 50.0, "lag": -2.4, "share": 0.9, "lags": 5, "lags_chance": 4.2,
                  "nulls": {name: drawn(0.05) for name in NULLS}},
        "heads": per_head,
    }  # fmt: skip


def no_heads(matrix: str) -> dict:
    """What there is to say of the heads of a table alone."""
    return {
        **shared("position_heads", matrix=matrix), "subject": matrix, "kind": "path",
        "status": "not run", "reason": "a table alone has no heads", "heads": [],
    }  # fmt: skip


def readback(model: str) -> dict:
    """Shares that fall with noise."""

    def share(value: float) -> dict:
        return {what: estimate(value) for what in ("token", "position", "both")}

    def levels(worst: float) -> list[dict]:
        return [
            {
                "noise": noise,
                "joint": share(max(worst, 1 - noise / 2)),
                "alone": {
                    what: estimate(max(0.1, 0.9 - noise / 2)) for what in ("token", "position")
                },
                "mean": {what: estimate(0.8) for what in ("token", "position")},
                "margin": {"least": 0.13, "median": 0.4},
            }
            for noise in (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)
        ]

    angles = np.linspace(1.1, 1.5, 11)
    return {
        **shared("readback", model=model),
        "pairs": 200, "pairs_searched": 131072, "mistaken": 0,
        "bounds": {
            "noise": 0.4, "pairs": 600,
            "before": {"failures": 0, "upper": 0.005}, "after": {"failures": 10, "upper": 0.028},
        },
        "confidence": 0.95, "d_model": 128,
        "vocabulary_size": 1024, "positions": 128, "eps": 1e-5,
        "before": levels(0.05), "after": levels(0.1),
        "subspaces": {
            "variance": 0.9, "tokens": {"rank": 128, "directions": 33},
            "positions": {"rank": 128, "directions": 11}, "full_span_angle": 0.0, "draws": 5,
            "angles": angles.tolist(), "random": (angles - 0.5).tolist(),
            "random_sd": [0.01] * 11,
        },
    }  # fmt: skip


def relative_attention(model: str, is_decoder: bool) -> dict:
    """Heads whose score peaks at one offset or another."""
    n_layers, n_heads = SIZES[is_decoder]
    heads = []
    for index in range(n_layers * n_heads):
        lag = -(index % 4) if is_decoder else index % 7 - 3
        allowed = [offset <= 0 or not is_decoder for offset in OFFSETS]
        score = [
            -abs(offset - lag) / 4 if ok else None
            for offset, ok in zip(OFFSETS, allowed, strict=True)
        ]
        mass = [0.0 if value is None else float(np.exp(value)) / 20 for value in score]
        heads.append(
            {
                "layer": index // n_heads, "head": index % n_heads,
                "singular_values": [4.0, 2.0, 1.0], "score": score, "predicted_lag": lag,
                "profile": {
                    "mass": mass, "preference": [value and value - 0.1 for value in score],
                    "peak": lag, "peak_mass": 0.05, "mean_offset": lag / 2,
                },
                "pairs": [
                    {
                        "pair": pair, "frequency": 0.02 * (pair + 1), "phase": 0.3,
                        "lag": 0.3 / (2 * np.pi * 0.02 * (pair + 1)) * (-1) ** index,
                        "share": 0.8, "coherence": 0.9, "contribution": 0.5 / (pair + 1),
                    }
                    for pair in range(3)
                ],
                "pairs_share": 0.9,
            }
        )  # fmt: skip
    return {
        **shared("relative_attention", model=model),
        "family": "gpt2" if is_decoder else "bert", "is_causal": is_decoder,
        "n_layers": n_layers, "n_heads": n_heads, "rows": 128, "input": "positions",
        "offsets": OFFSETS, "position_variance": {"4": 0.45, "12": 0.97},
        "uniform": [1 / 128] * len(OFFSETS), "residuals": {"scores": 4e-15, "trace": 9e-16},
        "null_rotation": {
            "weights": 1e-15, "null_spectra": drawn(0.8), "identified_spectra": 0.0,
            "singular_values": 2e-15,
        },
        "heads": heads,
    }  # fmt: skip


def heads(run: dict, is_decoder: bool) -> dict:
    """Attention mass around one offset or another."""
    n_layers, n_heads = SIZES[is_decoder]
    per_head, kinds = [], ["previous token", "near", "broad"]
    for index in range(n_layers * n_heads):
        lag = -(index % 4) if is_decoder else index % 7 - 3
        mass = np.array([0.5 ** (1 + abs(offset - lag)) / 2 for offset in OFFSETS])
        if is_decoder:
            mass[11:] = 0
        text = (0.9 * mass).tolist()
        per_head.append(
            {
                "layer": index // n_heads, "head": index % n_heads, "mass": mass.tolist(),
                "before": float(1 - mass.sum()), "after": 0.0, "first": estimate(0.1),
                "special": estimate(0.05), "text": text, "text_before": 0.2, "text_after": 0.0,
                "previous": estimate(0.2), "self": estimate(0.1), "next": estimate(0.05),
                "peak": {"offset": lag, "mass": estimate(0.2), "excess": 0.1, "stability": 1.0},
                "mean_offset": lag / 2, "type": kinds[index % 3],
            }
        )  # fmt: skip
    place = {"layer": 0, "head": 2}
    flat = [0.01] * len(OFFSETS)
    return {
        **shared("heads", **run),
        "documents": 120, "tokens": 15142, "confidence": 0.95, "is_causal": is_decoder,
        "n_layers": n_layers, "n_heads": n_heads, "offsets": OFFSETS,
        "uniform": {"mass": flat, "before": 0.5, "after": 0.2, "first": 0.01, "special": 0.01,
                    "text": flat, "text_before": 0.4, "text_after": 0.2},
        "heads": per_head,
        "strongest": {
            name: {**place, **estimate(0.5)} for name in ("previous", "self", "next", "first")
        },
        "types": [
            {"name": kind, "heads": len(per_head) // 3, "first": 0.1, "special": 0.0, "text": flat,
             "text_before": 0.2, "text_after": 0.0}
            for kind in kinds
        ],
        "types_explained": 0.8,
    }  # fmt: skip


def sample_scores(model: str, is_decoder: bool) -> dict:
    """Scores of a sentence of seven tokens, which fall with distance where there are positions."""
    n_layers, n_heads = SIZES[is_decoder]
    first, last = ("<|endoftext|>", []) if is_decoder else ("[CLS]", ["[SEP]"])
    pieces = [first, "a", "<b>", "&", "猫", "sat", *last]
    place = np.arange(len(pieces))
    seen = np.tri(len(place), dtype=bool) if is_decoder else np.ones([len(place)] * 2, bool)

    def head(layer: int, index: int, slope: float) -> str:
        content = np.sin(1.7 * (place + layer)[:, None] * (place + index + 1))
        scores = content - slope * (1 + index) * np.abs(place[:, None] - place)
        return " ".join(f"{score:.2f}" for score in scores[seen])

    return {
        **shared("sample_scores", model=model), "documents": 1, "tokens": len(pieces),
        "is_causal": is_decoder, "n_layers": n_layers, "n_heads": n_heads, "pieces": pieces,
        "conditions": [
            {
                "condition": name,
                "layers": [[head(layer, index, slope) for index in range(n_heads)]
                           for layer in range(n_layers)],
            }
            for name, slope in (("intact", 0.3), ("zero", 0.0))
        ],
    }  # fmt: skip


def lags(models: dict[str, bool], datasets: list[str]) -> dict:
    """Offsets that are found where they are predicted, but for a few."""
    agreement = {"share": estimate(0.4), "chance": estimate(0.1), "p": 0.001}

    def compared(predicted: str, observed: str, **others) -> dict:
        return {
            "predicted": predicted, "found": observed, "heads": 16, "spearman": estimate(0.6, 0.2),
            "pearson": estimate(0.5, 0.2), "reason": None, "undefined": 0.0, **others,
        }  # fmt: skip

    def layers() -> dict:
        return {
            "over_layers": {"spearman": estimate(0.6, 0.3), "p": 0.01, "undefined": 0.0},
            "by_layer": [{"layer": 0, "spearman": 0.8}, {"layer": 1, "spearman": None},
                         {"layer": 2, "spearman": 0.2}],
        }  # fmt: skip

    def results() -> dict:
        return {name: {**of_heads, **layers()} for name, of_heads in first_layer().items()}

    def first_layer() -> dict:
        return {
            "peak": compared("score_peak", "peak", agreement=agreement),
            "profile_peak": compared("profile_peak", "peak", agreement=agreement),
            "peak_mean": compared("score_peak", "mean"),
            "profile_mean": compared("profile_mean", "mean"),
        }

    def points(model: str, is_decoder: bool) -> list[dict]:
        n_layers, n_heads = SIZES[is_decoder]
        return [
            {
                "model": model, "layer": index // n_heads, "head": index % n_heads,
                "score_peak": -(index % 4), "profile_peak": -(index % 4),
                "profile_mean": -(index % 4) - 0.5, "peak": -(index % 3), "mean": -(index % 4) / 2,
                "stability": 1.0,
            }
            for index in range(n_layers * n_heads)
        ]  # fmt: skip

    groups = [[model] for model in models] + ([list(models)] if len(models) > 1 else [])
    comparisons = []
    for dataset in datasets:
        for group in groups:
            here = [point for model in group for point in points(model, models[model])]
            comparisons.append(
                {
                    "run": {"models": group, "dataset": dataset, "condition": "intact"},
                    "heads": len(here), "results": results(), "first_layer": first_layer(),
                    "held_out": {"chosen": "profile_mean", "even": estimate(0.7, 0.2),
                                 "odd": estimate(0.5, 0.3)},
                    "points": here,
                }
            )  # fmt: skip
    comparisons.sort(key=lambda comparison: len(comparison["run"]["models"]))
    return {**shared("lags"), "confidence": 0.95, "comparisons": comparisons}


TRAINED = {
    "steps": 200, "tokens_seen": 204_800, "final_training_loss": 1.9, "final_validation_loss": 1.8,
}  # fmt: skip


def probes(run: dict, is_decoder: bool, scheme: str | None = None) -> dict:
    """Errors that grow with depth, but fall without positions."""
    n_states = SIZES[is_decoder][0] + 1
    ends = (30.0, 18.0) if run.get("condition") == "zero" else (4.0, 15.0)
    layers = []
    for index, name in enumerate(names(n_states - 1)):
        error = falling(index, n_states, *ends)
        has_control = index in (0, n_states - 1)
        kinds = {"ridge": error + 1, "relu": error, "ridge_control": 31.5, "relu_control": 31.4}
        chosen = {key: value for key, value in kinds.items() if has_control or "relu_c" not in key}
        order = {"logistic": error / 70, "relu": error / 80, "logistic_control": 0.5,
                 "relu_control": 0.49}  # fmt: skip
        layers.append(
            {
                "layer": index,
                "name": name,
                "position": {
                    **{key: estimate(chosen[key], 0.6) if key in chosen else None for key in kinds},
                    "gain": {key: estimate(31 - value, 0.6) for key, value in chosen.items()},
                },
                "order": {
                    key: estimate(value) if has_control or key != "relu_control" else None
                    for key, value in order.items()
                },
            }
        )
    common = shared("scheme_probes" if scheme else "probes", **run)
    return {
        **common, **({"scheme": scheme, "training": TRAINED} if scheme else {}),
        "documents": 120, "tokens": 3000, "pairs": 2000, "positions": 128, "d_model": 128,
        "confidence": 0.95, "chance": {"position": estimate(31.0, 0.8), "order": 0.5},
        "relu_control_layers": [0, n_states - 1], "layers": layers,
    }  # fmt: skip


UNDER = ("zero_alibi", "zero_closed", "placebo_heads", "zero_fitted", "fitted")
"""Conditions of the study whose states are probed."""


def causal_probes(model: str, dataset: str, is_decoder: bool) -> dict:
    """Errors that fall where tokens can be counted, and only inside the receptive field."""
    n_states = SIZES[is_decoder][0] + 1
    ends = {"intact": (4.0, 12.0), "zero": (30.0, 18.0), "random": (31.0, 17.0)}
    if is_decoder:
        ends |= {"non_causal": (30.0, 29.0), "no_first_key": (30.0, 18.5)}
        ends |= {f"window_{width}": (30.0, 29.0 - width / 8) for width in (4, 16, 64)}
        ends |= {name: (30.0, 17.5 - place) for place, name in enumerate(UNDER)}
    variants = []
    for name, (start, end) in ends.items():
        width = int(name.split("_")[1]) if name.startswith("window") else None
        layers = []
        for layer, called in enumerate(names(n_states - 1)):
            error, zero = (falling(layer, n_states, *e) for e in ((start, end), ends["zero"]))
            beyond = (
                {
                    "tokens": 900,
                    "error": estimate(error, 0.6),
                    "causal": estimate(zero, 0.6),
                    "embedding": estimate(30.0, 0.6),
                    "chance": estimate(31.0, 0.6),
                    "difference": estimate(error - zero, 0.6),
                    "gain": estimate(30.0 - error, 0.6),
                }
                if width and layer
                else None
            )
            layers.append(
                {
                    "layer": layer,
                    "name": called,
                    "error": estimate(error, 0.6),
                    "difference": estimate(error - zero, 0.6),
                    "inside": None,
                    "beyond": beyond,
                    "field": layer * (width - 1) + 1 if beyond else None,
                }
            )
        spec = {"position": "zero"} if name in UNDER else None
        variants.append({"variant": name, "window": width, "spec": spec, "layers": layers})
    return {
        **shared("causal_probes", model=model, dataset=dataset), "documents": 40, "tokens": 2000,
        "positions": 128, "d_model": 128, "confidence": 0.95, "chance": estimate(31.5, 0.6),
        "variants": variants,
    }  # fmt: skip


def rotation_terms(model: str, dataset: str) -> dict:
    """All of first order explains most; means of other heads explain nothing."""
    n_layers, n_heads = SIZES[True]
    sums = {"mask": 0.5, "mask_key": 0.6, "mask_query": 0.7, "first_order": 0.9}
    lower = {"own": 0.0, "no_first": 0.1, "neighbours": 0.5, "other_heads": 1.5}

    def row(means: str, layer: int) -> dict:
        return {name: estimate(v - lower[means] - 0.01 * layer) for name, v in sums.items()}

    return {
        **shared("rotation_terms", model=model, dataset=dataset),
        "n_layers": n_layers, "n_heads": n_heads, "documents": 12, "tokens": 1500,
        "confidence": 0.95,
        "explained": [
            {"means": means, "weights": weights, "all": row(means, 0),
             "layers": [{"layer": layer, **row(means, layer)} for layer in range(n_layers)]}
            for means in lower for weights in ("pairs", "attention")
        ],
        "heads": [
            {"layer": layer, "head": head, **{name: v - 0.01 * head for name, v in sums.items()}}
            for layer in range(n_layers) for head in range(n_heads)
        ],
    }  # fmt: skip


def score_parts(model: str, dataset: str, is_decoder: bool) -> dict:
    """Curves that fall with distance, which the closed form follows."""
    n_layers, n_heads = SIZES[is_decoder]
    terms = {
        "content": 0.5, "mask": 0.3, "interaction": 0.35, "content_mask": 0.01,
        "content_interaction": -0.14, "mask_interaction": -0.02,
    }  # fmt: skip
    distance = np.arange(64)

    def curves(scale: float) -> dict:
        past = [*(-scale * distance[:-1] / 16).round(4).tolist(), None]
        future = {} if is_decoder else {"future": [None, *(-scale * distance[1:] / 20).tolist()]}
        return {"past": past, **future, "first_key": [0.5] * 64}

    def row(layer: int) -> dict:
        """The shares sum to 1."""
        moved = {"content": 0.01 * layer, "content_interaction": -0.01 * layer}
        return {name: estimate(value - moved.get(name, 0)) for name, value in terms.items()}

    return {
        **shared("score_parts", model=model, dataset=dataset),
        "is_causal": is_decoder, "is_rotary": False, "n_layers": n_layers, "n_heads": n_heads,
        "documents": 12, "tokens": 1500, "confidence": 0.95,
        "r2": {
            "median": estimate(0.97), "shuffled": estimate(-0.9), "first_key": estimate(0.6),
            "high": 0.95, "high_share": estimate(0.8),
            "layers": [estimate(0.97 - 0.01 * layer) for layer in range(n_layers)],
            "learning": [
                {"documents": count, "tokens": 120 * count, "median": estimate(0.97 - 0.1 / count)}
                for count in (1, 2, 4, 8, 12)
            ],
        },
        "shares": [
            {"weights": weights, "within_query": within, "correlation": estimate(0.8),
             "content_correlation": estimate(0.7),
             "placebo": {} if within else {"heads": estimate(0.6), "layers": estimate(0.65)},
             "all": row(0), "layers": [{"layer": layer, **row(layer)} for layer in range(n_layers)]}
            for weights in ("pairs", "attention") for within in (False, True)
        ],
        "heads": [
            {"layer": layer, "head": head, "r2": 0.97 - 0.01 * layer, "correlation": 0.8,
             "shares": terms, "measured": curves(1 + head), "closed_form": curves(1.1 + head)}
            for layer in range(n_layers) for head in range(n_heads)
        ],
    }  # fmt: skip


def induction(model: str, dataset: str, specs: dict) -> dict:
    """Rotary models copy: a mask brings half of it back."""
    is_rotary = model == "smollm2"
    gains = {name: (5.0 if is_rotary else 0.0) for name in specs} | {"zero": 0.0}
    if is_rotary:
        gains |= {"intact": 10.0}
    entries = [
        {
            "condition": name,
            "spec": spec or {},
            "first": estimate(11.0, 0.2),
            "again": estimate(11.0 - gains[name], 0.2),
            "gain": estimate(gains[name], 0.2),
            "reordered": estimate(gains[name] / 20, 0.2),
            "recovered": estimate(gains[name] / 10) if is_rotary else None,
            "previous": estimate(0.02 + gains[name] / 20),
            "induction": estimate(0.01 + gains[name] / 20),
            "reason": None,
        }
        for name, spec in specs.items()
    ]
    return {
        **shared("induction", model=model, dataset=dataset),
        "documents": 24, "tokens": 1560, "confidence": 0.95, "period": 32,
        "heads": {kind: [{"layer": 1, "head": 0, "score": 0.5}] for kind in
                  ("previous", "induction")},
        "uniform": {"previous": 0.06, "induction": 0.02}, "conditions": entries,
    }  # fmt: skip


def swaps(model: str, dataset: str, specs: dict) -> dict:
    """Without positions half of the margin is left, in later tokens nothing."""
    margins = dict.fromkeys(specs, 6.0) | {"zero": 4.0, "intact": 8.0}

    def at(distance: int, margin: float) -> dict:
        return {
            "distance": distance,
            "preference": {"value": margin / 8, "low": margin / 10, "high": 1.0},
            "margin": estimate(margin * distance, 0.2),
            "recovered": estimate(margin / 4 - 1),
            "later": estimate(margin / 4 - 1),
            "later_recovered": estimate(margin / 4 - 1),
        }

    return {
        **shared("swaps", model=model, dataset=dataset),
        "documents": 25,
        "tokens": 1245,
        "confidence": 0.95,
        "swaps": 25,
        "conditions": [
            {
                "condition": name,
                "spec": spec or {},
                "distances": [at(1, margins[name]), at(4, margins[name])],
            }
            for name, spec in specs.items()
        ],
    }


def joint_order(model: str, dataset: str, specs: dict) -> dict:
    """Without positions some order is lost, after another beginning more."""
    lost = {name: 0.1 * place for place, name in enumerate((*specs, "other"))}

    def entry(name: str) -> dict:
        shares = ("repeats", "order", "places", "interaction", "additive", "agreement",
                  "correlation", "interaction_correlation")  # fmt: skip
        nats = ("dependence", "divergence", "log_ratio", "words_lost", "order_lost")
        return {
            "mass_first": estimate(0.6),
            "mass": estimate(0.2),
            "distances": [
                {
                    "distance": distance,
                    **{part: estimate(0.9 - 0.02 * n * distance) for n, part in enumerate(shares)},
                    **{part: estimate(lost[name] * (n + distance)) for n, part in enumerate(nats)},
                    **({} if name == "other" else {"recovered": estimate(0.7)}),
                }
                for distance in (1, 2)
            ],
        }

    return {
        **shared("joint_order", model=model, dataset=dataset),
        "documents": 25, "tokens": 412, "candidates": 12, "confidence": 0.95,
        "conditions": [
            {"condition": name, "spec": spec or {}, **entry(name)} for name, spec in specs.items()
        ],
        "other": entry("other"),
    }  # fmt: skip


def token_classes(model: str, dataset: str, specs: dict) -> dict:
    """The first class of each factor pays most."""

    def factor(name: str, classes: tuple[str, ...], cost: float) -> dict:
        levels = [
            {
                "class": level, "tokens": 500, "documents": 30,
                "mean": estimate(cost / (place + 1)), "adjusted": estimate(cost / (place + 2)),
                "share": estimate(1 / len(classes)),
            }
            for place, level in enumerate(classes)
        ]  # fmt: skip
        return {"factor": name, "alone": 0.02, "unique": 0.01, "classes": levels}

    costs = {name: 0.1 * place for place, name in enumerate(specs) if name != "intact"}
    return {
        **shared("token_classes", model=model, dataset=dataset),
        "documents": 30, "tokens": 2000, "confidence": 0.95,
        "positions": "rotation" if model == "smollm2" else "table",
        "intact": estimate(3.0),
        "conditions": [
            {
                "condition": name, "spec": specs[name] or {}, "delta_nll": estimate(cost),
                "explained": 0.03, "permuted": 0.001,
                "factors": [factor(*item, cost) for item in FACTORS.items()],
            }
            for name, cost in costs.items()
        ],
    }  # fmt: skip


def choices(model: str, dataset: str, specs: dict) -> dict:
    """A model that a question helps, and that answers worse without positions."""
    intact, without = {"mc1": 0.5, "mc2": 0.55, "nll": 3.0}, {"mc1": 0.3, "mc2": 0.4, "nll": 4.0}
    other, level = {"mc1": 0.3, "mc2": 0.4, "nll": 4.5}, {"mc1": 0.25, "mc2": 0.5}
    entries = []
    for name, spec in specs.items():
        scores = without if name == "zero" else intact
        entry = {"condition": name, "spec": spec or {}, "recovered": estimate(4.0 - scores["nll"])}
        for part, value in scores.items():
            entry[part] = estimate(value, 0.02)
            entry[f"delta_{part}"] = estimate(value - intact[part], 0.02)
            entry[f"delta_{part}_categories"] = estimate(value - intact[part], 0.04)
            entry[f"{part}_other"] = estimate(other[part], 0.02)
            entry[f"{part}_question"] = estimate(value - other[part], 0.02)
            if part in level:
                entry[f"{part}_chance"] = estimate(value - level[part], 0.02)
        entries.append(entry)
    return {
        **shared("choices", model=model, dataset=dataset),
        "documents": 16, "tokens": 1780, "confidence": 0.95, "too_long": 0, "answers": 64,
        "chance": level, "conditions": entries,
    }  # fmt: skip


def random_causal() -> dict:
    """The law in the first layer, and less of it in later ones."""
    place = np.arange(1, 129)

    def layer(index: int, exponent: float) -> dict:
        scaled = place ** (1 + exponent)
        spread = {"mean": 0.04, "sd": 0.01}
        return {
            "layer": index,
            "first_variance": {"mean": 0.001, "sd": 0.0001},
            "scaled": {"mean": scaled.tolist(), "sd": (0.05 * scaled).tolist()},
            "deviation": {"mean": spread, "largest": spread},
            "exponent": {"mean": exponent, "sd": 0.016},
        }

    variants = [
        {"name": name, "description": name, "layers": [layer(0, -1.0), layer(1, -0.6)]}
        for name in ("none", "random", "bidirectional")
    ]
    return {
        **shared("random_causal"), "models": 5, "sequences": 8, "tokens": 128, "n_layers": 2,
        "n_heads": 4, "d_model": 256, "law": {"scaled": 1.0, "exponent": -1.0},
        "variants": variants,
    }  # fmt: skip


def components(run: dict, is_decoder: bool) -> dict:
    """Components by layer, of which one is position."""
    n_states = SIZES[is_decoder][0] + 1
    shares = (0.3 * 0.7 ** np.arange(12)).tolist()
    layers = [
        {
            "layer": index, "name": name,
            "principal": {
                "position_share": shares, "position_share_shuffled": [0.01] * 12,
                "variance_share": shares, "cumulative_share": np.cumsum(shares).tolist(),
            },
            "independent": {
                "position_share": [0.9, *shares[1:]], "position_share_shuffled": [0.01] * 12,
                "largest_share": drawn(0.9), "converged": index != 2, "iterations": 16, "rank": 12,
                "halves_converged": True, "amari_between_halves": [0.02 + 0.01 * index] * 10,
            },
            "canonical": {
                "in_sample": [0.95] * 8,
                "held_out": [estimate(falling(index, n_states, 0.9, 0.4))] * 8,
                "shuffled": [estimate(0.0, 0.03)] * 8,
            },
        }
        for index, name in enumerate(names(n_states - 1))
    ]  # fmt: skip
    return {
        **shared("components", **run),
        "documents": 120, "tokens": 6000, "confidence": 0.95, "components": 12, "positions": 128,
        "periods": [256.0, 128.0, 85.3, 64.0], "folds": 5, "shuffles": 20, "amari_chance": 0.37,
        "amari_between_halves": drawn(0.05), "layers": layers,
    }  # fmt: skip


def spectra(run: dict, is_decoder: bool, window: int = 64) -> dict:
    """Power that falls with the frequency; questions are shorter than a window."""
    if "questions" in run["dataset"]:
        return {
            **shared("spectra", **run), "status": "not run", "documents": 0, "tokens": 0,
            "reason": "fewer than two documents have as many tokens as the window",
        }  # fmt: skip
    n_layers, n_heads = SIZES[is_decoder]
    frequency = np.arange(window // 2 + 1) / window
    power = 0.2 / (1 + 40 * frequency)

    def quantity(layers: int, of_heads: bool) -> dict:
        numbers = {
            "power": [power.tolist()] * layers,
            "relative_power": [(power[1:] / power[1:].sum()).tolist()] * layers,
            "constant_to_varying": [0.3] * layers,
            "constant": [estimate(0.2)] * layers,
            "band_shares": [[estimate(0.4), estimate(0.35), estimate(0.25)]] * layers,
            "locked": [(0.9 - frequency).tolist()] * layers,
        }
        return numbers | ({"heads": [[power.tolist()] * n_heads] * layers} if of_heads else {})

    distances = [[estimate(0.5), estimate(0.3), estimate(0.4)]] * n_layers
    return {
        **shared("spectra", **run),
        "confidence": 0.95, "window": window, "documents": 120, "windows": 212,
        "tokens": 212 * window, "first_tokens": [1], "frequencies": frequency.tolist(),
        "bands": BANDS, "chance_before_correction": 1 / 120,
        "quantities": {
            "hidden_states": quantity(n_layers + 1, False), "queries": quantity(n_layers, True),
            "keys": quantity(n_layers, True),
        },
        "band_pass": {
            "status": "measured", "reason": None, "kept": distances, "left_out": distances,
            "uniform": [estimate(0.7)] * n_layers, "all_frequencies": 2e-7,
            "heads": {"kept": [[[0.5] * 3] * n_heads] * n_layers,
                      "left_out": [[[0.5] * 3] * n_heads] * n_layers,
                      "uniform": [[0.7] * n_heads] * n_layers},
        },
    }  # fmt: skip


def filtered_loss(model: str, dataset: str, is_decoder: bool) -> dict:
    """The slower a band, the more it costs; controls cost less, and later layers too."""
    n_layers = 4 if is_decoder else 6

    def part(value: float) -> dict:
        return {
            "delta_nll": estimate(value) if is_decoder else None,
            "distance": estimate(value / 8),
        }

    def costs(value: float) -> dict:
        parts = {"cost": part(value)}
        for control, share in (("random", 0.4), ("scaled", 0.7)):
            parts[control] = part(share * value)
            parts[f"beyond_{control}"] = part((1 - share) * value)
        return parts

    filters = [
        {
            "band": band, "way": way, "share": 0.25, **costs(value),
            "layers": [{"layer": layer, **costs(value / (2 + layer))} for layer in range(n_layers)],
        }
        for band, size in (("mean", 0.5), (0, 0.4), (1, 0.3), (2, 0.2))
        for way, value in (("kept", 1 - size), ("left_out", size))
    ]  # fmt: skip
    return {
        **shared("filtered_loss", model=model, dataset=dataset), "is_causal": is_decoder,
        "n_layers": n_layers, "documents": 8, "tokens": 700, "confidence": 0.95,
        "bands": [0.0, 0.0234375, 0.1171875, 0.5],
        "nll": estimate(3.0) if is_decoder else None, "filters": filters,
    }  # fmt: skip


def position_interventions(model: str, dataset: str, is_decoder: bool) -> dict:
    """The later, the less is lost by removal, and the less comes back by injection."""
    n_layers = 4 if is_decoder else 6

    def part(share: float) -> dict:
        return {"delta_nll": estimate(0.5 * share) if is_decoder else None,
                "distance": estimate(0.25 * share), "share": estimate(share)}  # fmt: skip

    def costs(own: float) -> dict:
        parts = {"own": part(own)}
        for control, share in (("permuted", 1.1), ("offset", 0.7)):
            parts[control] = part(share)
            parts[f"beyond_{control}"] = part(own - share)
        return parts

    def row(layer: int) -> dict:
        early = 1 - layer / (1 + n_layers)
        return {"position": 3 + early, "offset": 2.0, "states": 10.0, "alignment": early,
                "removed": costs(early), "injected": costs(1 - early)}  # fmt: skip

    layers = [
        {"layer": layer, **row(layer), "withheld": costs(0.1 + 0.05 * layer)}
        for layer in range(n_layers)
    ]
    return {
        **shared("position_interventions", model=model, dataset=dataset), "is_causal": is_decoder,
        "n_layers": n_layers, "documents": 16, "tokens": 1000, "positions": 64,
        "calibration": 16, "confidence": 0.95, "nll": estimate(3.0) if is_decoder else None,
        "without": part(1.0), "layers": layers, "output": row(n_layers),
    }  # fmt: skip


def savings(model: str, dataset: str, is_decoder: bool, place: str) -> dict:
    """Further offsets change more; nothing is changed by turning on, or without positions."""
    n_layers = 4 if is_decoder else 6
    table = 0 if place == "rotation" else 4096

    def kinds(keys: float, values: float) -> dict:
        return {
            name: {"mean": estimate(change, 0.01 * change), "largest": 2 * change}
            for name, change in (("keys", keys), ("values", values))
        }

    def entry(way: str, offset: int, keys: float, values: float) -> dict:
        layers = [
            {"layer": layer, **kinds(keys / (1 + layer), values / (1 + layer))}
            for layer in range(n_layers)
        ]
        kept = ((keys < 0.001) + (values < 0.001)) / 2
        return {"way": way, "offset": offset, "kept": kept, **kinds(keys, values), "layers": layers}

    caches = []
    for offset in (1, 16, 64):
        caches.append(entry("intact", offset, 0.1 + offset / 100, 0.2 if table else 1e-6))
        if not table:
            caches.append(entry("turned", offset, 1e-6, 1e-6))
        caches.append(entry("zero", offset, 0.0, 0.0))
    return {
        **shared("savings", model=model, dataset=dataset), "is_causal": is_decoder,
        "positions": place, "n_layers": n_layers, "documents": 8, "tokens": 384,
        "confidence": 0.95, "bytes_per_entry": 4, "rounded": 2**-11,
        "parameters": {"all": 100000, "positions": table, "share": table / 100000,
                       "bytes": 4 * table},
        "bytes_per_cached_token": 2048, "caches": caches,
    }  # fmt: skip


def layer_norm(model: str, dataset: str, is_decoder: bool) -> dict:
    """All normalisations of an encoder, or of a decoder."""
    n_layers = SIZES[is_decoder][0]
    quantiles = {"0.05": 9.0, "0.25": 10.3, "0.5": 11.0, "0.75": 13.7, "0.95": 17.2}
    frequency = np.arange(64) / 127
    passed = ("before attention", "before MLP") if is_decoder else ("after attention", "after MLP")
    blocks = [(f"block {layer}, {place}", layer) for layer in range(n_layers) for place in passed]
    named = [*blocks, ("last", None)] if is_decoder else [("embedding", None), *blocks]

    def norm(number: int, name: str, layer: int | None) -> dict:
        between = falling(number, len(named), 0.16, 0.08)
        end = 1 - number / len(named)
        return {
            "name": name,
            "layer": layer,
            "scale": {
                "mean": estimate(12.0), "sd": 2.5, "variation": estimate(0.2),
                "correlation": estimate(-0.07), "quantiles": quantiles,
            },
            "variation": estimate(0.2 + 0.05 * number),
            "window": 127, "windows": 104,
            "spectrum": {
                "frequency": frequency.tolist(), "position": (0.1 / (1 + frequency)).tolist(),
                "scaled": [estimate(0.1 / (1 + f), 0.002) for f in frequency],
            },
            "scale_at_first": 8.0,
            "between": {"input": estimate(between), "output": estimate(0.9 * between),
                        "shuffled": estimate(0.0, 0.001)},
            "shares": {"position": estimate(0.1), "rest": estimate(0.89),
                       "shared": estimate(0.01)},
            "gain": {"position": estimate(1.1), "content": estimate(1.0),
                     "shuffled": estimate(1.01), "relative": estimate(1.1 - 0.01 * number)},
            "cosine": {"position": estimate(0.99), "content": estimate(0.97),
                       "shuffled": estimate(0.96)},
            "sources": {"position": estimate(end), "tokens": estimate(0.0),
                        "attention": estimate(0.4 - 0.4 * end), "mlp": estimate(0.6 - 0.6 * end)},
            "content_sources": {"position": estimate(0.01), "tokens": estimate(0.99 * end),
                                "attention": estimate(0.5 - 0.5 * end),
                                "mlp": estimate(0.49 - 0.49 * end)},
        }  # fmt: skip

    return {
        **shared("layer_norm", model=model, dataset=dataset),
        "documents": 120, "tokens": 15022, "confidence": 0.95, "eps": 1e-5, "n_layers": n_layers,
        "placement": "before" if is_decoder else "after", "library_error": 2e-7,
        "norms": [norm(number, *normalisation) for number, normalisation in enumerate(named)],
    }  # fmt: skip
