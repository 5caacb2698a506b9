"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities, estimate

OF_REFITS = (
    "recovered", "interaction", "interaction_share", "placebo_interaction",
    "placebo_interaction_share", "beyond_placebo", "beyond_placebo_share",
)  # fmt: skip
BY_DRAW = ("between_draws", "within_draws", "least", "most")
REFITS = (
    "documents", "tokens", "draws", "seeds", "fitting", "lost", "intact", "without",
    *(f"{name}{of}" for name in OF_REFITS for of in ("", *(f".{part}" for part in BY_DRAW))),
)  # fmt: skip


def refits(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """What of a fitted mask is position, over draws of its text and seeds, and how far they part.

    ``least`` and ``most`` are of single fits.
    """
    counts = ("documents", "tokens", "draws", "seeds", "fitting")
    facts: dict[str, Entry] = {part: Number(measurement[part]) for part in counts}
    facts |= {part: estimate(measurement["nll"][part]) for part in ("intact", "without")}
    facts["lost"] = estimate(measurement["lost"])
    for name in OF_REFITS:
        own, reason = measurement[name], "nothing is lost without positions"
        facts[name] = estimate(own, reason)
        parts = dict.fromkeys(BY_DRAW)
        if own:
            fits = [value for draw in own["fits"] for value in draw]
            parts = {**own, "least": min(fits), "most": max(fits)}
        facts |= {f"{name}.{part}": estimate(parts[part], reason) for part in BY_DRAW}
    return facts


WORDS = {
    "documents": "documents",
    "tokens": "tokens that are predicted",
    "draws": "texts that the mask is fitted to",
    "seeds": "fits to each",
    "fitting": "documents of a text",
    "lost": "loss without positions, minus the intact model's (nats per token)",
    "intact": "loss of the intact model (nats per token)",
    "without": "loss without positions (nats per token)",
    "recovered": "recovered share of what is lost",
    "interaction": "what a fit gives beyond what it gives the intact model (nats per token)",
    "interaction_share": "the same, as a share of what is lost",
    "placebo_interaction": "the same of the placebo's fit (nats per token)",
    "placebo_interaction_share": "the same, as a share of what is lost",
    "beyond_placebo": "what a fit gives beyond its placebo (nats per token)",
    "beyond_placebo_share": "the same, as a share of what is lost",
    "between_draws": "standard deviation between texts",
    "within_draws": "standard deviation between fits to one text",
    "least": "least of all fits",
    "most": "most of all fits",
}
QUANTITIES = Quantities(read=refits, names=REFITS, words=WORDS)
