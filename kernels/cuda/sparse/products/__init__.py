"""Products of sparse matrices on a GPU: A B and R A P row by row, transposes, and mirror images of entries."""
