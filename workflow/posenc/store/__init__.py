"""Activations on disk: shards, index, losses."""
