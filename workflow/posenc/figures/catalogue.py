"""What figures and tables are made of, and which of them each document includes.

Read by the Snakefile, by the documents' own appendix and by the tests. The names of figures are
modules of ``posenc.figures``; those of tables are templates. This module imports nothing.
"""

FIGURES = {
    "layer_similarity": ("A1 zeroed positions", ["similarity"]),
    "cosine_histogram": ("A2 is this cosine high?", ["similarity"]),
    "perplexity": ("D1 perplexity", ["perplexity"]),
    "training_loss": ("Training", ["training"]),
    "position_layers": ("A1 zeroed positions", ["conditions"]),
    "condition_costs": ("A4 masks", ["conditions"]),
    "recovered_share": ("A5 masks in place of positions", ["conditions"]),
    "slope_sweep": ("A4 masks", ["conditions", "reference"]),
    "length_sweep": ("A4 masks", ["conditions"]),
    "extrapolation": ("A5 masks in place of positions", ["conditions"]),
    "mask_semantics": ("A4 masks", []),  # of definitions alone
    "position_maps": ("B1 what position embeddings are", ["position_embeddings"]),
    "position_regression": ("B3 what position embeddings learn", ["position_embeddings"]),
    "readback": ("B2 reading back", ["readback"]),
    "position_probes": ("B4 probes", ["probes", "scheme_probes"]),
    "random_causal": ("B4 probes", ["random_causal"]),
    "spectra": ("C1 columns as signals", ["spectra"]),
    "band_pass": ("C2 band-pass", ["spectra"]),
    "components": ("C4 components", ["components"]),
    "layer_norm": ("C5 where position goes", ["layer_norm"]),
    "relative_attention": ("C3 relative attention by weights", ["relative_attention"]),
    "head_offsets": ("C6 heads", ["heads"]),
    "lags": ("C3 and C6: lags", ["lags"]),
    "downstream": ("A6 downstream", ["downstream"]),
    "superposition": ("B5 superposition", ["superposition", "embedding_sums"]),
    "tokenizers": ("D3 tokenizers", ["tokenizers"]),
    "scaling": ("D4 scaling of scores", ["scaling"]),
    "pretraining": ("D5 pre-training", ["pretraining"]),
    "hard_attention": ("E1 and E2: soft and hard attention", ["hard_attention"]),
    "memory_networks": ("E3 memory networks", ["memory_networks"]),
}
"""By name: the question, as the report groups them, and the measurements that are drawn."""


def drawable(measured: list[str]) -> list[str]:
    """Names of the figures that can be drawn of these measurements, in order."""
    return [name for name, (_, kinds) in FIGURES.items() if set(kinds) <= set(measured)]


TABLE_MEASUREMENTS = {
    "models": ["similarity"],
    "datasets": ["similarity"],
    "similarity": ["similarity"],
    "anisotropy": ["similarity"],
    "perplexity": ["perplexity"],
    "reference": ["reference", "conditions"],
    "conditions": ["conditions"],
    "norms": ["norms", "conditions"],
    "semantics": ["conditions"],
    "recovery": ["conditions"],
    "positions": ["position_embeddings"],
    "readback": ["readback"],
    "probes": ["probes", "scheme_probes"],
    "heads": ["heads", "lags"],
    "downstream": ["downstream"],
    "tokenizers": ["tokenizers"],
    "scaling": ["scaling"],
    "pretraining": ["pretraining"],
    "memory_networks": ["memory_networks"],
}
"""By name: the measurements of a table. In tables of published values every number of ours leads
to its own file."""

DOCUMENTS = {
    "paper": {
        "figures": [
            "layer_similarity", "cosine_histogram", "perplexity", "training_loss",
            "position_layers", "condition_costs", "recovered_share", "slope_sweep",
            "length_sweep", "extrapolation", "mask_semantics",
            "position_maps", "position_regression", "readback", "position_probes",
            "random_causal", "spectra", "band_pass", "components", "layer_norm",
            "relative_attention", "head_offsets", "lags",
            "downstream", "superposition", "tokenizers", "scaling", "pretraining",
            "hard_attention", "memory_networks",
        ],
        "tables": [
            "models", "datasets", "similarity", "anisotropy", "perplexity", "reference",
            "conditions", "norms", "semantics", "recovery", "published",
            "positions", "readback", "probes", "heads", "published_positions",
            "downstream", "tokenizers", "scaling", "pretraining", "memory_networks",
            "published_experiments",
        ],
    },
    "slides": {
        "figures": [
            "layer_similarity", "cosine_histogram", "perplexity", "mask_semantics",
            "recovered_share", "extrapolation", "position_probes", "lags", "downstream",
            "pretraining", "tokenizers", "hard_attention", "memory_networks",
        ],
        "tables": ["published"],
    },
}  # fmt: skip

TABLES = sorted({name for parts in DOCUMENTS.values() for name in parts["tables"]})
