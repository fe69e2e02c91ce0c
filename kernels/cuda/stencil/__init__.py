"""Constant stencils on a GPU: products and sweeps without a stored matrix."""
