"""Sliced ELL on a CPU: matrices with their kernels, their loops and their set-up."""
