"""Made-up measurements of experiments, of scaling and of hard attention, in the real format."""

from __future__ import annotations

import itertools

from posenc.experiments.memory_networks import summary as memory_step
from posenc.experiments.memory_networks import trials as memory_trials
from posenc.experiments.pretraining import summary as pretraining_step
from posenc.measurements.scaling import measure as scaling_step
from posenc.measurements.scaling.declaration import Scaling

from .synthetic_positions import estimate, shared

SEEDS = [0, 1, 2]


def over(value: float, half: float = 0.02) -> dict:
    """A result over seeds."""
    values = [value - half / 2, value, value + half / 2]
    return {**estimate(value, half), "sd": half / 2, "values": values}


def head(measurement: str, **run: str) -> dict:
    """The part that all experiments share."""
    return {**shared(measurement, **run), "name": "sample", "seeds": SEEDS, "confidence": 0.95}


def downstream(model: str, dataset: str) -> dict:
    """Word order is seen with positions alone; sentiment gains a little."""
    accuracy = {
        ("sentiment", "intact"): 0.86,
        ("sentiment", "zero"): 0.82,
        ("word_swap", "intact"): 0.9,
        ("word_swap", "zero"): 0.5,
    }
    tasks, methods = ("sentiment", "word_swap"), ("frozen", "fine_tuned")
    places = ("intact", "zero")
    none = {"status": "not run", "reason": "1 of 3 classifiers give all documents one label"}
    return {
        **head("downstream", model=model, dataset=dataset),
        "chance": 0.5,
        "documents": {"training": 240, "validation": 60, "test": 200},
        "max_tokens": 48, "excerpt": "end", "swaps": 4, "trained_layers": None,
        "results": [
            {
                "task": task, "method": method, "positions": place,
                "accuracy": over(accuracy[task, place]),
                "validation_accuracy": over(accuracy[task, place]),
                "accuracy_shuffled": over(0.5 + 0.8 * (accuracy[task, place] - 0.5)),
                "lost": over(0.05), "changed": over(0.1),
                "order_sensitivity": none
                if (task, place) == ("word_swap", "zero")
                else {"status": "measured", "reason": None, **over(0.3)},
            }
            for task, method, place in itertools.product(tasks, methods, places)
        ],
        "gains": [
            {"task": task, "method": method,
             "gain": over(accuracy[task, "intact"] - accuracy[task, "zero"])}
            for task, method in itertools.product(tasks, methods)
        ],
        "control": [
            {"task": "word_swap", "method": method, "positions": place, "correct": 302,
             "documents": 600, "accuracy": estimate(0.503, 0.04), "p_value": 0.87}
            for method, place in (*((method, "zero") for method in methods),
                                  ("bag_of_words", "none"))
        ],
        "bags_of_words": [
            {
                "task": task, "accuracy": over(level), "accuracy_shuffled": over(level),
                "validation_accuracy": over(level), "lost": over(0.0), "changed": over(0.0),
                "order_sensitivity": none,
                "beside": [
                    {"method": method, "positions": place,
                     "gain": over(accuracy[task, place] - level)}
                    for method, place in itertools.product(methods, places)
                ],
            }
            for task, level in (("sentiment", 0.8), ("word_swap", 0.5))
        ],
        "shuffling": [
            {"positions": place, "mean": over(0.2), "largest": 0.4} for place in places
        ],
    }  # fmt: skip


