"""The solve program, the same on every rank: set-up, then the iterations for one or several right-hand sides.

`prepared` is the matrix and its levels, `solve` the program, `commands` what else it is told to do. `spec` is what it
is made from, `batches/` has the right-hand sides that share their iterations, `loop` answers their controls. Sessions,
users' arrays and Dask are not known here.
"""
