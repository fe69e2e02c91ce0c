"""Algebraic multigrid's set-up: loops over the rows of a level, on the host. `dsolver.kernels.cuda.amg` has a GPU's.

`setup` has all that there is: strong `couplings`, then coarse points (`pmis`) with `extended_interpolation`, or what
`aggregation` has, and products (`products`). All loops give the same bits whatever the number of
threads.
"""
