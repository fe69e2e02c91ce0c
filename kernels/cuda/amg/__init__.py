"""Set-up of algebraic levels and dense inverses on a GPU.

Couplings, coarse points and interpolation are here, aggregates in `aggregation`. Products and transposes are in
`products`, those of matrices of full blocks in `blocks`, and new values at places that are kept in `places`.
"""
