"""Engines, which turn the operations of a program into work: `base` is their interface.

`eager` calls kernels in this process, `graph` makes Dask tasks, `spmd` runs an eager engine on each worker; `transport`
moves halos between ranks, `dask` moves data and watches workers. A `running_program` is a program that was started on
one. Engines know no problem, matrix or method.
"""
