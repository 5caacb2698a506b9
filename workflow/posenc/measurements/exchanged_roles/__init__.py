"""Does a sentence's vector know who did what to whom? Names exchanged against a paraphrase (A1)."""
