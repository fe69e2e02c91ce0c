"""The kernels for NVIDIA GPUs: CUDA C++ of this package, compiled and launched through CuPy.

CuPy is imported with the modules that need it, not with this package: `launch.loader` can be read where there is none.
"""
