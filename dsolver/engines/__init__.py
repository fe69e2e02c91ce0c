"""Engines, which turn the operations of a program into work: `base` is their interface, `running` a started program.

`eager` calls kernels in this process, `graph` makes Dask tasks, `spmd` runs an eager engine on each worker; `transport`
moves halos between ranks, `dask` moves data and watches workers. Engines know no problem, matrix or method.
"""
