"""Which two rows of a model's token embedding a mixture consists of, by dimensions (B5)."""
