"""What is solved: diffusion with coefficients and boundary conditions, and stencils, on a grid of points or cells."""

from dsolver.boundary import Boundary, Condition, Dirichlet, Neumann, Periodic, Robin
from dsolver.partition import BOX_OFFSETS, STAR_OFFSETS
from dsolver.problems.cells import diffusion
from dsolver.problems.problem import Problem
from dsolver.problems.stencils import hpcg, poisson7, poisson27, stencil

__all__ = [
    "BOX_OFFSETS",
    "STAR_OFFSETS",
    "Boundary",
    "Condition",
    "Dirichlet",
    "Neumann",
    "Periodic",
    "Problem",
    "Robin",
    "diffusion",
    "hpcg",
    "poisson7",
    "poisson27",
    "stencil",
]
