"""Which tokens pay when positions are taken away? Loss by class of token (A1, F1)."""
