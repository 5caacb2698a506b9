"""The meanings of a float attention mask, checked against versions of the library itself."""
