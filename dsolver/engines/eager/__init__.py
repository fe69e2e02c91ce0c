"""Engines that call kernels at once, on the chunks of this process: `reference`, and `resident` with CUDA graphs.

`timing` and `cuda_timing` measure their operations. Nothing here imports Dask.
"""
