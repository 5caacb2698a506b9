"""What position embeddings are, and what can be read off them alone (B1, B3, C1, C4)."""
