"""Which figures and tables each document includes: read by the Snakefile and by the tests.

The names of figures are modules of ``posenc.figures``; those of tables are templates. This module
imports nothing.
"""

DOCUMENTS = {
    "paper": {
        "figures": [
            "layer_similarity", "cosine_histogram", "perplexity", "training_loss",
            "position_layers", "condition_costs", "recovered_share", "slope_sweep",
            "length_sweep", "extrapolation", "mask_semantics",
            "position_maps", "position_regression", "readback", "position_probes",
            "random_causal", "spectra", "band_pass", "components", "layer_norm",
            "relative_attention", "head_offsets", "lags",
        ],
        "tables": [
            "models", "datasets", "similarity", "anisotropy", "perplexity", "reference",
            "conditions", "norms", "semantics", "recovery", "published",
            "positions", "readback", "probes", "heads", "published_positions",
        ],
    },
    "slides": {
        "figures": [
            "layer_similarity", "cosine_histogram", "perplexity", "mask_semantics",
            "recovered_share",
        ],
        "tables": ["published"],
    },
}  # fmt: skip

FIGURES = sorted({name for parts in DOCUMENTS.values() for name in parts["figures"]})
TABLES = sorted({name for parts in DOCUMENTS.values() for name in parts["tables"]})
