"""Products and transposes of matrices whose rows come in full blocks."""
