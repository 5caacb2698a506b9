"""Whole files or none, and what made them: atomic writes, seals, checksums, provenance."""
