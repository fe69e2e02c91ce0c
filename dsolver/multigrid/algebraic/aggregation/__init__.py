"""Smoothed aggregation across chunks (Vaněk, Mandel, Brezina, Computing 56, 1996).

Nodes are put together in `aggregates`; their `tentative` prolongation keeps the near-null space, such as rigid body
modes; `smoothing` it once needs the largest eigenvalue (`spectrum`). Loops: `dsolver.kernels.cpu.amg.aggregation`.
"""
