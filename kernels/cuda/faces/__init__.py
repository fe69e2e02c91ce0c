"""Symmetric stars in the colors of a checkerboard on a GPU."""
