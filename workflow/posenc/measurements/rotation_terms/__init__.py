"""How much of what rotation adds to the scores is of first order (F7)?"""
