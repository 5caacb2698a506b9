"""What the report page calls quantities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from posenc.artifacts.numbers import ENDS
from posenc.report.readers import QUANTITIES

PARTS = {
    "embedding": "embedding",
    "last": "last hidden state",
    "best": "best layer",
    "first": "first layer",
    "documents": "documents",
    "tokens": "tokens",
    "bytes": "bytes of text",
    "d_model": "width of hidden states",
    "perplexity": "perplexity",
    "nll_per_token": "loss (nats per token)",
    "bits_per_byte": "bits per byte",
    "delta_nll": "change of the loss against intact (nats per token)",
    "cosine": "token cosine with intact",
    "last_cosine": "last hidden state, token cosine with intact",
    "recovered": "recovered share of the lost log-perplexity",
    "recovered_perplexity": "recovered share of the lost perplexity",
    "worse_than_uniform": "share of tokens predicted worse than by a uniform guess",
    "delta_nll_without": "change of the loss against the model without positions (nats per token)",
    "mean": "mean",
    "sd": "standard deviation",
    "least": "least",
    "masks": "learned mask",
    "sweep": "sweep",
    "smallest": "the smallest of the study",
    "largest": "the largest of the study",
}
"""Parts of quantities, as a reader knows them; what is missing is shown as it is."""
WORDS: dict[str, Mapping[str, str]] = {
    "training": {
        "steps": "steps",
        "tokens_seen": "tokens seen",
        "training_documents": "training documents",
        "validation_documents": "held-out documents",
        "final_training_loss": "last training loss (nats per token)",
        "final_validation_loss": "last held-out loss (nats per token)",
        "best_validation_loss": "best held-out loss (nats per token)",
    },
    **{name: quantities.words for name, quantities in QUANTITIES.items()},
    **{name: words for of in QUANTITIES.values() for name, words in of.also.items()},
}
"""The same, by measurement; they come before :data:`PARTS`."""
JOINT = " · "
"""Between the parts of a label."""
NULLS = {"_control": "random table", "_shuffled": "shuffled rows"}
"""What the ending of a quantity says of its table."""


def label(measurement: str, quantity: str) -> str:
    """A quantity in words.

    A word that ends in ``_`` is for all quantities that continue with a number.

    Examples
    --------
    >>> label("similarity", "block_2.cka")
    'block 2 · linear CKA with intact'
    >>> label("causal_probes", "window_5.best")
    'without positions, the last 5 tokens seen · best layer'
    """
    words = {**PARTS, **WORDS.get(measurement, {})}

    def word(part: str) -> str:
        for ending, of in NULLS.items():
            base = part.removesuffix(ending)
            if part not in words and base != part and base in words:
                return f"{of}: {words[base]}"
        stem, _, number = part.rpartition("_")
        is_varied = number.isdigit() or number in ENDS
        if part not in words and is_varied and f"{stem}_" in words:
            return words[f"{stem}_"].format(PARTS.get(number, number))
        return words.get(part, part.replace("_", " "))

    return JOINT.join(map(word, quantity.split(".")))


def anchor(text: str) -> str:
    """A text as a part of an address.

    Examples
    --------
    >>> anchor("layer_similarity")
    'layer-similarity'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def in_japanese(part: str, forms: Mapping[str, str]) -> str | None:
    """What a part of a label is in Japanese; None where it is a name.

    Parameters
    ----------
    part
        What stands between two dots of a label.
    forms
        Japanese by English words, from the page's lists; ``{}`` stands for a number, or for
        words that have a form of their own.

    Examples
    --------
    >>> in_japanese("block 2", {"block {}": "ブロック {}"})
    'ブロック 2'
    """
    if part in forms:
        return forms[part]
    for text, form in forms.items():
        before, hole, after = text.partition("{}")
        is_like = hole and part.startswith(before) and part.endswith(after)
        if is_like and len(part) > len(before) + len(after):
            filling = part[len(before) : len(part) - len(after)]
            return form.replace("{}", in_japanese(filling, forms) or filling)
    return None


def spoken_parts(labels: Iterable[str], forms: Mapping[str, str]) -> dict[str, str]:
    """By part of some labels, what it is in Japanese, where that differs."""
    parts = sorted({part for label in labels for part in label.split(JOINT)})
    said = {part: in_japanese(part, forms) for part in parts}
    return {part: form for part, form in said.items() if form is not None}
