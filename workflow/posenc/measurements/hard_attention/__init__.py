"""Soft and hard read-outs of real attention patterns, and the gradient's variance (E1, E2)."""
