"""Offsets that weights alone predict against offsets where the attention is (C3, C6)."""
