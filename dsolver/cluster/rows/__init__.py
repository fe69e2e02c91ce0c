"""Matrices whose rows lie on the workers of a cluster: sent there, read there, made there, or given there."""
