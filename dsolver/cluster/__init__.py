"""Dask clusters: `local` starts them, `devices` and `host_memory` look at their workers, `runtime` chooses an engine.

`rows/` has matrices whose rows lie on workers, `jobs/` runs commands after their client has gone, `versions` refuses
what could not work. Nothing here knows of methods or sessions.
"""
