"""Products of sparse matrices on a GPU by a thread for each row."""
