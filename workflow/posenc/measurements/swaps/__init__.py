"""Does a mask restore order? Preference for a text over itself with two words swapped (F1, F4)."""
