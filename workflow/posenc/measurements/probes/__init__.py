"""Position read from each layer's hidden states by linear and ReLU probes (B4)."""