def superposition() -> dict:
    """A network that is right more often than its linear rival, and finds both less often."""
    stages = ("stem", "stage 1", "stage 2", "pooled", "logits")
    shares = {"relu": 0.25, "affine": 0.44, "logistic_regression": 0.6}
    weights = (0.5, 0.7, 0.9)

    def mixture(name: str, weight: float) -> dict:
        both = shares[name] * (1.5 - weight)
        inputs = {"both": over(both), "first": over(0.9), "second": over(both + 0.05)}
        gap = stages if name != "logistic_regression" else ("logits",)
        return {
            "weight": weight, "inputs": inputs,
            "outputs": {key: over(0.77 - (0 if key == "both" else -0.1)) for key in inputs},
            "gap": {stage: over(0.2 * (n + 1) if name == "relu" else 1e-16, 1e-17)
                    for n, stage in enumerate(gap)},
        }  # fmt: skip

    return {
        **head("superposition"),
        "images": {"training": 1077, "validation": 360, "test": 360, "pairs": 400, "classes": 10},
        "chance": {"both": 1 / 45, "one": 0.2, "other": 1 / 9},
        "classifiers": [
            {"name": name, "numbers": 5122, "accuracy": over(0.95),
             "mixtures": [mixture(name, weight) for weight in weights],
             "control": {"both": 40, "first": 380, "share": 0.105, "expected": 1 / 9,
                         "p_value": 0.8}}
            for name in shares
        ],
        "differences": [
            {"weight": weight, "logistic_regression": over(-0.35), "outputs": over(-0.5)}
            for weight in weights
        ],
        "without_relu": [
            {"weight": weight, "gap": {stage: over(1e-16, 1e-17) for stage in stages}}
            for weight in weights
        ],
        "affine_gap": 8e-16,
    }  # fmt: skip


def mixed_images() -> dict:
    """Classes are lost, and the state of an average tells the two until late."""
    weights, tops = (
        (0.5, 0.7, 1.0),
        [(among, top) for among in ("all", "pictures") for top in (2, 5)],
    )
    stages = ("pixels", "stem", *(f"stage {n}" for n in range(1, 8)), "pooled", "logits")

    def found(weight: float, among: str, top: int) -> dict:
        both = (1.1 - weight) * (0.3 if among == "pictures" else 0.02) * top / 2
        shares = {
            "both": both, "first": 0.4, "second": 0.3, "either": 0.6 + both, "outputs": 0.65 + both,
            "others": 0.001 * top, "absent": both / 5, "lost": 0.65, "beyond_absent": 0.8 * both,
        }  # fmt: skip
        return {
            "among": among,
            "top": top,
            **{key: estimate(share) for key, share in shares.items()},
        }

    def stage(depth: int, loss: float) -> dict:
        inputs = max(1 - loss * depth**2, 0.0)
        return {"gap": estimate(loss + 0.06 * depth), "inputs": estimate(inputs),
                "outputs": estimate(1 - loss)}  # fmt: skip

    return {
        **shared("mixed_images"),
        "network": {"name": "efficientnet-lite0", "numbers": 4652008, "classes": 1000},
        "images": [
            {"file": f"{n}.jpg", "class": n, "highest": n, "recognised": True} for n in range(20)
        ],
        "recognised": 18, "pairs": 153, "confidence": 0.95,
        "chance": {"both": 1 / 190, "one": 0.1, "other": 1 / 19},
        "mixtures": [
            {"weight": weight, "found": [found(weight, *ranking) for ranking in tops],
             "faded": [{"top": top, "share": estimate(0.9 + top / 100)} for top in (2, 5)]}
            for weight in weights
        ],
        "stages": [
            {"stage": name, "trained": stage(depth, 0.005), "untrained": stage(depth, 0.02),
             "difference": estimate(0.1 * depth)}
            for depth, name in enumerate(stages)
        ],
        "published": {"classifier": "ResNet-50", "images": ["panda", "banana"], "weight": 0.5,
                      "found": 0, "both": 0.0},
    }  # fmt: skip


def embedding_sums(model: str, is_decoder: bool) -> dict:
    """More dimensions find more; random rows are found before learned ones."""
    width = 128 if is_decoder else 384
    widths = [4, 16, 64, width]

    def recall(share: float) -> dict:
        part = {"both": estimate(share), "first": estimate(share), "second": estimate(share)}
        return {"cosine": part, "inner_product": part}

    def table(most: float, widths: list[int]) -> list[dict]:
        return [
            {
                "dimensions": d,
                "weights": [{"weight": w, **recall(most * d / (d + 20))} for w in (0.5, 0.7)],
            }
            for d in widths
        ]

    return {
        **shared("embedding_sums", model=model), "confidence": 0.95,
        "pairs": 200, "rows": 1024, "zero_rows": 0, "d_model": width, "chance": 2e-6,
        "model": table(0.8, widths), "centred": table(0.85, [width]),
        "gaussian": table(1.0, widths),
        "expected": [
            {"dimensions": d, "weights": [{"weight": w, "both": d / (d + 20)} for w in (0.5, 0.7)]}
            for d in widths
        ],
        "needed_dimensions": [{"weight": w, "dimensions": 41.0} for w in (0.5, 0.7)],
    }  # fmt: skip


