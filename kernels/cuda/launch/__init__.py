"""Compiling and launching CUDA kernels: sources, streams, launch configurations."""
