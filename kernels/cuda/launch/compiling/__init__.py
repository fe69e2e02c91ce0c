"""What is compiled by NVRTC: which kernels together, what came with the package, and the wait for it."""
