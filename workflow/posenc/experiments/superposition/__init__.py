"""Two images in one (B5)."""
