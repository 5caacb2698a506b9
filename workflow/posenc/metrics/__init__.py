"""Measurements as pure mathematics: arrays in, numbers with their uncertainty out; no files."""
