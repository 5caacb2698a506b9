"""Small networks that experiments train."""
