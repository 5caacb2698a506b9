"""How much the norms of a token's embeddings tell about its position (A3)."""
