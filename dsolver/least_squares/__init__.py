"""Least squares with rectangular matrices: the room of `dsolver.lsmr` and `dsolver.cgls`, from a matrix to a solution.

`matrix` is cut into `chunks` of rows, and so is its transpose; `lsmr` and `cgls` are methods (`method`), which see
neither arrays nor Dask; `program` runs them on an engine, `solve` from arguments to a solution.
"""
