"""Similarity of each layer's hidden states under a condition to the intact ones (A1, A2)."""
