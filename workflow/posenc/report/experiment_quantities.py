"""Numbers of the experiments that train (A6, B5, D3, D5, E3), of scaling (D4) and of soft and hard
attention (E1, E2), by key.

Keys are those of :mod:`posenc.report.collection`: ``MODEL.downstream.sentiment.frozen.gain``,
``MODEL.embedding_sums.both``, ``MODEL.DATASET.CONDITION.hard_attention.optimal``,
``MODEL.DATASET.effective_keys.strongest.4.delta_nll``,
``tokenizers.DATASET.none.bpe.bits_per_byte``, ``pretraining.effect.pretrained``,
``memory_networks.order.end_to_end.1.words.error`` and so on.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from posenc.report.order_quantities import with_spoken
from posenc.report.position_quantities import estimate
from posenc.report.records import FLOAT64, Entry, NotRun, Number

Facts = dict[str, Entry]
HARD_ATTENTION = (
    "queries", "entropy", "uniform", "soft", "hard", "mean", "optimal", "mean_over_optimal",
    "worse", "samples", "samples_optimal", "noise", "noise_anywhere",
    *(f"values.{name}" for name in ("soft", "hard", "noise", "noise_anywhere", "mean", "optimal",
                                    "samples", "samples_optimal")),
)  # fmt: skip
READ = tuple(f"{choice}.{keys}" for choice in ("strongest", "nearest", "first_nearest", "random")
             for keys in (1, 4, 16))  # fmt: skip
"""Which keys are read, and how many: those that are spoken of."""
COST = ("delta_nll", "cosine")
LENGTHS = (4, 16, 64, 128)
"""Keys that a query sees at least, up to twice as many: those that are spoken of."""
EFFECTIVE_KEYS = (
    "seen", "keys", "others", "first", "largest", "fewest", "fewest.layer", "most", "most.layer",
    "growth", *(f"seen_{length}.{part}" for length in LENGTHS for part in ("keys", "others")),
    *(f"{way}.{part}" for way in READ for part in COST),
)  # fmt: skip
DOWNSTREAM = (
    "seeds", "chance", *(f"documents.{name}" for name in ("training", "validation", "test")),
    *(f"control.{method}.{key}" for method in ("frozen", "fine_tuned", "bag_of_words")
      for key in ("accuracy", "p_value")),
    *(f"{task}.bag_of_words.{key}" for task in ("sentiment", "word_swap")
      for key in ("accuracy", *(f"{positions}.{method}.more" for positions in ("intact", "zero")
                                for method in ("frozen", "fine_tuned")))),
    *(f"{task}.{method}.{key}" for task in ("sentiment", "word_swap")
      for method in ("frozen", "fine_tuned")
      for key in ("gain", *(f"{positions}.{one}" for positions in ("intact", "zero")
                            for one in ("accuracy", "accuracy_shuffled", "changed",
                                        "order_sensitivity")))),
    *(f"shuffled.{positions}.mean_change" for positions in ("intact", "zero")),
)  # fmt: skip
EMBEDDING_SUMS = ("both", "both_centred", "gaussian", "inner_product", "pairs", "rows", "needed")
HALF = 0.5
"""Mixing weight that the text speaks of."""


def percent(value: Mapping[str, Any] | float | None, reason: str = "it is not defined") -> Entry:
    """A share, or a difference of shares, in percent, as such numbers are published."""
    found = estimate(value, reason)
    if isinstance(found, NotRun):
        return found
    if found.low is None or found.high is None:
        return Number(100 * found.value)
    return Number(100 * found.value, 100 * found.low, 100 * found.high)


def _at(entries: list[Mapping[str, Any]], key: str, value: Any) -> Mapping[str, Any]:
    """The entry with a value of a key; the last where none has it."""
    return next((one for one in entries if one[key] == value), entries[-1])


def hard_attention(one: Mapping[str, Any]) -> Facts:
    """Read-outs, and the variance of the gradient with each baseline against that with none.

    First of hidden states, then of values.
    """
    readouts = ("soft", "hard", "noise", "noise_anywhere")
    found: Facts = {"queries": Number(one["tokens"])}
    for key in ("entropy", "uniform", *readouts):
        found[key] = estimate(one[key])
    none, mean, optimal = one["baselines"]
    found["mean"], found["optimal"] = estimate(mean["ratio"]), estimate(optimal["ratio"])
    found["mean_over_optimal"] = estimate(mean["over_optimal"])
    found["worse"] = estimate(mean["worse"])
    found["samples"] = estimate(none["samples_to_signal"])
    found["samples_optimal"] = estimate(optimal["samples_to_signal"])
    values = one["values"]
    found |= {f"values.{key}": estimate(values[key]) for key in readouts}
    found |= {f"values.{key}": estimate(values["ratio"][key]) for key in ("mean", "optimal")}
    samples = values["samples_to_signal"]
    found["values.samples"] = estimate(samples["none"])
    found["values.samples_optimal"] = estimate(samples["optimal"])
    return found


def effective_keys(one: Mapping[str, Any]) -> Facts:
    """How many keys are read, by layer and length, and what reading a few costs."""
    found: Facts = {"seen": Number(one["seen"])}
    found |= {name: estimate(one[name]) for name in ("keys", "others", "first", "largest")}
    for name, of in (("fewest", min), ("most", max)):
        layer = of(one["layers"], key=lambda row: row["keys"]["value"])
        found[name], found[f"{name}.layer"] = estimate(layer["keys"]), Number(layer["layer"])
    found["growth"] = estimate(one["growth"], "documents are too short")
    lengths = {row["from"]: row for row in one["lengths"]}
    for length in LENGTHS:  # other ones are there or not, as the documents of a data set are long
        row = lengths.get(length, {"keys": None, "others": None})
        for part in ("keys", "others"):
            found[f"seen_{length}.{part}"] = estimate(row[part], "documents are too short")
    ways = {
        f"{entry['choice']}.{entry['keys']}": entry
        for entry in one["reading"] if entry["keys"] is not None
    }  # fmt: skip
    for way in with_spoken(READ, ways):
        entry = ways.get(way, dict.fromkeys(COST))
        reason = "an encoder has no loss" if way in ways else "the study does not read so many keys"
        found |= {f"{way}.{part}": estimate(entry[part], reason) for part in COST}
    return found


def embedding_sums(one: Mapping[str, Any]) -> Facts:
    """How often both token embeddings of a sum are found, at the table's own width."""

    def both(entries: list[Mapping[str, Any]], by: str = "cosine") -> Entry:
        return estimate(_at(entries[-1]["weights"], "weight", HALF)[by]["both"])

    return {
        "both": both(one["model"]),
        "both_centred": both(one["centred"]),
        "gaussian": both(one["gaussian"]),
        "inner_product": both(one["model"], "inner_product"),
        "pairs": Number(one["pairs"]),
        "rows": Number(one["rows"]),
        "needed": Number(_at(one["needed_dimensions"], "weight", HALF)["dimensions"]),
    }


