"""Classifiers with and without position embeddings (A6)."""
