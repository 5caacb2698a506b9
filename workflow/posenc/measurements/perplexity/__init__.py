"""Perplexity of a decoder under a condition, and its change against the intact model (D1)."""
