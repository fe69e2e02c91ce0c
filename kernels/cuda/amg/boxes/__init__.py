"""Rows of boxes of grids on a GPU: of all cells, and of the open ones."""
