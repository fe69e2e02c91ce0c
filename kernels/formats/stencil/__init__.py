"""Rows of boxes of grid points (`rows`), and those of them that follow from a few numbers: `constant`, `alike`."""
