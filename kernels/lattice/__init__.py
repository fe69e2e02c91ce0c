"""Lattices of points: interpolation and Galerkin products, transfers, finite-volume fluxes, connected cells."""
