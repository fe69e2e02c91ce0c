"""Properties of a matrix that its entries tell: zeros, asymmetry, and whether its rows are elliptic."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dsolver.errors import InputError
from dsolver.kernels.general.look import Look
from dsolver.matrices.checked import checked, entry
from dsolver.matrices.elimination import Elimination
from dsolver.matrices.multipliers import augmented, multipliers
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.solved_matrix import SolvedMatrix, is_uneven
from dsolver.units import counted

POSITIVE: Final = 0.2
"""Part of the couplings that may be positive where rows count as elliptic: with finite elements of second order it is
0.23, with elastic bodies 0.27, and algebraic multigrid gains little there."""
ONE_WAY: Final = 0.05
"""Part of the entries that may have no mirror image there: more are no coefficients of an equation in space."""
DOWNSTREAM: Final = 0.25
"""`ONE_WAY` where no coupling is positive, as of time steps solved at once (0.17) or upwind rays that scatter (0.2)."""
HUBS: Final = 4.0
"""Mean square of the rows' lengths over the square of their mean, from which on few long rows have most of the entries
of the products that algebraic multigrid makes. In lattices and meshes it is 1.0 to 1.3."""
NEAR: Final = 1.2
"""Times the steps that a tree takes, from a row to the rows that it reads and on, to half of all, up to which a graph
counts as one without distances, as social and random ones are: they take 0.8 to 1.1 times as many, meshes of tetrahedra
4. Levels would fill, and Jacobi needs few iterations: 33 to 130 for 40,000 rows, in a tenth of the time of "amg"."""
DOMINANT: Final = 0.1  # dominance of the diagonal up to which they do: beyond it few iterations of any kind are needed
CONVECTION: Final = 1e-8  # difference from the transpose, over the largest entry, from which on a block has convection
ROUNDING: Final = 1e-12  # part of the largest coupling up to which another one is rounding
REST: Final = 0.95
"""Part of the diagonal that couplings are at most where Jacobi serves: of 40³ rows with 0.37, 0.86, 0.9 a first solve
with Chebyshev polynomials takes 1.9, 1.6 and 1.2 times as long. Where it holds in the mean alone, 0.8 to 1.0."""
FEW: Final = 0.01
"""Part of the entries that may have no mirror image where couplings are compared with those of the other direction."""
OPENED: Final = 0.9  # part of the rows that do not add up to zero from which on that is no matter of boundaries
SURELY: Final = 0.25
"""Dominance from which on an iteration with the diagonal takes at least as much of the error away as one with nothing
but it would: some sixty are enough. Of a symmetric matrix `DOMINANT` tells as much, as roots count there."""


ACROSS: Final = 1000  # rows below which a lattice in space is a few steps across, too
FORKS: Final = 1.5  # couplings of a row, in the mean, below which most rows lie in chains, and no tree stands for them


def problem_of(solved: SolvedMatrix, name: str, **options: Any) -> MatrixProblem:
    """The problem of a matrix that is not cut yet; options: further attributes."""
    rows, look = solved.rows, solved.look
    told = told_by(look, rows.shape[0], rows.nnz, lambda: int((rows.indptr[1:] - rows.indptr[:-1] == 1).sum()))
    elliptic, dominant = told["elliptic"], told["dominant"]
    return MatrixProblem(
        name=name,
        grid=(rows.shape[0], 1, 1),
        singular=(look.rows_cancel and look.columns_cancel) or 0 < look.opened == solved.empty,
        matrix=rows,
        elimination=Elimination(rows, mirrored=look.mirrored),
        asymmetry=asymmetry(rows, look),
        hollow=zeros(look),
        indefinite=look.negative > 0,
        dominated=dominant and look.place is None and not look.empty[0] and _is_dominated(rows),
        hubs=look.squares * rows.shape[0] > HUBS * float(rows.nnz) ** 2 or (elliptic and _are_near(rows)),
        mirrored=look.mirrored,
        negative=look.negative,
        opened=look.opened,
        uneven=is_uneven(rows, look),
        given=solved.given,
        negated=solved.negated,
        exponent=solved.exponent,
        known=solved.known > 0,
        empty=solved.empty,
        multipliers=_multipliers(rows, look) if solved.given is None else 0,
        notes=solved.notes,
        **told,
        **options,
    )


def told_by(look: Look, count: int, entries: int, alone: Callable[[], int]) -> dict[str, Any]:
    """Attributes of a problem that decide how it is solved, by a look at `count` rows; alone: those of one entry."""
    return {
        "elliptic": _is_elliptic(look, count, entries, alone),
        "skewness": look.skewness if look.unmatched <= FEW * entries else 1.0,
        "reach": _reach(look, count, entries),
        "dominant": look.negative == 0 and look.dominance >= (SURELY if look.place else DOMINANT) * count,
    }


def _is_elliptic(look: Look, count: int, entries: int, alone: Callable[[], int]) -> bool:
    """As `Problem.elliptic`. A row without a positive diagonal counts as dominant; one without couplings not at all."""
    most = ONE_WAY if look.positive > ROUNDING * count else DOWNSTREAM
    one_way = 0.0 if look.place is None else most * entries
    if look.unmatched > one_way or look.positive > POSITIVE * count:
        return False
    return look.dominance <= DOMINANT * count or look.dominance - (few := alone()) <= DOMINANT * (count - few)


def _multipliers(rows: Any, look: Look) -> int:
    """Number of multipliers of a matrix of SciPy; 0 where G + B W Bᵀ would not be elliptic."""
    count = multipliers(rows) if look.negative and look.place is None and isinstance(rows.data, np.ndarray) else 0
    if not count:
        return 0
    held, found = checked("A", augmented(rows, count)[0])
    return count if _is_elliptic(found, held.shape[0], held.nnz, lambda: 0) else 0


def _reach(look: Look, count: int, entries: int) -> float:
    """As `MatrixProblem.reach`: of u'' = c u between points, whose rows add up to c, it is c^-1/2.

    What the boundary of a cube adds to the mean dominance is no part of that.
    """
    dominance = look.dominance / count - count ** (-1 / 3)
    if look.opened < OPENED * count or dominance <= 0.0:
        return math.inf
    return 1.0 / math.sqrt(dominance * entries / count)


def _is_dominated(rows: Any) -> bool:
    """Whether couplings are at most `REST` of the diagonal, which is positive, in each row of a matrix of SciPy."""
    if not isinstance(rows.data, np.ndarray):
        return False
    sizes = np.add.reduceat(abs(rows.data), rows.indptr[:-1])
    return bool((sizes <= (1.0 + REST) * rows.diagonal()).all())


def _are_near(rows: Any) -> bool:
    """Whether half of the rows of a matrix of SciPy are a few steps from the one in the middle: see `NEAR`."""
    count = rows.shape[0]
    couplings = rows.nnz / count - 1.0
    if not isinstance(rows.data, np.ndarray) or count < ACROSS or couplings < FORKS:
        return False
    start, seen, front = rows.indptr, np.zeros(count, bool), np.array([count // 2])
    seen[front] = True
    for _ in range(math.floor(1.0 + NEAR * math.log(count / 2.0) / math.log(couplings))):
        lengths = start[front + 1] - start[front]
        places = np.repeat(start[front] - lengths.cumsum() + lengths, lengths) + np.arange(lengths.sum())
        read = rows.indices[places]
        front = np.unique(read[~seen[read]])
        seen[front] = True
    return bool(2 * int(seen.sum()) > count)


def check_rows(look: Look) -> None:
    """Refuse empty rows; raises InputError."""
    count, first = look.empty
    if count:
        raise InputError(f"A has {counted(count, 'empty row')}, the first is row {first}: take such rows out")


def zeros(look: Look) -> str:
    """Zeros on the diagonal, for messages; empty where there are none."""
    count, first = look.hollow
    return f"A has {count} zeros on its diagonal, the first in row {first}" if count else ""


def asymmetry(rows: Any, look: Look) -> str:
    """The entries that differ most from those of the transpose, for messages; empty where none do."""
    if look.place is None:
        return ""
    i, j = look.place
    half = look.unmatched == rows.nnz - rows.shape[0] > 1 and not look.hollow[0]
    told = ", and no entry has its mirror image: of a symmetric matrix both halves are to be given" if half else ""
    return f"A[{i}, {j}] = {entry(rows, i, j):.6g}, but A[{j}, {i}] = {entry(rows, j, i):.6g}{told}"


def is_upwind(a: Any) -> bool:
    """Whether a sparse matrix has convection by upwind differences: no coupling has the sign of the diagonal."""
    if abs(a - a.T).max() <= CONVECTION * abs(a).max():
        return False
    entries = a.tocoo()
    couplings = entries.data[entries.row != entries.col] * np.sign(np.median(a.diagonal()))
    return bool(couplings.max(initial=0.0) <= ROUNDING * abs(couplings).max(initial=0.0))
