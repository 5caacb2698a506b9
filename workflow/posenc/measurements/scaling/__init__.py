"""Attention scores and their softmax over d_k, with and without the scaling (D4)."""
