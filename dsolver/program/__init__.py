"""The solve program, the same on every rank: set-up, then the iterations for one or several right-hand sides.

`solve` is the program and its commands, `spec` what it is made from, `columns` the right-hand sides that share their
iterations, `loop` answers their controls. Sessions, users' arrays and Dask are not known here.
"""
