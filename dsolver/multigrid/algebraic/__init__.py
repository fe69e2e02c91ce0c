"""Algebraic multigrid: levels that follow strong couplings, wherever they lead.

`setup` makes a hierarchy from its `finest` level on, across chunks, by one of the `methods`: `classical` coarsening, by
coarse points and interpolation from them, or smoothed `aggregation`. Then `galerkin` makes the coarser level's `rows`,
and `storage` what cycles use. `lattice` has what grids need.

Names mean the same everywhere here, on every chunk where that is not said: `engine` runs the chunks of a level in
float64, number `depth`; `rows` are `LevelRows`, `measures` their `Measures`, `exchange` that of their ghosts, `layout`
the `Layout` of their vectors; `weights` are a grid's rows, float64 (K rows,), offset after offset, or (K,). `senders`:
the chunks whose rows each chunk reads, as far as a rank has to know; `reach`: those whose rows it may read, or that may
read its, as all ranks know; `bounds`: the first row of each chunk, and behind them the number of rows;
`numbers`: int64, of the coarse points of every window, -1 for fine ones; `lists`: messages by chunk, which `named`
lists, ascending; `origin`: int64, the finest row that each row stems from; `near`: float64 (rows, k), the near-null
space; `size`: unknowns of a node; `blocks`: of A and P, where rows come in such; `halves`: rows are `HalfRows`;
`singular`: constants are in the null space.
"""
