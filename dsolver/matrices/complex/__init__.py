"""Complex systems as matrices: their parts, and the real matrix that preconditioners are made of."""