def choice() -> dict:
    """The higher of two rates, and the last step of a training that still learned."""
    curve = [{"step": step, "bits_per_byte": 3 - step / 60} for step in (20, 40, 60)]
    tried = [{"learning_rate": 0.004 * n, "bits_per_byte": 2.4 - 0.1 * n} for n in (1, 2)]
    return {
        "tried": tried, "learning_rate": 0.008, "best_step": 60, "steps": 60,
        "bits_per_byte": 2.0, "curve": curve, "fall": 0.14, "flat": False,
    }  # fmt: skip


def tokenizers(datasets: list[str]) -> dict:
    """BPE needs the fewest bits."""
    kinds = {"whitespace": 3.0, "character": 2.4, "bpe": 2.0, "unigram": 2.1}
    variants = [
        (dataset, form, kind)
        for dataset in datasets
        for form in (("none", "NFKC") if dataset.endswith("japanese") else ("none",))
        for kind in kinds
    ]

    def bits(kind: str, factor: float = 1.0) -> dict:
        parts = {"total": 1.0, "model": 0.9, "spelling": 0.1}
        return {part: over(factor * kinds[kind] * share) for part, share in parts.items()}

    size = {"documents": 100, "words": 9000, "characters": 50000, "bytes": 51000}
    return {
        **head("tokenizers"),
        "tokenizers": [
            {
                "dataset": dataset, "normalization": form, "kind": kind, "vocabulary": 600,
                "merged_by_nfkc": 4, "embedding_parameters": 38400, "body_parameters": 100000,
                "training": size, "test": size, 
                "changed": {"documents": 0.5, "characters": 0.02, "bytes": 1.01},
                "tokens": 20000,
                "fertility": {"per_word": 2.2, "per_character": kinds[kind] / 9, "per_byte": 0.39},
                "unknown": {"tokens": 0.02, "bytes": 0.03} if kind == "whitespace"
                else {"tokens": 0.0, "bytes": 0.0},
                "round_trip": 1.0, "rebuilt": 1.0, "uniform_bits_per_byte": 4.0,
                "bits_per_byte": bits(kind), "bits_per_original_byte": bits(kind, 0.95),
                "training_bytes": [100000] * 3, "fall": over(0.03), "ended": 1,
                "choices": [choice()] * 3,
            }
            for dataset, form, kind in variants
        ],
        "differences": [
            {"dataset": dataset, "normalization": form, "kind": kind, "reference": "bpe",
             "bits_per_byte": over(kinds[kind] - 2)}
            for dataset, form, kind in variants if kind != "bpe"
        ],
        "normalizations": [
            {"dataset": dataset, "kind": kind, "bits_per_byte": over(-0.05),
             "bits_per_original_byte": over(-0.1)}
            for dataset, form, kind in variants if form == "NFKC"
        ],
    }  # fmt: skip


def scaling() -> dict:
    """A real measurement: it needs no data."""
    parameters = Scaling(
        dimensions=[1, 4, 16, 64, 256, 512], keys=8, queries=100, confidence=0.95, seed=0
    )
    return {**shared("scaling"), **scaling_step.measure(parameters).as_json()}


def exchanged_roles(model: str, is_decoder: bool) -> dict:
    """Exchanged names are nearer than a paraphrase; without positions an encoder has 1."""

    def condition(name: str, language: str) -> dict:
        exact = name == "zero" and not is_decoder
        shift = 0.01 * (language == "japanese") + 0.002 * (name == "zero")
        return {
            "condition": name,
            "exchanged": estimate(1.0 if exact else 0.98 - shift),
            "paraphrase": estimate(0.9 - shift),
            "unrelated": estimate(0.3 - shift),
            "nearer": 0.97 - shift,
        }

    return {
        **shared("exchanged_roles", model=model), "documents": 398, "tokens": 4000,
        "confidence": 0.95,
        "languages": [
            {
                "language": language, "pairs": pairs, "left_out": 200 - pairs, "status": "measured",
                "reason": None,
                "conditions": [condition(positions, language) for positions in ("intact", "zero")],
            }
            for language, pairs in (("english", 200), ("japanese", 198))
        ],
    }  # fmt: skip


