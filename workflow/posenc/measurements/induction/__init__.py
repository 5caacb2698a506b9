"""Does a mask restore order? Copying of repeated tokens, and the heads that do it (F1, F4)."""
