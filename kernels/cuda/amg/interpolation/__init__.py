"""Rows of sums over two matrices on a GPU: interpolation "extended+i", and couplings by paths."""