def effective_keys(model: str, dataset: str, is_decoder: bool) -> dict:
    """Fewer keys in later layers, and a loss that falls with the keys that are read."""
    n_layers, n_heads = (4, 4) if is_decoder else (6, 12)

    def row(keys: float) -> dict:
        values = {"keys": keys, "others": 1.5 * keys, "first": 0.3, "largest": 0.4}
        return {name: estimate(value) for name, value in values.items()}

    reading = [
        {
            "choice": choice, "keys": keys, "cosine": estimate(1 - cost / (keys or 100) / 4),
            "nll": estimate(3.0) if is_decoder else None,
            "delta_nll": estimate(cost / (keys or 100)) if is_decoder else None,
        }
        for choice, cost in (("every", 0.0), ("strongest", 1.0), ("nearest", 2.0),
                             ("first_nearest", 1.5), ("random", 3.0))
        for keys in ([None] if choice == "every" else [1, 4, 16])
    ]  # fmt: skip
    return {
        **shared("effective_keys", model=model, dataset=dataset), "is_causal": is_decoder,
        "n_layers": n_layers, "n_heads": n_heads, "documents": 8, "tokens": 700,
        "confidence": 0.95, "seen": 40.0, **row(10.0),
        "layers": [
            {"layer": layer, **row(12.0 - layer), "heads": [row(12.0 - layer)] * n_heads}
            for layer in range(n_layers)
        ],
        "lengths": [
            {"from": n, "documents": 8, "seen": 1.25 * n, **row(1.5 * n**0.5)} for n in (4, 16, 64)
        ],
        "growth": estimate(0.5),
        "reading": reading,
    }  # fmt: skip


def unrotated_heads(model: str, dataset: str) -> dict:
    """One head costs much, its neighbours little; sets cost by how they are chosen."""
    n_layers, n_heads = 30, 9
    share = {"strongest": 0.9, "weakest": 0.02, "random": 0.2, "only_strongest": 0.4,
             "only_random": 0.8}  # fmt: skip
    return {
        **shared("unrotated_heads", model=model, dataset=dataset), "documents": 24,
        "tokens": 3000, "n_layers": n_layers, "n_heads": n_heads, "confidence": 0.95,
        "nll": estimate(4.0), "all": estimate(2.0),
        "keys": [{"key": key, "delta_nll": estimate(1 / (1 + key))} for key in (0, 1, 4, 16)],
        "layers": [{"layer": layer, "delta_nll": estimate(0.1)} for layer in range(n_layers)],
        "heads": [
            {"layer": layer, "head": head, "delta_nll": estimate(1 / (1 + 9 * layer + head))}
            for layer in range(n_layers) for head in range(n_heads)
        ],
        "agreement_of_halves": 0.7, "tried": 12,
        "sets": [
            {"choice": how, "count": count, "draws": 3 if how.endswith("random") else 1,
             "delta_nll": estimate(2 * part * count / 90), "share": estimate(part * count / 90)}
            for count in (9, 27, 81) for how, part in share.items()
        ],
    }  # fmt: skip


def retraining(model: str, dataset: str) -> dict:
    """All get better, most without rotation."""
    steps = [0, 1, 4, 16, 64]
    losses = {
        "intact": [4.0, 3.98, 3.95, 3.9, 3.85],
        "zero": [6.0, 5.9, 5.0, 4.25, 3.98],
        "zero_closed": [4.5, 4.48, 4.4, 4.2, 4.0],
    }
    entries = []
    for name, curve in losses.items():
        rows = [
            {
                "step": step,
                "tokens": 8192 * step,
                "nll": estimate(value),
                "seeds": [value] * 3,
                "above_intact": None if name == "intact" else estimate(value - intact),
            }
            for step, value, intact in zip(steps, curve, losses["intact"], strict=True)
        ]
        entries.append({"condition": name, "spec": {}, "curve": rows, "worth": None})
    worth = {
        "start": {"value": 65536.0, "low": 50000.0, "high": 80000.0},
        "start_above_intact": {"value": 90000.0, "low": 70000.0, "high": None},
        "meets": {"value": None, "low": 400000.0, "high": None},
    }
    entries[2]["worth"] = {
        name: {**interval, "seeds": [None] * 3} for name, interval in worth.items()
    }
    return {
        **shared("retraining", model=model, dataset=dataset), "documents": 64, "tokens": 18000,
        "confidence": 0.95, "conditions": entries, "scored": [], "sums": {},
        "device": "cpu",
        "learned_from": {"dataset": "imdb", "documents": 12000, "sequences": 5000,
                         "tokens_per_step": 8192},
    }  # fmt: skip


