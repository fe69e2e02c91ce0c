"""Sweeps over the rows of any sparse matrix on a GPU: which rows read each other, their colors, and factors."""
