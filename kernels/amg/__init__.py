"""Coarsening that follows strong couplings instead of the lattice, for a whole level on the host.

Classical algebraic multigrid (Brandt, McCormick, Ruge, in Sparsity and its Applications, 1985; Ruge, Stüben, in
Multigrid Methods, SIAM 1987, chapter 4): coarse points are chosen so that every other point depends strongly on one of
them, wherever on the lattice they lie. For small levels: loops in a fixed order, so that whoever repeats them gets the
same bits.
"""

from __future__ import annotations

from typing import NamedTuple

from dsolver.kernels.amg.interpolation import interpolation
from dsolver.kernels.amg.spectrum import largest_eigenvalue
from dsolver.kernels.amg.spgemm import galerkin, transposed
from dsolver.kernels.amg.splitting import split, strong_couplings
from dsolver.kernels.cpu.csr import ALONE, of_stencil
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

__all__ = ["Coarser", "coarser", "largest_eigenvalue", "of_stencil"]


class Coarser(NamedTuple):
    """The coarser level of a level, with the transfers between them.

    Attributes:
        prolongation: P, a row for each fine point.
        restriction: Pᵀ.
        matrix: Pᵀ A P.
    """

    prolongation: Csr
    restriction: Csr
    matrix: Csr


def coarser(a: Csr, team: Team = ALONE) -> Coarser:
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
