"""Set-up of algebraic levels and dense inverses on a GPU: couplings, coarse points, interpolation; `aggregation`."""
