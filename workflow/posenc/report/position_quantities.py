"""Numbers of positions in hidden states (B) and of relative attention (C), by key.

Keys are those of :mod:`posenc.report.collection`: ``MODEL.DATASET.CONDITION.probes.last.relu``,
``MODEL.DATASET.CONDITION.scheme_probes.validation_loss``,
``MODEL.DATASET.layer_norm.variation``, ``MODEL.DATASET.score_parts.r2``,
``lags.DATASET.peak`` and so on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posenc.report.records import FLOAT32, Entry, NotRun, Number

PLACES = ("embedding", "best", "last")
PROBES = (
    *(f"{place}.{kind}" for place in PLACES for kind in ("ridge", "relu", "order", "order_relu")),
    "chance", "control", "control_order",
)  # fmt: skip
SCHEMES = (*PROBES, "validation_loss")
COMPONENTS = (
    *(f"{place}.correlation" for place in PLACES), "shuffled", "principal", "independent",
    "layers", "converged", "halves", "halves_chance", "rank",
)  # fmt: skip
BANDS = ("low", "middle", "high")
FILTERS = {"without": "left_out", "only": "kept"}
"""Ways to filter, by the first part of a key."""
BESIDE = ("random", "scaled", "beyond_random", "beyond_scaled")
LOST = ("delta_nll", "distance")
FILTERED_LOSS = (
    "documents", "tokens",
    *(f"{way}.{band}.{part}" for way in FILTERS for band in ("mean", *BANDS)
      for part in (*LOST, *(f"{of}.{one}" for of in (*BESIDE, "most") for one in LOST),
                   "most.layer")),
)  # fmt: skip
INTERVENED = ("removed", "injected", "withheld")
DEPTHS = ("first", "second", "middle", "last")
INTERVENTION = (
    *LOST, "share",
    *(f"{of}.share" for of in ("permuted", "offset", "beyond_permuted", "beyond_offset")),
)  # fmt: skip
POSITION_INTERVENTIONS = (
    "documents", "tokens", "positions", "without.delta_nll", "without.distance",
    *(f"{depth}.{part}" for depth in (*DEPTHS, "output") for part in ("size", "alignment")),
    *(f"{way}.{depth}.{part}" for way in INTERVENED for depth in DEPTHS for part in INTERVENTION),
    *(f"{way}.output.{part}" for way in INTERVENED[:2] for part in INTERVENTION),
    *(f"withheld.most.{part}" for part in ("layer", *INTERVENTION)),
)  # fmt: skip
SPECTRA = (
    *(f"{quantity}.{band}" for quantity in ("hidden_states", "keys") for band in BANDS),
    *(f"without.{band}" for band in BANDS), "uniform", "locked",
)  # fmt: skip
SOURCES = ("position", "tokens", "attention", "mlp")
NORMS = ("first", "middle", "last")
LAYER_NORM = (
    "documents", "tokens", "variation", "product", "position_share", "between.embedding",
    "between.middle", "between.last", "shuffled", "relative.lowest",
    *(f"{norm}.{kind}.{name}" for norm in NORMS
      for kind, names in (("gain", ("position", "content", "shuffled", "relative")),
                          ("cosine", ("position", "content", "shuffled")),
                          ("from", SOURCES), ("content_from", SOURCES)) for name in names),
)  # fmt: skip
WAYS = ("intact", "turned", "zero")
SAVINGS = (
    "parameters", "table", "table.share", "table.bytes", "cached_token",
    *(f"{place}.offset" for place in ("near", "far")),
    *(f"{place}.{way}.{part}" for place in ("near", "far") for way in WAYS
      for part in ("kept", "keys", "values", "largest")),
    *(f"far.intact.{layer}.{kind}" for layer in ("first", "last") for kind in ("keys", "values")),
)  # fmt: skip
STRONGEST = ("previous", "self", "next", "first")
HEADS = (*STRONGEST, *(f"{name}.{part}" for name in STRONGEST for part in ("layer", "head")))
SCORES = ("correlation", "content_correlation", "content", "mask", "interaction")
PLACEBOS = ("placebo_heads", "placebo_layers")
SCORE_PARTS = (
    "r2", "shuffled", "first_key", "high_share", "one_document",
    *(f"{weights}.{part}" for weights in ("pairs", "attention") for part in (*SCORES, *PLACEBOS)),
)  # fmt: skip
PARTIAL_SUMS = ("mask", "mask_key", "mask_query", "first_order")
MEANS = ("own", "no_first", "neighbours", "other_heads")
ROTATION_TERMS = (
    "documents", "tokens", "lowest_layer", "lowest",
    *(f"{weights}.{means}.{part}"
      for weights in ("pairs", "attention") for means in MEANS for part in PARTIAL_SUMS),
)  # fmt: skip
COMPARED = ("peak", "profile_peak", "peak_mean", "profile_mean")
LAGS = (
    *COMPARED, *(f"{name}.p" for name in COMPARED),
    "lowest_layer", "highest_layer", "chosen.even", "chosen.odd",
    "agreement", "agreement_chance", "heads",
)  # fmt: skip
RANDOM_CAUSAL = tuple(
    f"{name}.{key}" for name in ("first", "last") for key in ("exponent", "exponent_sd")
)


def estimate(
    value: Mapping[str, Any] | float | None,
    reason: str = "it is not defined",
    rounding: float = FLOAT32,
) -> Entry:
    """A number of a measurement, with its interval, or the least and most of its draws, if any."""
    if value is None:
        return NotRun(reason)
    if isinstance(value, Mapping):
        names = ("mean", "least", "most") if "mean" in value else ("value", "low", "high")
        return Number(*(value[name] for name in names), rounding=rounding)
    return Number(value, rounding=rounding)


def probes(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Errors of the probes at the embedding, at the layer where the linear one is best, and last.

    ``order`` is of the linear probe. Controls are linear probes of shuffled labels, at the
    embedding.
    """
    layers = one["layers"]
    best = min(layers, key=lambda layer: layer["position"]["ridge"]["value"])
    found: dict[str, Entry] = {}
    for place, layer in zip(PLACES, (layers[0], best, layers[-1]), strict=True):
        for kind in ("ridge", "relu"):
            found[f"{place}.{kind}"] = estimate(layer["position"][kind])
        found[f"{place}.order"] = estimate(layer["order"]["logistic"])
        found[f"{place}.order_relu"] = estimate(layer["order"]["relu"])
    found["chance"] = estimate(one["chance"]["position"])
    found["control"] = estimate(layers[0]["position"]["ridge_control"])
    found["control_order"] = estimate(layers[0]["order"]["logistic_control"])
    return found


