"""How long a test waits for what has to come: a machine may be busy, or slow."""

PATIENCE = 600
"""Seconds. What never comes fails later, what comes late does not fail."""
