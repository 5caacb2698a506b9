"""Attention scores of one sentence, of every head, with positions and without (C6)."""
