"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from posenc.artifacts.printing import Fields, Printed, quantities

VECTORS = {
    "position_embeddings": "of position embeddings",
    "token_embeddings": "of token embeddings",
    "sum": "of their sum",
}
PRINTED: Fields = {
    "r2": Printed("R² of position from norms"),
    **{f"r2.{vectors}": Printed(words) for vectors, words in VECTORS.items()},
    **{f"r2.{vectors}.linear": Printed("straight line") for vectors in VECTORS},
    **{f"r2.{vectors}.flexible": Printed("flexible curve") for vectors in VECTORS},
}
QUANTITIES = quantities(__package__, "EmbeddingNorms", PRINTED)
