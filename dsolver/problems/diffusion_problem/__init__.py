"""Problem of diffusion with coefficients and boundary conditions on cells, as it is given: `problem`.

`coefficients` takes what may be numbers, arrays or functions, `spacing` the sizes of cells. The rows are made by
`dsolver.problems.finite_volumes` and `dsolver.problems.fluxes`.
"""
