"""Memory networks with soft and hard attention (E3)."""
