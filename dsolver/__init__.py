"""Distributed multigrid-preconditioned conjugate gradients for 3D grids, on Dask, on CPUs and GPUs."""
