"""Algebra of sparse matrices on a GPU, below formats and set-up: starts of rows, selections, windows, products.

Products and transposes are in `products`, those of matrices of full blocks in `blocks`, and new values at places that
are kept in `places`.
"""
