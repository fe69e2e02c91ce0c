"""The specification of every kernel in NumPy, as in the books: no half sweeps, no run slices. Slow, and meant to be."""
