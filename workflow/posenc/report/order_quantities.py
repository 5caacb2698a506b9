"""Numbers of what still knows order, and of fits and trainings, by key.

``MODEL.DATASET.causal_probes.zero.best`` is of probes under other masks. Of models under the
conditions of a study are ``MODEL.DATASET.induction.zero_closed.recovered``,
``MODEL.DATASET.swaps.zero_closed.preference``, ``MODEL.DATASET.joint_order.zero.far.order_lost``,
``MODEL.DATASET.choices.intact.mc1`` and
``MODEL.DATASET.token_classes.zero.punctuation.mean``; of sentences,
``MODEL.exchanged_roles.english.intact.exchanged``.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

from posenc.report.position_quantities import PLACES, estimate
from posenc.report.records import Entry, Number

T = TypeVar("T", bound=Hashable)

NOT_EVALUATED = "the study does not evaluate it"
WINDOW = "window_"
WINDOWS = tuple(f"{WINDOW}{tokens}" for tokens in (4, 16, 64))
MASKED = ("zero_alibi", "zero_closed", "placebo_heads", "zero_fitted", "fitted")
VARIANTS = ("intact", "zero", "random", "non_causal", "no_first_key", *WINDOWS, *MASKED)
"""Variants whose probes are spoken of."""
BEYOND = ("error", "causal", "embedding", "chance", "difference", "gain")
CAUSAL_PROBES = (
    *(f"{name}.{part}" for name in VARIANTS for part in (*PLACES, "difference")),
    *(f"{name}.beyond.{part}" for name in WINDOWS for part in BEYOND),
    "chance",
)  # fmt: skip
UNDER = (
    "intact", "zero", "zero_alibi", "zero_slope", "zero_closed", "placebo_heads", "placebo_layers",
    "placebo_mean", "zero_scores", "zero_scores_fitted", "first_order_mask", "first_order",
    "first_order_heads", "first_order_neighbours",
)  # fmt: skip
"""Conditions whose copying is spoken of."""
COPYING = ("first", "again", "gain", "reordered", "recovered", "previous", "induction")
INDUCTION = tuple(f"{condition}.{part}" for condition in UNDER for part in COPYING)
ORDER = ("preference", "margin", "recovered", "later", "later_recovered")
SWAPS = tuple(
    f"{condition}.{where}{part}"
    for condition in (*UNDER, "single_token") for where in ("", "far.") for part in ORDER
)  # fmt: skip
OTHER = "other"
"""The intact model after the beginning of another document, beside conditions."""
PAIRED = ("intact", "zero", "zero_closed", "placebo_heads")
"""Conditions whose pairs of words are spoken of."""
MASSES = ("mass_first", "mass")
OF_PAIRS = (
    "repeats", "dependence", "order", "places", "interaction", "divergence", "log_ratio",
    "additive", "agreement", "correlation", "interaction_correlation", "words_lost", "order_lost",
    "recovered",
)  # fmt: skip
JOINT_ORDER = (
    "documents", "candidates",
    *(f"{condition}.{part}"
      for condition in (*PAIRED, OTHER)
      for part in (*MASSES, *(f"{where}{one}" for where in ("", "far.") for one in OF_PAIRS))
      if condition != OTHER or not part.endswith("recovered")),
)  # fmt: skip
ANSWERING = (
    "intact", "zero", "zero_closed", "placebo_heads", "zero_fitted", "intact_fitted", "fitted",
    "zero_scores_fitted", "intact_fitted_short", "first_order_mask", "first_order",
    "first_order_heads", "first_order_neighbours",
)  # fmt: skip
"""Conditions whose answers to questions are spoken of."""
OVER_CATEGORIES = tuple(f"delta_{score}_categories" for score in ("mc1", "mc2", "nll"))
ANSWERS = (
    *(f"{score}{of}" for score in ("mc1", "mc2", "nll") for of in ("", "_other", "_question")),
    "mc1_chance", "mc2_chance", "delta_mc1", "delta_mc2", "delta_nll", "recovered",
    *OVER_CATEGORIES,
)  # fmt: skip
CHOICES = (
    "chance.mc1", "chance.mc2", "questions",
    *(f"{condition}.{part}" for condition in ANSWERING for part in ANSWERS),
)  # fmt: skip

KEYS, COUNTS = (0, 1, 4, 16), (9, 27, 81)
HOW = ("strongest", "weakest", "random", "only_strongest", "only_random")
UNROTATED_HEADS = (
    "documents", "tokens", "all", "agreement", "above_zero", "head", "head.layer", "head.index",
    *(f"key_{key}" for key in KEYS),
    *(f"{how}.{count}.{part}" for how in HOW for count in COUNTS
      for part in ("delta_nll", "share")),
)  # fmt: skip

TRAINED_ON, STARTS = ("intact", "zero", "zero_closed"), ("zero_closed",)
"""Conditions that models are trained on under, and those of them that are worth tokens."""
OF_TRAINED = ("first", "last", "first.above_intact", "last.above_intact")
WORTH = ("start", "start_above_intact", "meets")
RETRAINING = (
    "documents", "tokens", "learned_tokens",
    *(f"{condition}.{part}" for condition in TRAINED_ON for part in OF_TRAINED
      if condition != "intact" or "above" not in part),
    *(f"{condition}.{part}{of}" for condition in STARTS for part in WORTH for of in ("", ".least")),
)  # fmt: skip

OF_REFITS = (
    "recovered", "interaction", "interaction_share", "placebo_interaction",
    "placebo_interaction_share", "beyond_placebo", "beyond_placebo_share",
)  # fmt: skip
BY_DRAW = ("between_draws", "within_draws", "least", "most")
REFITS = (
    "documents", "tokens", "draws", "seeds", "fitting", "lost", "intact", "without",
    *(f"{name}{of}" for name in OF_REFITS for of in ("", *(f".{part}" for part in BY_DRAW))),
)  # fmt: skip

PAYING = ("zero", "zero_closed", "placebo_heads", "zero_fitted")
"""Conditions whose costs by class are spoken of."""
CLASSES = {
    "punctuation": ("word", "punctuation"), "function": ("word", "function word"),
    "content": ("word", "content word"), "continuation": ("word", "continuation of a word"),
    "never": ("seen before", "never"), "just_now": ("seen before", "1 to 4 tokens ago"),
    "lately": ("seen before", "5 to 16"), "before": ("seen before", "17 to 64"),
    "long_ago": ("seen before", "65 or more"),
    "sentence_first": ("in its sentence", "first"), "sentence_later": ("in its sentence", "later"),
    "document_first": ("in its document", "1 to 15"),
    "document_later": ("in its document", "64 to 255"),
    "expected": ("trigram's surprisal", "lowest quarter"),
    "surprising": ("trigram's surprisal", "highest quarter"),
}  # fmt: skip
"""By the last part but one of a key: factor and class."""
OF_CLASSES, OF_COSTS = ("mean", "adjusted", "share"), ("delta_nll", "explained", "permuted")
TOKEN_CLASSES = (
    "documents", "tokens",
    *(f"{condition}.{part}" for condition in PAYING for part in OF_COSTS),
    *(f"{condition}.{name}.{part}" for condition in PAYING for name in CLASSES
      for part in OF_CLASSES),
)  # fmt: skip

LANGUAGES, SENTENCES = ("english", "japanese"), ("intact", "zero")
COMPARED = ("exchanged", "paraphrase", "unrelated", "nearer")
EXCHANGED_ROLES = tuple(
    name for language in LANGUAGES
    for name in (f"{language}.pairs", *(f"{language}.{condition}.{part}"
                                        for condition in SENTENCES for part in COMPARED))
)  # fmt: skip


def with_spoken(spoken: Iterable[T], measured: Iterable[T]) -> list[T]:
    """What documents speak of, and what else a result has: numbers follow the parameters."""
    return list(dict.fromkeys([*spoken, *measured]))


def causal_probes(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Errors of a ridge probe by variant, at the embedding, where they are least, and last.

    ``difference`` is from the model without its table, at the layer where that one's error is
    least; ``beyond`` is of the same layer, or of the last before it that has enough tokens there.
    """
    by_name = {entry["variant"]: entry["layers"] for entry in one["variants"]}
    reason = "the model, or the study, has no such variant"

    def error(layer: Mapping[str, Any]) -> float:
        return layer["error"]["value"]

    layer = by_name["zero"].index(min(by_name["zero"], key=error))
    found = {"chance": estimate(one["chance"])}
    for name in with_spoken(VARIANTS, by_name):
        layers = by_name.get(name)
        parts = dict.fromkeys((*PLACES, "difference"))
        if layers:
            ends = layers[0], min(layers, key=error), layers[-1]
            parts = dict(zip(PLACES, (end["error"] for end in ends), strict=True))
            parts["difference"] = layers[layer]["difference"]
        found |= {f"{name}.{part}": estimate(value, reason) for part, value in parts.items()}
        if name.startswith(WINDOW):
            there = [own["beyond"] for own in (layers or [])[: layer + 1] if own["beyond"]]
            beyond = there[-1] if there else dict.fromkeys(BEYOND)
            why = "too few tokens are beyond the receptive field" if layers else reason
            found |= {f"{name}.beyond.{part}": estimate(beyond[part], why) for part in BEYOND}
    return found


