"""Relaxation as a preconditioner: Jacobi and its blocks, Chebyshev polynomials, sweeps, incomplete factors."""
