"""What the normalisations do to position, all along the residual stream (C5)."""
