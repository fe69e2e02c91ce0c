"""Formats of stars whose rows have the colors of a checkerboard: they need no columns."""
