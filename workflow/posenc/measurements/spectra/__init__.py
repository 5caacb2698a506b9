"""Hidden states, queries and keys as signals along the sequence: spectra and bands (C1, C2)."""
