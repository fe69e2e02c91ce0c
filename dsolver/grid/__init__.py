"""Grids, and how they are cut: partitions into chunks, colorings, numberings, coarse grids.

Index arithmetic alone: nothing here runs kernels on an engine, and nothing knows of Dask.
"""
