"""Texts made by rule, so that the default study needs no download."""
