"""Dask beyond tasks: requests that end (`connection`), workers that answer (`health`), blocks of data (`blocks`).

Nothing here knows of engines, programs or kernels.
"""
