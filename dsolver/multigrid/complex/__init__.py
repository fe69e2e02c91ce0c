"""Multigrid of complex symmetric matrices: their levels, and cycles on complex vectors."""