def downstream(one: Mapping[str, Any]) -> Facts:
    """Accuracies, what positions gain, and the control."""
    found: Facts = {
        **dict.fromkeys(DOWNSTREAM, NotRun("the experiment has no such task")),
        "seeds": Number(len(one["seeds"])),
        "chance": percent(one["chance"]),
        **{f"documents.{key}": Number(value) for key, value in one["documents"].items()},
    }
    for entry in one["results"]:
        place = f"{entry['task']}.{entry['method']}.{entry['positions']}"
        for key in ("accuracy", "accuracy_shuffled", "changed"):
            found[f"{place}.{key}"] = percent(entry[key])
        sensitivity = entry["order_sensitivity"]
        measured = sensitivity["status"] == "measured"
        found[f"{place}.order_sensitivity"] = estimate(
            sensitivity if measured else None, sensitivity["reason"] or ""
        )
    for entry in one["gains"]:
        found[f"{entry['task']}.{entry['method']}.gain"] = percent(entry["gain"])
    for entry in one["bags_of_words"]:
        bag = f"{entry['task']}.bag_of_words"
        found[f"{bag}.accuracy"] = percent(entry["accuracy"])
        for other in entry["beside"]:
            more = percent(other["gain"])
            found[f"{bag}.{other['positions']}.{other['method']}.more"] = more
    for entry in one["control"]:
        found[f"control.{entry['method']}.accuracy"] = percent(entry["accuracy"])
        found[f"control.{entry['method']}.p_value"] = Number(entry["p_value"])
    for entry in one["shuffling"]:
        found[f"shuffled.{entry['positions']}.mean_change"] = percent(entry["mean"])
    return found


