"""Algebraic multigrid as a preconditioner: `preconditioner` is what users give as M.

`defaults` are its choices by the problem, `finest` makes A and the finest level, `memory` forecasts bytes. Levels below
come from `dsolver.multigrid.algebraic`.
"""