def refits(model: str, dataset: str) -> dict:
    """Texts vary more than seeds, and most of what is recovered is position."""
    values = {
        "recovered": 0.8, "interaction": 0.15, "interaction_share": 0.75,
        "placebo_interaction": 0.02, "placebo_interaction_share": 0.1, "beyond_placebo": 0.13,
        "beyond_placebo_share": 0.65,
    }  # fmt: skip
    nll = {
        "fitted": 4.04, "fitted_intact": 3.99, "placebo": 4.17, "placebo_intact": 3.99,
        "intact": 4.0, "without": 4.2,
    }  # fmt: skip
    return {
        **shared("refits", model=model, dataset=dataset), "documents": 250, "tokens": 60000,
        "draws": 3, "seeds": 2, "fitting": 150, "confidence": 0.95,
        "nll": {role: estimate(value) for role, value in nll.items()}, "lost": estimate(0.2),
        **{
            name: {**estimate(value), "between_draws": 0.02, "within_draws": 0.01,
                   "fits": [[0.9 * value, value], [value] * 2, [value, 1.1 * value]]}
            for name, value in values.items()
        },
    }  # fmt: skip


def hard_attention(run: dict, is_decoder: bool) -> dict:
    """A baseline takes most of the variance away."""
    factor = {"none": 1.0, "mean": 0.06, "optimal": 0.05}
    size = 4 if is_decoder else 6
    pattern = {"entropy": estimate(2.0), "uniform": estimate(3.5)}
    readouts = {"soft": estimate(-0.5), "hard": estimate(-0.9), "noise": estimate(1.5),
                "noise_anywhere": estimate(2.5)}  # fmt: skip
    gradient = {"square": estimate(0.005, 0.001), "error": estimate(0.5), "cosine": estimate(0.8)}
    checks = {"weights": 1e-16, "score": 1e-16, "gap": 1e-16}
    exact = {
        **readouts,
        "variance": {name: estimate(0.1 * ratio, 0.01 * ratio) for name, ratio in factor.items()},
        "ratio": {"mean": estimate(0.06), "optimal": estimate(0.05)},
    }
    part = {**pattern, **exact, "values": exact}
    return {
        **shared("hard_attention", **run),
        "is_causal": is_decoder, "n_layers": size, "n_heads": 4, "documents": 40, "tokens": 64,
        "repeats": 100, "confidence": 0.95, **pattern, **readouts,
        "readout_distance": estimate(1.0), "signal": estimate(0.01, 0.002),
        "baselines": [
            {
                "name": name, "value": estimate(-0.9), "ratio": estimate(ratio),
                "over_optimal": estimate(ratio / 0.05), "worse": estimate(0.02),
                "samples_to_signal": estimate(200 * ratio), "samples_to_soft": estimate(90 * ratio),
                "samples": [
                    {"samples": samples, "variance": estimate(0.1 * ratio / samples, 1e-4 * ratio),
                     "simulated": estimate(0.1 * ratio / samples, 1e-4 * ratio),
                     "agreement": estimate(1.0),
                     "bias": {"square": estimate(1.0), "relative": 0.01, "standard_error": 0.01,
                              "z": 0.3}}
                    for samples in (1, 4, 16, 64)
                ],
            }
            for name, ratio in factor.items()
        ],
        "bias": {"tests": 12, "largest": 1.2, "bound": 2.87},
        "soft_gradient": gradient,
        "checks": checks,
        "values": {
            **exact, "signal": estimate(0.01, 0.002), "soft_gradient": gradient, "checks": checks,
            "samples_to_signal": {name: estimate(200 * ratio) for name, ratio in factor.items()},
        },
        "layers": [{"layer": layer, "heads": 1, **part} for layer in range(size)],
        "heads": [{"layer": layer, "head": 0, **part} for layer in range(size)],
    }  # fmt: skip


