"""The figures and tables that there are: the question that each answers, what it is made of, and
the documents that show it.

An entry here and a module of ``posenc.figures`` make a figure. Figures do not import this, so that
a new one leaves the code of all others as it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from posenc.figures.parameters import Histogram, MaskSemantics
from posenc.figures.section import Figure

PAPER, SLIDES = "paper", "slides"
BOTH = (PAPER, SLIDES)


@dataclass(frozen=True)
class Entry:
    """A figure.

    Attributes
    ----------
    question
        As the report groups figures.
    measurements
        Those that are drawn.
    documents
        Those that show it.
    section
        Its parameters in ``params.yaml``.
    """

    question: str
    measurements: tuple[str, ...]
    documents: tuple[str, ...] = (PAPER,)
    section: type[Figure] = Figure


FIGURES = {
    "layer_similarity": Entry("A1 zeroed positions", ("similarity",), BOTH),
    "cosine_histogram": Entry("A2 is this cosine high?", ("similarity",), BOTH, Histogram),
    "perplexity": Entry("D1 perplexity", ("perplexity",), BOTH),
    "training_loss": Entry("Training", ("training",)),
    "position_layers": Entry("A1 zeroed positions", ("conditions",)),
    "condition_costs": Entry("A4 masks", ("conditions",)),
    "recovered_share": Entry("A5 masks in place of positions", ("conditions",), BOTH),
    "slope_sweep": Entry("A4 masks", ("conditions", "reference")),
    "length_sweep": Entry("A4 masks", ("conditions",)),
    "extrapolation": Entry("A5 masks in place of positions", ("conditions",), BOTH),
    "mask_semantics": Entry("A4 masks", (), BOTH, MaskSemantics),
    "position_maps": Entry("B1 what position embeddings are", ("position_embeddings",)),
    "position_regression": Entry("B3 what position embeddings learn", ("position_embeddings",)),
    "readback": Entry("B2 reading back", ("readback",)),
    "position_probes": Entry("B4 probes", ("probes", "scheme_probes"), BOTH),
    "random_causal": Entry("B4 probes", ("random_causal",)),
    "spectra": Entry("C1 columns as signals", ("spectra",)),
    "band_pass": Entry("C2 band-pass", ("spectra",)),
    "components": Entry("C4 components", ("components",)),
    "layer_norm": Entry("C5 where position goes", ("layer_norm",)),
    "relative_attention": Entry("C3 relative attention by weights", ("relative_attention",)),
    "head_offsets": Entry("C6 heads", ("heads",)),
    "lags": Entry("C3 and C6: lags", ("lags",), BOTH),
    "downstream": Entry("A6 downstream", ("downstream",), BOTH),
    "superposition": Entry("B5 superposition", ("superposition", "embedding_sums")),
    "tokenizers": Entry("D3 tokenizers", ("tokenizers",), BOTH),
    "scaling": Entry("D4 scaling of scores", ("scaling",)),
    "pretraining": Entry("D5 pre-training", ("pretraining",), BOTH),
    "hard_attention": Entry("E1 and E2: soft and hard attention", ("hard_attention",), BOTH),
    "memory_networks": Entry("E3 memory networks", ("memory_networks",), BOTH),
}
"""By name, which is the module's, in order of presentation."""


@dataclass(frozen=True)
class Table:
    """A table: the measurements that it is made of, and the documents that show it.

    In a table of published values every number of ours leads to its own file.
    """

    measurements: tuple[str, ...]
    documents: tuple[str, ...] = (PAPER,)


TABLES = {
    "models": Table(("similarity",)),
    "datasets": Table(("similarity",)),
    "similarity": Table(("similarity",)),
    "anisotropy": Table(("similarity",)),
    "perplexity": Table(("perplexity",)),
    "reference": Table(("reference", "conditions")),
    "conditions": Table(("conditions",)),
    "norms": Table(("norms", "conditions")),
    "semantics": Table(("conditions",)),
    "recovery": Table(("conditions",)),
    "published": Table((), BOTH),
    "positions": Table(("position_embeddings",)),
    "readback": Table(("readback",)),
    "probes": Table(("probes", "scheme_probes")),
    "heads": Table(("heads", "lags")),
    "published_positions": Table(()),
    "downstream": Table(("downstream",)),
    "tokenizers": Table(("tokenizers",)),
    "scaling": Table(("scaling",)),
    "pretraining": Table(("pretraining",)),
    "memory_networks": Table(("memory_networks",)),
    "published_experiments": Table(()),
}
"""By name, which is the template's, in order of presentation."""

DOCUMENTS = {
    document: {
        "figures": [name for name, entry in FIGURES.items() if document in entry.documents],
        "tables": [name for name, table in TABLES.items() if document in table.documents],
    }
    for document in BOTH
}
"""Figures and tables that each document includes."""


def drawable(measured: Collection[str]) -> list[str]:
    """Names of the figures that can be drawn of these measurements, in order."""
    return [name for name, entry in FIGURES.items() if set(entry.measurements) <= set(measured)]
