"""Lattices of which every axis is halved, on a GPU: interpolation and Galerkin operators that ask no tables."""
