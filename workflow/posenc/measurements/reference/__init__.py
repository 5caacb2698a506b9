"""Perplexity of models without a network on the same tokens: uniform, unigram, Kneser-Ney (D2)."""