def superposition(one: Mapping[str, Any]) -> Facts:
    """Recall of both images at equal weights, and how far networks are from additive."""
    found: Facts = {
        "seeds": Number(len(one["seeds"])),
        "chance": percent(one["chance"]["both"]),
        "pairs": Number(one["images"]["pairs"]),
        "affine_gap": Number(one["affine_gap"], rounding=FLOAT64),
    }
    for entry in one["classifiers"]:
        place, name = _at(entry["mixtures"], "weight", HALF), entry["name"]
        found[f"{name}.accuracy"] = percent(entry["accuracy"])
        found[f"{name}.both"] = percent(place["inputs"]["both"])
        found[f"{name}.outputs"] = percent(place["outputs"]["both"])
        found[f"{name}.gap"] = estimate(list(place["gap"].values())[-1], rounding=FLOAT64)
        found[f"{name}.numbers"] = Number(entry["numbers"])
    place = _at(one["differences"], "weight", HALF)
    for key in ("logistic_regression", "outputs"):
        found[f"difference.{key}"] = percent(place[key])
    return found


def mixed_images(one: Mapping[str, Any]) -> Facts:
    """What is found of two photographs at equal weights: their classes, and both by stage."""
    found: Facts = {
        "pictures": Number(len(one["images"])),
        "recognised": Number(one["recognised"]),
        "pairs": Number(one["pairs"]),
        "classes": Number(one["network"]["classes"]),
        "chance": percent(one["chance"]["both"]),
        "published": percent(one["published"]["both"]),
    }
    half = _at(one["mixtures"], "weight", HALF)
    for entry in half["faded"]:
        found[f"faded.{entry['top']}"] = percent(entry["share"])
    for entry in half["found"]:
        place = f"{entry['among']}.{entry['top']}"
        for key in ("both", "either", "outputs", "lost", "others", "absent", "beyond_absent"):
            found[f"{place}.{key}"] = percent(entry[key])
    for entry in one["stages"]:
        place = entry["stage"].replace(" ", "_")
        found[f"{place}.difference"] = percent(entry["difference"])
        for network in ("trained", "untrained"):
            found[f"{place}.{network}.both"] = percent(entry[network]["inputs"])
            found[f"{place}.{network}.outputs"] = percent(entry[network]["outputs"])
            found[f"{place}.{network}.gap"] = estimate(entry[network]["gap"])
    return found


def tokenizers(one: Mapping[str, Any]) -> dict[tuple[str, str], Entry]:
    """Bits a byte of the original text, and facts: by data set, and by normalisation and kind."""
    flat = [bool(choice["flat"]) for entry in one["tokenizers"] for choice in entry["choices"]]
    found: dict[tuple[str, str], Entry] = {
        ("", "seeds"): Number(len(one["seeds"])),
        ("", "trainings"): Number(len(flat)),
        ("", "flat"): Number(sum(flat)),
        ("", "ended"): Number(sum(entry["ended"] for entry in one["tokenizers"])),
    }
    for entry in one["tokenizers"]:
        dataset, place = entry["dataset"], f"{entry['normalization']}.{entry['kind']}"
        found[dataset, f"{place}.bits_per_byte"] = estimate(entry["bits_per_byte"]["total"])
        found[dataset, f"{place}.bits_per_original_byte"] = estimate(
            entry["bits_per_original_byte"]["total"]
        )
        found[dataset, f"{place}.spelling"] = estimate(entry["bits_per_byte"]["spelling"])
        found[dataset, f"{place}.vocabulary"] = Number(entry["vocabulary"])
        found[dataset, f"{place}.tokens_per_byte"] = Number(entry["fertility"]["per_byte"])
        found[dataset, f"{place}.unknown"] = Number(entry["unknown"]["bytes"])
        found[dataset, f"{place}.round_trip"] = Number(entry["round_trip"])
        found[dataset, f"{place}.fall"] = percent(entry["fall"])
        for key in ("learning_rate", "best_step"):
            chosen = [choice[key] for choice in entry["choices"]]
            found[dataset, f"{place}.{key}"] = Number(statistics.mean(chosen))
    for entry in one["differences"]:
        dataset, place = entry["dataset"], f"{entry['normalization']}.{entry['kind']}"
        found[dataset, f"{place}.against_bpe"] = estimate(entry["bits_per_byte"])
    for entry in one["normalizations"]:
        found[entry["dataset"], f"NFKC.{entry['kind']}.change"] = estimate(
            entry["bits_per_original_byte"]
        )
    return found


def scaling(one: Mapping[str, Any]) -> Facts:
    """Norm of the softmax's Jacobian and its largest probability, by d_k, raw and scaled."""
    found: Facts = {"keys": Number(one["keys"]), "queries": Number(one["queries"])}
    # The text speaks of a narrow head and of the widest.
    places = {"narrow": 1 if len(one["dimensions"]) > 1 else 0, "wide": -1}
    for name, place in places.items():
        entry = one["dimensions"][place]
        found[f"{name}.d_k"] = Number(entry["d_k"])
        for kind in ("raw", "scaled"):
            for key in ("variance", "largest", "frobenius"):
                found[f"{name}.{kind}.{key}"] = estimate(entry[kind][key])
            found[f"{name}.{kind}.median"] = estimate(entry[kind]["median"]["frobenius"])
    return found


