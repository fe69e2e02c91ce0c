"""Coarsening that follows strong couplings instead of the lattice, for a whole level on the host.

Classical algebraic multigrid (Brandt, McCormick, Ruge, in Sparsity and its Applications, 1985; Ruge, Stüben, in
Multigrid Methods, SIAM 1987, chapter 4): coarse points are chosen so that every other point depends strongly on one of
them, wherever on the lattice they lie. For small levels: loops in a fixed order, so that whoever repeats them gets the
same bits.
"""

from __future__ import annotations

from typing import NamedTuple

from dsolver.kernels.algebraic.interpolation import interpolation
from dsolver.kernels.algebraic.products import galerkin, transposed
from dsolver.kernels.algebraic.rows import ALONE, Rows, of_stencil
from dsolver.kernels.algebraic.spectrum import largest_eigenvalue
from dsolver.kernels.algebraic.splitting import split, strong_couplings
from dsolver.kernels.cpu.team import Team

__all__ = ["Coarser", "Rows", "coarser", "largest_eigenvalue", "of_stencil"]


class Coarser(NamedTuple):
    """What lies below a level.

    Attributes:
        prolongation: P, a row for each fine point.
        restriction: Pᵀ.
        matrix: Pᵀ A P.
    """

    prolongation: Rows
    restriction: Rows
    matrix: Rows


def coarser(a: Rows, team: Team = ALONE) -> Coarser:
    """The next coarser level of a symmetric matrix with a positive diagonal.

    Args:
        a: the matrix.
        team: shares the work; the number of its threads changes no bit.
    """
    strong = strong_couplings(a, team)
    number, count = split(strong, team)
    p = interpolation(a, strong, number, count, team)
    r = transposed(p, count, team)
    return Coarser(p, r, galerkin(r, a, p, team))
