"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, NotRun
from posenc.artifacts.printing import By, Fields, Printed, quantities

if TYPE_CHECKING:
    from posenc.measurements.similarity.result import Similarities

NO_PAIRS = "no document has two different tokens"
PRINTED: Fields = {
    "documents": Printed(),
    "tokens": Printed(),
    "d_model": Printed(),
    "sample_tokens": Printed("tokens in the sample"),
    "same_token_share": Printed("share of tokens that are in another document too"),
    "gaussian_null": Printed("independent Gaussian vectors", name="gaussian"),
    "gaussian_null.sd": Printed("standard deviation of their cosine"),
    "layers": By("name", spoken=("embedding", "last")),
    "layers.token_sd": Printed("standard deviation of the cosine over tokens"),
    "layers.cka": Printed("linear CKA with intact"),
    "layers.cosine": Printed(),
    "layers.baseline": Printed("cosine of random token pairs"),
    "layers.rescaled": Printed("rescaled similarity (random pairs at 0)"),
    "layers.same_document": Printed("cosine of another token in the same document", NO_PAIRS),
    "layers.rescaled_same_document": Printed(
        "rescaled similarity (another token of the document at 0)", NO_PAIRS
    ),
    "layers.same_token": Printed("cosine of the same token in another document"),
    "layers.rescaled_same_token": Printed(
        "rescaled similarity (the same token in another document at 0)"
    ),
    "layers.centred": Printed("token cosine, mean subtracted"),
    "layers.standardised": Printed("token cosine, dimensions standardised"),
    "layers.retrieval": Printed("share of tokens found again"),
}


def lacking(result: Similarities) -> Facts:
    """Why a layer has no cosine of the same token."""
    share = result.same_token_share
    alike = NotRun("tokens of one id are all alike" if share else "no token is in two documents")
    return {
        f"{layer.name.replace(' ', '_')}.{name}": alike
        for layer in result.layers
        for name in ("same_token", "rescaled_same_token")
        if getattr(layer, name) is None
    }


QUANTITIES = quantities(__package__, "Similarities", PRINTED, lacking)