def cell_name(entry: Mapping[str, Any]) -> str:
    """``pretrained.auxiliary.transformer`` and so on."""
    return ".".join(
        (
            "pretrained" if entry["pretrained"] else "new",
            "auxiliary" if entry["auxiliary"] else "plain",
            entry["architecture"],
        )
    )


def pretraining(one: Mapping[str, Any]) -> Facts:
    """Accuracy of each cell, effects, and layers transferred."""
    found: Facts = {
        "seeds": Number(len(one["seeds"])),
        "chance": percent(one["chance"]),
        "auxiliary_weight": Number(one["auxiliary_weight"]),
        "difference": percent(one["parameters"]["relative_difference"]),
    }
    for name in ("transformer", "lstm"):
        found[f"parameters.{name}"] = Number(one["parameters"][name])
    for entry in one["language_models"]:
        place = f"language_model.{entry['architecture']}"
        for key in ("perplexity", "bits_per_byte"):
            found[f"{place}.{key}"] = estimate(entry["test"][key])
        place = f"zero_shot.{entry['architecture']}"
        for kind, gain in entry["zero_shot_gain"].items():
            for row in entry["zero_shot"]:
                found[f"{place}.{kind}.{row['step']}"] = percent(row[kind])
            found[f"{place}.{kind}.last"] = percent(entry["zero_shot"][-1][kind])
            found[f"{place}.{kind}.gain"] = percent(gain)
    for entry in one["cells"]:
        found[f"{cell_name(entry)}.accuracy"] = percent(entry["accuracy"])
    for entry in one["effects"]:
        found[f"effect.{entry['factor']}"] = percent(entry["average"])
        # The first setting has all else that GPT-1 has: the published ablation.
        found[f"ablation.{entry['factor']}"] = percent(entry["settings"][0]["difference"])
    for entry in one["transfer"]:
        found[f"transfer.{entry['layers']}"] = percent(entry["gain"])
    found["transfer.all"] = percent(one["transfer"][-1]["gain"])
    found["transfer.embeddings"] = percent(one["transfer"][0]["gain"])
    return found


def network_name(entry: Mapping[str, Any]) -> str:
    """``end_to_end.3.words``: network, hops where it has any, and whether it sees word order."""
    parts = [entry["network"]]
    if entry["network"] == "end_to_end":
        parts.append(str(entry["hops"]))
    if entry["positions"] is not None:
        parts.append("words" if entry["positions"] else "bag")
    return ".".join(parts)


def memory_networks(one: Mapping[str, Any]) -> Facts:
    """Test errors by task and network, and in how many stories supervised ones find each fact."""
    found: Facts = {
        "seeds": Number(len(one["seeds"])),
        "training_stories": Number(one["training_stories"]),
        "test_stories": Number(one["test_stories"]),
    }
    for entry in one["tasks"]:
        for key, value in entry["guess"].items():
            found[f"{entry['task']}.guess.{key}"] = percent(value)
    for entry in one["cells"]:
        name = f"{entry['task']}.{network_name(entry)}"
        found[f"{name}.error"] = percent(entry["error"])
        if entry["network"] == "dynamic":
            found[f"{name}.attempts"] = Number(max(entry["attempts"]))
        if entry["supervised"]:
            for number, share in enumerate(entry["facts_in_order"], start=1):
                found[f"{name}.fact.{number}"] = percent(share)
    for key, entries in one["differences"].items():
        for entry in entries:
            found[f"{entry['task']}.{network_name(entry)}.{key}"] = percent(entry)
    return found


OF_RUNS = {"hard_attention": (hard_attention, HARD_ATTENTION)}
OF_CELLS = {"effective_keys": (effective_keys, EFFECTIVE_KEYS)}
OF_MODELS = {
    "embedding_sums": (embedding_sums, EMBEDDING_SUMS),
    "downstream": (downstream, DOWNSTREAM),
}
OF_STUDIES = {
    "scaling": (scaling, ()),
    "memory_networks": (memory_networks, ()),
    "pretraining": (pretraining, ()),
    "superposition": (superposition, ()),
    "mixed_images": (mixed_images, ()),
}
"""As in :mod:`posenc.report.position_quantities`."""
