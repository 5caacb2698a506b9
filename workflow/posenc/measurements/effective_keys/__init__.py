"""Is attention soft or hard? How many keys it reads, and what reading only a few costs (E1, E2)."""
