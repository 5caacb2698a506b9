"""Principal and independent components of hidden states, and what of position is in them (C4)."""
