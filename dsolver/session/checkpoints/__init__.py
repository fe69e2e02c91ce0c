"""Checkpoints of running solves: saved iterates, and the folders of a Zarr store that hold them."""
