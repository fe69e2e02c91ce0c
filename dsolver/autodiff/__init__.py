"""Solves that PyTorch and JAX differentiate: `dsolver.torch` and `dsolver.jax`, loaded when they are first named."""