def induction(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Losses, gain and attention on repeated tokens, by condition."""
    entries = {entry["condition"]: entry for entry in one["conditions"]}
    found: dict[str, Entry] = {}
    for condition in with_spoken(UNDER, entries):
        entry = entries.get(condition, dict.fromkeys((*COPYING, "reason")))
        reason = entry["reason"] or NOT_EVALUATED
        if condition in entries:
            reason = entry["reason"] or "the intact model copies nothing that it loses"
        found |= {f"{condition}.{part}": estimate(entry[part], reason) for part in COPYING}
    return found


def swaps(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Preference for a text over its swapped form, of the nearest words and of the furthest."""
    entries = {entry["condition"]: entry["distances"] for entry in one["conditions"]}
    found: dict[str, Entry] = {}
    for condition in with_spoken((*UNDER, "single_token"), entries):
        at = sorted(entries.get(condition, ()), key=lambda entry: entry["distance"])
        reason = "the intact model has no margin that it loses"
        if not at:
            at, reason = [dict.fromkeys(ORDER)], NOT_EVALUATED
        for where, entry in (("", at[0]), ("far.", at[-1])):
            found |= {f"{condition}.{where}{part}": estimate(entry[part], reason) for part in ORDER}
    return found


def joint_order(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Order of pairs of neighbours and of pairs with a token between them, by condition.

    ``other`` is the intact model after the beginning of another document.
    """
    entries = {entry["condition"]: entry for entry in one["conditions"]} | {OTHER: one["other"]}
    found: dict[str, Entry] = {part: Number(one[part]) for part in ("documents", "candidates")}
    for condition in with_spoken(PAIRED, entries):
        entry = entries.get(condition, {"distances": []})
        reason = "nothing of the order is lost" if condition in entries else NOT_EVALUATED
        found |= {f"{condition}.{part}": estimate(entry.get(part), reason) for part in MASSES}
        by_distance = {pairs["distance"]: pairs for pairs in entry["distances"]}
        for where, distance in (("", 1), ("far.", 2)):
            pairs = by_distance.get(distance, {})
            for part in OF_PAIRS:
                if condition != OTHER or part != "recovered":
                    found[f"{condition}.{where}{part}"] = estimate(pairs.get(part), reason)
    return found


def choices(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Scores of questions and losses of their true answers, by condition."""
    entries = {entry["condition"]: entry for entry in one["conditions"]}
    found: dict[str, Entry] = {"questions": Number(one["documents"])}
    found |= {f"chance.{part}": Number(level) for part, level in one["chance"].items()}
    for condition in with_spoken(ANSWERING, entries):
        entry = entries.get(condition, dict.fromkeys(ANSWERS))
        reason = NOT_EVALUATED
        if condition in entries:
            reason = "nothing is lost without positions"
        for part in ANSWERS:
            lacking = reason
            if condition in entries and part in OVER_CATEGORIES:
                lacking = "questions have no categories"
            found[f"{condition}.{part}"] = estimate(entry.get(part), lacking)
    return found


def unrotated_heads(one: Mapping[str, Any]) -> dict[str, Entry]:
    """What all heads, the head that costs most, keys and sets of heads lose without rotation."""
    most = max(one["heads"], key=lambda entry: entry["delta_nll"]["value"])
    found: dict[str, Entry] = {
        "documents": Number(one["documents"]),
        "tokens": Number(one["tokens"]),
        "all": estimate(one["all"]),
        "agreement": Number(one["agreement_of_halves"]),
        "above_zero": Number(sum(entry["delta_nll"]["low"] > 0 for entry in one["heads"])),
        "head": estimate(most["delta_nll"]),
        "head.layer": Number(most["layer"]),
        "head.index": Number(most["head"]),
    }
    keys = {entry["key"]: entry["delta_nll"] for entry in one["keys"]}
    lacking = "the study does not take rotation from it"
    found |= {f"key_{key}": estimate(keys.get(key), lacking) for key in with_spoken(KEYS, keys)}
    sets = {(entry["choice"], entry["count"]): entry for entry in one["sets"]}
    for how, count in with_spoken(itertools.product(HOW, COUNTS), sets):
        entry = sets.get((how, count), {})
        for part in ("delta_nll", "share"):
            found[f"{how}.{count}.{part}"] = estimate(entry.get(part), lacking)
    return found


def retraining(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Losses before and after training, and the training tokens that a start is worth.

    A number of tokens whose upper bound was not reached has none; ``least`` is its lower one.
    """
    entries = {entry["condition"]: entry for entry in one["conditions"]}
    last = one["conditions"][0]["curve"][-1]["tokens"]
    found: dict[str, Entry] = {part: Number(one[part]) for part in ("documents", "tokens")}
    found["learned_tokens"] = Number(last)
    for condition in with_spoken(TRAINED_ON, entries):
        curve = entries[condition]["curve"] if condition in entries else [{"nll": None}]
        for part, row in (("first", curve[0]), ("last", curve[-1])):
            found[f"{condition}.{part}"] = estimate(row["nll"], NOT_EVALUATED)
            if condition != "intact":
                above = estimate(row.get("above_intact"), NOT_EVALUATED)
                found[f"{condition}.{part}.above_intact"] = above
    worth_tokens = (name for name, entry in entries.items() if entry["worth"])
    for condition in with_spoken(STARTS, worth_tokens):
        lacking = dict.fromkeys(WORTH, dict.fromkeys(("value", "low", "high")))
        worth = entries.get(condition, {"worth": lacking})["worth"]
        reason = f"not reached in {last:,} training tokens"
        reason = reason if condition in entries else NOT_EVALUATED
        for part in WORTH:
            own = worth[part]
            is_whole = None not in (own["low"], own["high"])
            found[f"{condition}.{part}"] = estimate(own if is_whole else own["value"], reason)
            found[f"{condition}.{part}.least"] = estimate(own["low"], reason)
    return found


def refits(one: Mapping[str, Any]) -> dict[str, Entry]:
    """What of a fitted mask is position, over draws of its text and seeds, and how far they part.

    ``least`` and ``most`` are of single fits.
    """
    counts = ("documents", "tokens", "draws", "seeds", "fitting")
    found: dict[str, Entry] = {part: Number(one[part]) for part in counts}
    found |= {part: estimate(one["nll"][part]) for part in ("intact", "without")}
    found["lost"] = estimate(one["lost"])
    for name in OF_REFITS:
        own, reason = one[name], "nothing is lost without positions"
        found[name] = estimate(own, reason)
        parts = dict.fromkeys(BY_DRAW)
        if own:
            fits = [value for draw in own["fits"] for value in draw]
            parts = {**own, "least": min(fits), "most": max(fits)}
        found |= {f"{name}.{part}": estimate(parts[part], reason) for part in BY_DRAW}
    return found


def token_classes(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Costs by class of token and condition."""
    entries = {entry["condition"]: entry for entry in one["conditions"]}
    found: dict[str, Entry] = {part: Number(one[part]) for part in ("documents", "tokens")}
    for condition in with_spoken(PAYING, entries):
        entry = entries.get(condition, {"factors": []})
        few = "too few documents have such a token, or nothing is lost"
        lacking = few if entry["factors"] else NOT_EVALUATED
        found |= {f"{condition}.{part}": estimate(entry.get(part), lacking) for part in OF_COSTS}
        classes = {
            (factor["factor"], level["class"]): level
            for factor in entry["factors"] for level in factor["classes"]
        }  # fmt: skip
        for name, place in CLASSES.items():
            level = classes.get(place, {})
            found |= {
                f"{condition}.{name}.{part}": estimate(level.get(part), lacking)
                for part in OF_CLASSES
            }
    return found


def exchanged_roles(one: Mapping[str, Any]) -> dict[str, Entry]:
    """Cosines of sentences with others, by language and condition."""
    found: dict[str, Entry] = {}
    by_language = {language["language"]: language for language in one["languages"]}
    for name in LANGUAGES:
        language = by_language.get(name, {"reason": "the study has no such sentences"})
        conditions = {each["condition"]: each for each in language.get("conditions", ())}
        found[f"{name}.pairs"] = estimate(language.get("pairs"), language["reason"] or "")
        for condition in SENTENCES:
            each = conditions.get(condition, dict.fromkeys(COMPARED))
            found |= {
                f"{name}.{condition}.{part}": estimate(each[part], language["reason"] or "")
                for part in COMPARED
            }
    return found


OF_CELLS = {
    "causal_probes": (causal_probes, CAUSAL_PROBES),
    "unrotated_heads": (unrotated_heads, UNROTATED_HEADS),
    "retraining": (retraining, RETRAINING),
    "refits": (refits, REFITS),
    "induction": (induction, INDUCTION),
    "swaps": (swaps, SWAPS),
    "joint_order": (joint_order, JOINT_ORDER),
    "choices": (choices, CHOICES),
    "token_classes": (token_classes, TOKEN_CLASSES),
}
"""As in :mod:`posenc.report.position_quantities`."""
OF_MODELS = {"exchanged_roles": (exchanged_roles, EXCHANGED_ROLES)}
