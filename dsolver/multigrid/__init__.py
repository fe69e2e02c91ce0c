"""Multigrid: the V-cycle, levels, smoothers, and how coarse levels are made.

`cycle` runs levels, whatever they were made of; `hierarchy` makes them. `geometric` coarsens a lattice, `algebraic`
follows strong couplings; `forecast` counts bytes from shapes. Conjugate gradients are not known here.
"""
