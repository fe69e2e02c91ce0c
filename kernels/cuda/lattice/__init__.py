"""Lattice set-up on a GPU: interpolation, Galerkin products, transfers, fluxes."""
