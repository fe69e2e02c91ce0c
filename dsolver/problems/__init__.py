"""Problems: diffusion with coefficients and boundary conditions, and stencils, on a grid of points or cells."""

from dsolver.grid.box import BOX_OFFSETS, STAR_OFFSETS
from dsolver.problems.boundaries.boundary import Boundary
from dsolver.problems.boundaries.conditions import Condition, Dirichlet, Neumann, Periodic, Robin
from dsolver.problems.diffusion_problem.problem import diffusion
from dsolver.problems.problem import Problem
from dsolver.problems.stencils import hpcg, poisson5, poisson7, poisson27, stencil

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
    "poisson5",
    "poisson7",
    "poisson27",
    "stencil",
]


def __dir__() -> list[str]:
    """The public names, which are all that tab completion is to show."""
    return list(__all__)
