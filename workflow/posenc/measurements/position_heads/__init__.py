"""What heads make of positions alone: where they look, and how much of it is a mask (C3, C6)."""
