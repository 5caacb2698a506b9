"""What is known of a model: discovered, verified, and asked by everything else."""
