"""Where the heads of a model look: attention mass by offset, and types of heads (C6)."""
