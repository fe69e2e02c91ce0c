"""Dask beyond tasks: requests that end (`connection`), workers that answer (`health`), blocks of data (`data`).

Nothing here knows of engines, programs or kernels.
"""
