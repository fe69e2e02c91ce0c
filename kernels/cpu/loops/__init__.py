"""Loops that numba compiles, and the threads that share them. Nothing here holds a matrix."""
