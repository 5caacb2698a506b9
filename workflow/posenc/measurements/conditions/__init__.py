"""What a study's conditions do to a model: perplexity, recovered share, similarity by layer."""
