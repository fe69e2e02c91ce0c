"""Krylov methods on handles: `method` is what they share, `cg`, `minres`, `gmres` and `bicgstab` are methods.

`methods` names them, `control` decides how a solve goes on, by numbers alone. `mixed_precision` applies a
preconditioner in float32. Users' arrays, Dask, problems and the preconditioners themselves are not known here.
"""
