"""Thin commands of rules that make no measurement: they open files, call, and write files."""
