"""Which figures and tables each document includes: read by the Snakefile and by the tests.

The names of figures are modules of ``posenc.figures``; those of tables are templates. This module
imports nothing.
"""

DOCUMENTS = {
    "paper": {
        "figures": ["layer_similarity", "cosine_histogram", "perplexity", "training_loss"],
        "tables": ["models", "datasets", "similarity", "perplexity", "published"],
    },
    "slides": {
        "figures": ["layer_similarity", "cosine_histogram", "perplexity"],
        "tables": ["published"],
    },
}

FIGURES = sorted({name for parts in DOCUMENTS.values() for name in parts["figures"]})
TABLES = sorted({name for parts in DOCUMENTS.values() for name in parts["tables"]})
