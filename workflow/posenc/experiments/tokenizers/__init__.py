"""The same model over other tokenizers (D3)."""
