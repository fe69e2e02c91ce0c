"""Sweeps over the rows of any sparse matrix on the host: which rows read each other, their colors, and factors."""