def pretraining(dataset: str) -> dict:
    """Pre-training helps most."""
    sizes = {"dataset": dataset, "n_layers": 2, "auxiliary_weight": 0.5, "d_model": 64}

    def quality(value: float) -> dict:
        return {"nll": value, "perplexity": 2.7**value, "bits_per_byte": value / 2}

    def file(seed: int) -> dict:
        trials = [
            {
                "variant": {"stage": "pretraining", "architecture": name},
                "parameters": 140000 + (name == "lstm"),
                "validation_loss": 2.0 + 0.01 * seed,
                "best_step": 200,
                "steps": 200,
                "validation": quality(2.0),
                "test": quality(2.1),
                "zero_shot": [
                    {
                        "step": step,
                        "words": 0.5 + step / 1000 + 0.01 * seed,
                        "words_ranked": 0.52 + step / 1000,
                        "control": 0.5 + 0.01 * seed,
                        "control_ranked": 0.51,
                    }
                    for step in (0, 100, 200)
                ],
            }
            for name in ("transformer", "lstm")
        ]
        for name, is_old, weight in itertools.product(
            ("transformer", "lstm"), (True, False), (0.5, 0.0)
        ):
            trials.append(
                {
                    "variant": {
                        "stage": "finetuning",
                        "architecture": name,
                        "pretrained": is_old,
                        "auxiliary_weight": weight,
                    },
                    **outcome(0.6 + 0.2 * is_old + 0.02 * (name == "lstm") + 0.01 * seed),
                }
            )
        for layers in range(2):
            trials.append(
                {
                    "variant": {
                        "stage": "transfer",
                        "architecture": "transformer",
                        "auxiliary_weight": 0.5,
                        "layers": layers,
                    },
                    **outcome(0.62 + 0.05 * layers + 0.01 * seed),
                }
            )
        return {"seed": seed, "trials": trials, "provenance": {"parameters": sizes}}

    def outcome(accuracy: float) -> dict:
        return {
            "parameters": 140000, "accuracy": accuracy, "validation_accuracy": accuracy,
            "validation_loss": 0.5, "test_loss": 0.5, "best_step": 45, "steps": 60,
        }  # fmt: skip

    summary = pretraining_step.summarise([file(seed) for seed in SEEDS], 0.95).as_json()
    return {**head("pretraining", dataset=dataset), **summary}


def memory_networks() -> dict:
    """Word order needs positions, two facts need two hops."""
    tasks = ["one_fact", "two_facts", "order"]

    def error(variant: dict) -> float:
        if variant["network"] in ("majority", "bag_of_words"):
            return 0.8
        if variant["task"] == "order" and variant["positions"] is False:
            return 0.5
        return 0.5 if variant["task"] == "two_facts" and variant["hops"] == 1 else 0.05

    def file(seed: int) -> dict:
        variants = [
            setting for task in tasks for setting in memory_trials.variants(task, [1, 2, 3])
        ]
        return {
            "seed": seed,
            "trials": [
                {
                    "variant": variant, "parameters": 2000,
                    **dict.fromkeys(("error", "validation_error", "training_error"),
                                    error(variant) + 0.01 * seed),
                    **dict.fromkeys(
                        ("facts_found", "facts_in_order"),
                        None if variant["network"] in ("majority", "bag_of_words")
                        else [0.9] * (variant["hops"] or 2),
                    ),
                    "pattern_deviation": None if variant["hops"] is None else 1e-7,
                }
                for variant in variants
            ],
            "provenance": {
                "parameters": {"tasks": tasks, "training_stories": 600, "test_stories": 200}
            },
        }  # fmt: skip

    summary = memory_step.summarise([file(seed) for seed in SEEDS], 0.95)
    return {**head("memory_networks"), **summary.as_json()}
