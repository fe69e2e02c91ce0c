"""Choices that algebraic multigrid makes by the problem where they are not given."""

import math
from typing import Final

from dsolver.matrices.problem import MatrixProblem
from dsolver.multigrid.algebraic.methods import FLOWS, STRONG
from dsolver.problems import Problem

THETA: Final = {"pmis": STRONG, "aggregation": 0.08, "air": FLOWS}
FULL_ROWS: Final = 8  # entries a row, on average, above which "pmis" takes `FULL_ROWS_THETA`
FULL_ROWS_THETA: Final = 0.3
"""Bilinear elements that are stretched have couplings of just above a quarter of the largest one, and no error that is
smooth along them: 20 iterations in place of 30 to 250."""
FLOW_THETA: Final = 0.15
"""Strength of "aggregation" on a grid with a flow: below 1/6, a coupling in a box without one. Iterations of BiCGStab
at cell Péclet numbers from 0.1 to 10,000 (`bench/flow.py`): at most 39 in place of 43 on 128², 29 as before on 32³."""
SHORT_ROWS: Final = 9
"""Entries a row, on average, up to which an unsymmetric matrix has ideal restriction. Of triangles with upwind
differences or SUPG, at cell Péclet numbers from 0.1 to 100, GMRES takes 0.37 to 0.64 of the iterations of "aggregation"
then, and a first solve 0.4 to 0.63 of its time. Of tetrahedra, with 10 to 14 entries, iterations are 0.6 to 0.9, but
levels have 3 to 5 times the entries of A, and a first solve takes 1.0 to 1.9 times as long (`bench/convection.py`)."""
SKEWNESS: Final = 1 / 3
"""`MatrixProblem.skewness` up to which transport may be short: that of a cell Péclet number of 1."""
ACROSS: Final = 20.0
"""Skewness times the rows that transport crosses, up to which it is: half a Péclet number. "pmis" takes the iterations
of "air" then, or fewer, and 0.46 to 0.78 of the time (128² to 256² and 40³ cells of a rotating flow); at 38 1.2 times,
and at 85 it does not converge."""
SMOOTHER: Final = {"pmis": "jacobi", "aggregation": "chebyshev", "air": "jacobi"}
AGGRESSIVE: Final = 1  # levels that "pmis" coarsens twice at once, where nothing else is said


def has_nodes(problem: Problem) -> bool:
    """Whether rows are unknowns of nodes, or a near-null space was given: coarse points keep neither."""
    return isinstance(problem, MatrixProblem) and (problem.block > 1 or problem.guided)


def flows(problem: Problem) -> bool:
    """Whether rows are those of a flow on a grid, or of a stencil that is not symmetric."""
    return isinstance(problem, MatrixProblem) and problem.of_grid is not None and bool(problem.asymmetry)


def is_diffusive(problem: Problem) -> bool:
    """Whether an unsymmetric matrix transports so little that coarse points serve it as they do a symmetric one."""
    if not isinstance(problem, MatrixProblem) or problem.skewness > SKEWNESS:
        return False
    across = math.sqrt(problem.grid[0]) if problem.of_grid is None else max(problem.of_grid.grid)
    return problem.skewness * min(across, problem.reach) <= ACROSS


def suits_ideal_restriction(problem: Problem) -> bool:
    """Whether nearly ideal restriction serves an unsymmetric matrix better than aggregates do.

    Where couplings of both signs prevail it may not converge: of tetrahedra with SUPG at a cell Péclet number of 1000.
    """
    return flows(problem) or (problem.elliptic and row_length(problem) <= SHORT_ROWS)


def node_of(problem: Problem) -> int:
    """Unknowns of a node."""
    return problem.block if isinstance(problem, MatrixProblem) else 1


def row_length(problem: Problem) -> float:
    """Entries a row, on average; inside of a grid."""
    if not isinstance(problem, MatrixProblem):
        return len(problem.offsets)
    return problem.entries / problem.grid[0]
