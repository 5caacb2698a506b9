"""Does a decoder without positions count them off the causal mask? Probes and controls (B4)."""
