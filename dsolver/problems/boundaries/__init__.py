"""Boundary conditions, of a kind and of all faces of a grid."""
