"""Looks at the entries of a matrix on a GPU, before anything is made of them."""
