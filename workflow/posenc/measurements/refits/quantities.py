"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts
from posenc.artifacts.printing import Fields, Printed, number, quantities

if TYPE_CHECKING:
    from posenc.measurements.refits.result import Refitted

PRINTED: Fields = {
    "documents": Printed("documents"),
    "tokens": Printed("tokens that are predicted"),
    "draws": Printed("texts that the mask is fitted to"),
    "seeds": Printed("fits to each"),
    "fitting": Printed("documents of a text"),
    "lost": Printed("loss without positions, minus the intact model's (nats per token)"),
}
OF_REFITS = (
    "recovered", "interaction", "interaction_share", "placebo_interaction",
    "placebo_interaction_share", "beyond_placebo", "beyond_placebo_share",
)  # fmt: skip
BY_DRAW = ("between_draws", "within_draws", "least", "most")
OVER_FITS = (
    "intact", "without",
    *(f"{name}{of}" for name in OF_REFITS for of in ("", *(f".{part}" for part in BY_DRAW))),
)  # fmt: skip


def over_fits(result: Refitted) -> Facts:
    """What of a fitted mask is position, over draws of its text and seeds, and how far they part.

    ``least`` and ``most`` are of single fits.
    """
    mark = Printed(absent="nothing is lost without positions")
    facts = {"intact": number(result.nll.intact), "without": number(result.nll.without)}
    for name in OF_REFITS:
        own = getattr(result, name)
        facts[name] = number(own, mark)
        for part in BY_DRAW:
            facts[f"{name}.{part}"] = number(None if own is None else getattr(own, part), mark)
    return facts


WORDS = {
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
QUANTITIES = quantities(__package__, "Refitted", PRINTED, over_fits, OVER_FITS, WORDS)
