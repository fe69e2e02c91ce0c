"""Algebraic multigrid's set-up: loops over the rows of a level, on the host. `dsolver.kernels.cuda.amg` has a GPU's.

Two set-ups share this package. Levels that are cut into chunks use `setup`: strong `couplings`, then coarse points
(`pmis`) with `extended_interpolation`, or `aggregates` with `tentative` prolongation, and products (`spgemm`).

Small levels that one chunk holds whole use `coarser` here, which is classical (Brandt, McCormick, Ruge, in Sparsity and
its Applications, 1985; Ruge, Stüben, in Multigrid Methods, SIAM 1987, chapter 4): coarse points (`ruge_stueben`) are
chosen so that every other point depends strongly on one of them, and `classical_interpolation` leads back from them.

All loops give the same bits whatever the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

from dsolver.kernels.amg.classical_interpolation import interpolation
from dsolver.kernels.amg.ruge_stueben import split, strong_couplings
from dsolver.kernels.amg.spectrum import largest_eigenvalue
from dsolver.kernels.amg.spgemm import galerkin, transposed
from dsolver.kernels.cpu.csr.rows import ALONE, of_stencil
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
