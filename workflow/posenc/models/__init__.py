"""Weights fetched, converted, trained and read; one module a family."""
