"""A problem on an engine: its coefficients on their chunks' owners, its connected regions, right-hand side, null space.

Formulas of a discretization are in `dsolver.problems`; solvers are not known here.
"""
