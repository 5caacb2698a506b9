"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from posenc.artifacts.printing import Fields, Printed, quantities
from posenc.drawing.exhibit import Exhibit

PRINTED: Fields = {
    "documents": Printed(),
    "tokens": Printed(),
    "bytes": Printed(),
    "vocabulary_size": Printed("size of the vocabulary"),
    "perplexity": Printed("corpus perplexity"),
    "bits_per_byte": Printed(),
    "nll_per_token": Printed(),
    "worse_than_uniform": Printed(),
    "delta_nll": Printed(),
    "perplexity_ratio": Printed("perplexity as a multiple of the intact one"),
    "sequence_perplexity": Printed("perplexity of single documents", name="sequence"),
    "sequence_perplexity.mean": Printed(),
    "sequence_perplexity.median": Printed(),
}
QUANTITIES = quantities(__package__, "CorpusPerplexity", PRINTED)
FIGURE = Exhibit(
    "D1 perplexity",
    ("perplexity",),
    height=2.4,
    width=3.3,
    caption="Corpus perplexity by condition, with its interval, on a logarithmic axis. The "
    "upright stroke is the size of the vocabulary, which is the perplexity of a uniform guess.",
    alt="Points with intervals on a logarithmic axis: corpus perplexity of each model, data "
    "set and condition.",
)
