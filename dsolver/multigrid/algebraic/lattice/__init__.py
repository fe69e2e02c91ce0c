"""Algebraic multigrid of a grid: its rows as those of a matrix, its levels, and the choice to leave the lattice.

Chunks of a grid are boxes, those of algebraic levels ranges of `rows`. Algebraic `levels` begin at the finest one, or
below the last lattice, as statistics of its rows say (`choice`).
"""
