"""Smoothed aggregation: loops over rows and nodes of a level, on the host.

`setup` has all that there is: couplings of `nodes`, `roots` of aggregates, their `tentative` prolongation, its
`smoothing`, and steps towards the largest eigenvalue (`spectrum`). `dsolver.kernels.cuda.amg.aggregation` has a GPU's.
"""
