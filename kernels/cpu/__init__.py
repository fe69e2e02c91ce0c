"""The kernels for CPUs: loops compiled by numba and cached on disk, cut among a team of threads."""
