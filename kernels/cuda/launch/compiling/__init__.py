"""The compiler of kernels: which ones it makes together, machine code of the package, and the wait for it."""
