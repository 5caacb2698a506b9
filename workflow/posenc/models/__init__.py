"""Weights fetched, converted, trained and read; one module per family."""
