"""Do two places of a text make pairs of words that one order prefers? (F1, F4)."""
