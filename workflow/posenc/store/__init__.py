"""Activations on disk: shards, index, losses, the runs that fill them."""
