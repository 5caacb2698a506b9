"""How far does what a fitted mask recovers depend on the text that it was fitted to (A5)?"""