def schemes(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Probes of a decoder that was trained with another scheme, and what it was trained to."""
    loss = Number(one["training"]["final_validation_loss"])
    return {**probes(one), "validation_loss": loss}


def components(one: Mapping[str, Any]) -> dict[str, Entry]:
    """First canonical correlation with position; largest position shares at its best layer.

    Of independent components, which follow the start of the search, with the least and the most
    over starts; and: layers in which every search ended by itself, how far those of two halves of
    the documents are apart at most, and the lowest rank.
    """
    layers = one["layers"]
    best = max(layers, key=lambda layer: layer["canonical"]["held_out"][0]["value"])
    found = {
        f"{place}.correlation": estimate(layer["canonical"]["held_out"][0])
        for place, layer in zip(PLACES, (layers[0], best, layers[-1]), strict=True)
    }
    found["shuffled"] = estimate(best["canonical"]["shuffled"][0])
    found["principal"] = Number(max(best["principal"]["position_share"]))
    found["independent"] = estimate(best["independent"]["largest_share"])
    searches = [layer["independent"] for layer in layers]
    found["layers"] = Number(len(searches))
    found["converged"] = Number(sum(search["converged"] for search in searches))
    lower = "components of a half are fewer than its signals"
    found["halves"] = estimate(one["amari_between_halves"], lower)
    found["halves_chance"] = Number(one["amari_chance"])
    found["rank"] = Number(min(search["rank"] for search in searches))
    return found


def spectra(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Shares of power by band, and what losing a band does, in the second layer.

    Bands between the lowest and the highest count as the middle one.
    """
    found: dict[str, Entry] = {}
    last = len(one["bands"]) - 2
    places = dict(zip(BANDS, (0, min(1, last), last), strict=True))
    for quantity in ("hidden_states", "keys"):
        shares = one["quantities"][quantity]["band_shares"]
        layer = min(1, len(shares) - 1)
        for band, place in places.items():
            found[f"{quantity}.{band}"] = estimate(shares[layer][place])
    locked = one["quantities"]["keys"]["locked"]
    found["locked"] = Number(max(locked[0][1:]))
    passed = one["band_pass"]
    for band, place in places.items():
        found[f"without.{band}"] = (
            NotRun(passed["reason"])
            if passed["status"] != "measured"
            else estimate(passed["left_out"][min(1, len(passed["left_out"]) - 1)][place])
        )
    found["uniform"] = (
        NotRun(passed["reason"])
        if passed["status"] != "measured"
        else estimate(passed["uniform"][min(1, len(passed["uniform"]) - 1)])
    )
    return found


def layer_norm(one: Mapping[str, Any]) -> dict[str, Entry]:
    """What normalisations do to position: the first, the one in the middle of all, the last."""
    norms = one["norms"]
    first, middle, last = norms[0], norms[len(norms) // 2], norms[-1]
    # The residual stream itself; a decoder's is what its normalisations are given.
    stream = "output" if one["placement"] == "after" else "input"
    unknown = "no position is left there to be seen"
    found: dict[str, Entry] = {
        "documents": Number(one["documents"]),
        "tokens": Number(one["tokens"]),
        "variation": estimate(first["scale"]["variation"]),
        "product": estimate(last["variation"]),
        "position_share": estimate(first["shares"]["position"]),
        "between.embedding": estimate(first["between"][stream]),
        "between.middle": estimate(middle["between"][stream]),
        "between.last": estimate(last["between"]["output"]),
        "shuffled": estimate(last["between"]["shuffled"]),
    }
    relative = [norm["gain"]["relative"] for norm in norms if norm["gain"]["relative"]]
    lowest = min(relative, key=lambda found: found["value"], default=None)
    found["relative.lowest"] = estimate(lowest, unknown)
    for name, norm in zip(NORMS, (first, middle, last), strict=True):
        for key, kind in (("gain", "gain"), ("cosine", "cosine"), ("from", "sources"),
                          ("content_from", "content_sources")):  # fmt: skip
            for part, value in norm[kind].items():
                found[f"{name}.{key}.{part}"] = estimate(value, unknown)
    return found


def heads(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Mass of the heads that look most at one place, and which heads they are."""
    found: dict[str, Entry] = {}
    for name in STRONGEST:
        value = one["strongest"][name]
        if name == "next" and one["is_causal"]:
            why = NotRun("a causal head sees no next token")
            found |= dict.fromkeys((name, f"{name}.layer", f"{name}.head"), why)
            continue
        found[name] = estimate(value)
        for part in ("layer", "head"):
            found[f"{name}.{part}"] = Number(value[part])
    return found


def lags(comparison: Mapping[str, Any]) -> dict[str, Entry]:
    """Agreement of predicted and found offsets over heads, in each way that they are compared.

    Layers are the units of the intervals, and ``p`` is that of permutations within layers; single
    layers are of ``profile_mean``.
    """
    found: dict[str, Entry] = {}
    for name in COMPARED:
        one = comparison["results"][name]
        over_layers, reason = one["over_layers"], one["reason"] or ""
        found[name] = estimate(over_layers["spearman"], reason)
        found[f"{name}.p"] = estimate(over_layers["p"], reason)
    layers = [one["spearman"] for one in comparison["results"]["profile_mean"]["by_layer"]]
    defined = [value for value in layers if value is not None]
    for name, of in (("lowest", min), ("highest", max)):
        found[f"{name}_layer"] = estimate(of(defined) if defined else None)
    held_out = comparison["held_out"]
    for half in ("even", "odd"):
        found[f"chosen.{half}"] = estimate(held_out[half], "a correlation is not defined")
    peak = comparison["results"]["peak"]["agreement"]
    found["agreement"] = estimate(peak["share"])
    found["agreement_chance"] = estimate(peak["chance"])
    found["heads"] = Number(comparison["heads"])
    return found


def score_parts(one: Mapping[str, Any]) -> dict[str, Entry]:
    """How well the closed form predicts, and parts of the scores' variance by kind of weights."""
    r2, same = one["r2"], "position adds nothing to the scores"
    found = {
        "r2": estimate(r2["median"], same),
        "shuffled": estimate(r2["shuffled"], "no other head to take a curve from"),
        "first_key": estimate(r2["first_key"], same),
        "high_share": estimate(r2["high_share"]),
        "one_document": estimate(r2["learning"][0]["median"], same),
    }
    for shares in one["shares"]:
        if not shares["within_query"]:
            weights, parts = shares["weights"], {**shares, **shares["all"]}
            found |= {f"{weights}.{name}": estimate(parts[name]) for name in SCORES}
            for name in PLACEBOS:
                value = shares["placebo"].get(name.removeprefix("placebo_"))
                found[f"{weights}.{name}"] = estimate(value, "no other head to take a mask from")
    return found


def rotation_terms(one: Mapping[str, Any]) -> dict[str, Entry]:
    """What partial sums explain of what rotation adds to scores, with means of each kind."""
    entries = {(entry["weights"], entry["means"]): entry for entry in one["explained"]}
    layers = entries["pairs", "own"]["layers"]
    lowest = min(layers, key=lambda row: row["first_order"]["value"])
    found: dict[str, Entry] = {part: Number(one[part]) for part in ("documents", "tokens")}
    found |= {"lowest_layer": Number(lowest["layer"]), "lowest": estimate(lowest["first_order"])}
    for weights, means in itertools.product(("pairs", "attention"), MEANS):
        shares = entries.get((weights, means), {"all": {}})["all"]
        for part in PARTIAL_SUMS:
            value = estimate(shares.get(part), "no other head to take means from")
            found[f"{weights}.{means}.{part}"] = value
    return found


def filtered_loss(one: Mapping[str, Any]) -> dict[str, Entry]:
    """What filters of queries and keys cost in all layers, beside controls, and most in one.

    Bands between the lowest and the highest count as the middle one.
    """
    last = len(one["bands"]) - 2
    places = {"mean": "mean", **dict(zip(BANDS, (0, min(1, last), last), strict=True))}
    entries = {(entry["way"], entry["band"]): entry for entry in one["filters"]}
    found: dict[str, Entry] = {part: Number(one[part]) for part in ("documents", "tokens")}

    def cost(row: Mapping[str, Any]) -> float:
        return row["cost"]["delta_nll" if one["is_causal"] else "distance"]["value"]

    for name, way in FILTERS.items():
        for band, place in places.items():
            entry = entries[way, place]
            most = max(entry["layers"], key=cost)
            parts = {"": entry["cost"], "most.": most["cost"]}
            parts |= {f"{of}.": entry[of] for of in BESIDE}
            found |= {
                f"{name}.{band}.{of}{part}": estimate(costs[part], "an encoder has no loss")
                for of, costs in parts.items() for part in LOST
            }  # fmt: skip
            found[f"{name}.{band}.most.layer"] = Number(most["layer"])
    return found


def position_interventions(one: Mapping[str, Any]) -> dict[str, Entry]:
    """What taking position from the input of four layers, or putting it there, costs; and at last.

    ``size`` is the length of position's mean part over that of the states, both less their means.
    """
    no_loss, no_share = "an encoder has no loss", "nothing is lost without positions"
    layers = one["layers"]
    places = (0, min(1, len(layers) - 1), len(layers) // 2, len(layers) - 1)
    rows = {depth: layers[place] for depth, place in zip(DEPTHS, places, strict=True)}
    names = ("documents", "tokens", "positions")
    found: dict[str, Entry] = {name: Number(one[name]) for name in names}
    found |= {f"without.{part}": estimate(one["without"][part], no_loss) for part in LOST}

    def costs(key: str, entry: Mapping[str, Any]) -> None:
        for part in INTERVENTION:
            *of, name = part.split(".")
            value = entry[of[0] if of else "own"][name]
            found[f"{key}.{part}"] = estimate(value, no_share if name == "share" else no_loss)

    for depth, row in {**rows, "output": one["output"]}.items():
        found[f"{depth}.size"] = Number(row["position"] / row["states"])
        found[f"{depth}.alignment"] = estimate(row["alignment"], "positions add nothing there")
        for way in INTERVENED:
            if way in row:
                costs(f"{way}.{depth}", row[way])
    judged = "delta_nll" if one["is_causal"] else "distance"
    most = max(layers, key=lambda row: row["withheld"]["own"][judged]["value"])
    found["withheld.most.layer"] = Number(most["layer"])
    costs("withheld.most", most["withheld"])
    return found


def savings(one: Mapping[str, Any]) -> dict[str, Entry]:
    """What positions take, and how far caches are off at the nearest and the furthest offset.

    A difference that float16 rounds away is told as 0: below it, processors have numbers of their
    own.
    """
    parameters = one["parameters"]

    def told(value: Mapping[str, float] | float) -> Entry:
        size = value["value"] if isinstance(value, Mapping) else value
        return estimate(value) if size > one["rounded"] else Number(0.0)

    found: dict[str, Entry] = {
        "parameters": Number(parameters["all"]),
        "table": Number(parameters["positions"]),
        "table.share": Number(parameters["share"]),
        "table.bytes": Number(parameters["bytes"]),
        "cached_token": Number(one["bytes_per_cached_token"]),
    }
    caches = {(entry["way"], entry["offset"]): entry for entry in one["caches"]}
    offsets = [offset for way, offset in caches if way == "intact"]
    for place, offset in (("near", min(offsets)), ("far", max(offsets))):
        found[f"{place}.offset"] = Number(offset)
        for way in WAYS:
            entry, key = caches.get((way, offset)), f"{place}.{way}"
            if entry is None:
                parts = ("kept", "keys", "values", "largest")
                found |= {f"{key}.{part}": NotRun("no key is turned") for part in parts}
                continue
            found[f"{key}.kept"] = Number(entry["kept"])
            found |= {f"{key}.{kind}": told(entry[kind]["mean"]) for kind in ("keys", "values")}
            largest = max(entry[kind]["largest"] for kind in ("keys", "values"))
            found[f"{key}.largest"] = told(largest)
    layers = caches["intact", max(offsets)]["layers"]
    for name, layer in (("first", layers[0]), ("last", layers[-1])):
        for kind in ("keys", "values"):
            found[f"far.intact.{name}.{kind}"] = told(layer[kind]["mean"])
    return found


def _spread(found: dict[str, Entry], name: str, value: Mapping[str, float]) -> None:
    found[name], found[f"{name}_sd"] = Number(value["mean"]), Number(value["sd"])


def random_causal(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Exponents of the variance by position, of the first and the last layer."""
    found: dict[str, Entry] = {}
    layers = one["variants"][0]["layers"]
    for name, layer in (("first", layers[0]), ("last", layers[-1])):
        _spread(found, f"{name}.exponent", layer["exponent"])
    return found


Facts = Callable[[Mapping[str, Any]], dict[str, Entry]]
OF_RUNS: dict[str, tuple[Facts, tuple[str, ...]]] = {
    "probes": (probes, PROBES),
    "components": (components, COMPONENTS),
    "spectra": (spectra, SPECTRA),
    "heads": (heads, HEADS),
}
"""Numbers of runs: how a measurement is read, and the names of what it then has."""
OF_CELLS = {
    "layer_norm": (layer_norm, LAYER_NORM),
    "score_parts": (score_parts, SCORE_PARTS),
    "rotation_terms": (rotation_terms, ROTATION_TERMS),
    "filtered_loss": (filtered_loss, FILTERED_LOSS),
    "position_interventions": (position_interventions, POSITION_INTERVENTIONS),
    "savings": (savings, SAVINGS),
}
OF_SCHEMES = {"scheme_probes": (schemes, SCHEMES)}
OF_STUDIES = {"random_causal": (random_causal, RANDOM_CAUSAL)}
"""The same of what else there is."""


def facts_of(one: Mapping[str, Any], read: Facts, names: Sequence[str]) -> dict[str, Entry]:
    """The numbers of a measurement; ``NotRun`` where it was not run."""
    if one["status"] != "measured":
        return dict.fromkeys(names, NotRun(one["reason"]))
    return read(one)


def compared(joined: Mapping[str, Any], models: Sequence[str], dataset: str) -> dict[str, Entry]:
    """Predicted against found offsets, over the heads of some models together."""
    if joined["status"] != "measured":
        return dict.fromkeys(LAGS, NotRun(joined["reason"]))
    for comparison in joined["comparisons"]:
        run = comparison["run"]
        if run["dataset"] == dataset and sorted(run["models"]) == sorted(models):
            return lags(comparison)
    return dict.fromkeys(LAGS, NotRun("no heads to compare"))
