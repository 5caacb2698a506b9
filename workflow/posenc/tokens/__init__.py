"""Documents as ids: tokenizers, packing."""
