"""Algebraic multigrid: levels that follow strong couplings, wherever they lead.

`setup` makes a hierarchy from its `finest` level on, across chunks, by one of the `methods`: coarse points
(`parallel_coarsening`, `aggressive`) and `interpolation` from them, or aggregates (`aggregation`). Then `galerkin`
makes the coarser level's `rows`, and `storage` what cycles use. `lattice` has what grids need.
"""
