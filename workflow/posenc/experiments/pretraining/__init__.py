"""Pre-training, the auxiliary objective, Transformer or LSTM (D5)."""
