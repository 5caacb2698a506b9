"""How much of position is a mask: the closed form by head, and the parts of scores (F2, F3)."""
