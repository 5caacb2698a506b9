"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, NotRun, Number, Quantities

ESTIMATES = (
    "cosine", "baseline", "rescaled", "same_document", "rescaled_same_document", "same_token",
    "rescaled_same_token", "centred", "standardised", "retrieval",
)  # fmt: skip
COUNTS = ("documents", "tokens", "d_model", "sample_tokens")
SIMILARITY = (
    *COUNTS, "same_token_share", "gaussian.sd",
    *(f"{layer}.{quantity}" for layer in ("embedding", "last")
      for quantity in (*ESTIMATES, "token_sd", "cka")),
)  # fmt: skip
"""What it has whether it was run or not; what was measured has all layers."""


def similarity(measurement: Mapping[str, Any]) -> Facts:
    """Cosines with the intact model and their nulls, by layer."""
    share = measurement["same_token_share"]
    alike = "tokens of one id are all alike" if share else "no token is in two documents"
    none = dict.fromkeys(("same_token", "rescaled_same_token"), alike)
    facts: Facts = {key: Number(measurement[key]) for key in COUNTS}
    facts["same_token_share"] = Number(share)
    facts["gaussian.sd"] = Number(measurement["gaussian_null"]["sd"])
    for layer in measurement["layers"]:
        name = layer["name"].replace(" ", "_")
        for key in ("token_sd", "cka"):
            facts[f"{name}.{key}"] = Number(layer[key])
        for key in ESTIMATES:
            facts[f"{name}.{key}"] = (
                Number(**layer[key])
                if layer[key]
                else NotRun(none.get(key, "no document has two different tokens"))
            )
    return facts


WORDS = {
    "baseline": "cosine of random token pairs",
    "rescaled": "rescaled similarity (random pairs at 0)",
    "same_document": "cosine of another token in the same document",
    "rescaled_same_document": "rescaled similarity (another token of the document at 0)",
    "same_token": "cosine of the same token in another document",
    "rescaled_same_token": "rescaled similarity (the same token in another document at 0)",
    "same_token_share": "share of tokens that are in another document too",
    "centred": "token cosine, mean subtracted",
    "standardised": "token cosine, dimensions standardised",
    "retrieval": "share of tokens found again",
    "token_sd": "standard deviation of the cosine over tokens",
    "cka": "linear CKA with intact",
    "gaussian": "independent Gaussian vectors",
    "sd": "standard deviation of their cosine",
    "sample_tokens": "tokens in the sample",
}
QUANTITIES = Quantities(read=similarity, names=SIMILARITY, words=WORDS)
