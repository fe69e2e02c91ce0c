"""Stages of passes over the rows of sparse matrices on a GPU, each with more room for a row than the one before."""
