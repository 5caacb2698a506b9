"""Whether token and position can be read back from their sum, and from its layer norm (B2)."""
