"""What is asked of a model: positions, masks and their parameters, without torch."""
