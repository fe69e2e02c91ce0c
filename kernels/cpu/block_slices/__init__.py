"""Slices of rows of blocks of any sparse matrix on a CPU."""
