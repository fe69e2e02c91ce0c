"""Fluxes through the faces of cells: their form, rows made of them, flows, and those of a solution."""
