"""The kernels for CPUs, compiled by numba and cached on disk."""

from dsolver.kernels.cpu.backend import CpuBackend

__all__ = ["CpuBackend"]
