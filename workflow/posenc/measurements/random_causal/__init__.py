"""Variance of self-attention by position in frozen random models without positions (B4)."""
