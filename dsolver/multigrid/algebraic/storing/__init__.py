"""Storing of levels without a lattice, and of what is between them, while set-up goes on."""
