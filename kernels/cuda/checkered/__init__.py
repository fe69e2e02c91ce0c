"""Restriction and prolongation of rows whose colors alternate along axes on a GPU, without columns."""
