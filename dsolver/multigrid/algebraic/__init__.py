"""Algebraic multigrid: levels that follow strong couplings, wherever they lead.

`setup` makes a hierarchy from its `finest` level on, across chunks, by one of the `methods`: `classical` coarsening, by
coarse points and interpolation from them, or smoothed `aggregation`. Then `galerkin` makes the coarser level's `rows`,
and `storage` what cycles use. `lattice` has what grids need.
"""
