"""Vectors on a GPU: single ones, columns side by side, and sums over groups of items."""
