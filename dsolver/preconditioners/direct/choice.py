"""Fill and time of factors of the whole matrix, and where they are chosen in place of iterations."""

import math
from typing import Final

import numpy as np

from dsolver.kernels.direct.fill import Fill
from dsolver.kernels.direct.libraries import LIBRARIES, Kind, chosen
from dsolver.matrices.elimination import LAST
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems import Problem

MOST: Final = Fill(entries=1e9, products=math.inf)
"""Fill of factors beyond which it is not counted: that would take half a minute."""
CHEAP: Final = Fill(entries=1.5e5, products=2e7)
"""Fill of factors that are made at once, whatever the matrix: hundredths of a second."""
SURE: Final = Fill(entries=5e6, products=2e9)
"""Fill of factors that are made at once where nothing tells how many iterations are needed: a second or two."""
LARGE: Final = 1e8
"""Entries of such factors that may be more, if they take no more multiplications than `FEW` products with A."""
FEW: Final = 5000  # products with A
BAND: Final = 1200
"""Products with A, as many multiplications of which the envelope of an elliptic matrix may take that has factors at
once on CPUs: up to some 10,000 rows in a plane, and 1000 in space. Their time is that of ten to thirty iterations."""
INSTEAD: Final = 2400
"""Products with A, as many multiplications of which SuperLU may take at once on CPUs for a matrix with a positive
diagonal that is not elliptic."""
RATE: Final = {"cpu": 4.0, "cuda": 0.1}
"""Multiplications that make large factors in the time of one of a product with A. SuperLU made 2 to 4 on a core; on a
GPU products are far quicker, factors are not."""
SQUARES: Final = Fill(entries=LAST.entries / 8, products=LAST.products / 40)
"""Fill of factors of a matrix for whose least squares there may be others."""
LATER: Final = Fill(entries=1e7, products=4e9)
"""Fill of factors that are made where many solves have one matrix: with more, each takes 10 ms of one core."""
STORED: Final = 12.0
"""Products with A that take as long as to order and to store as many entries of factors as A has: 8 to 15 for grids in
a plane, 11 to 35 for their matrices."""
BESIDE: Final = 4.0  # products with A that take as long as a solve beside what its factors do
COUNTED: Final = 400.0
"""Products with A from which on the fill of a matrix is counted, which takes as long as 250 to 650 of them."""
ENTRIES: Final = 1.5e7
PRODUCTS: Final = 6e9
"""Entries of factors, and multiplications, that SuperLU makes in a second: 0.8 to 1.3 of the time of 20³, 30³ and 40³
points and of 100² and 300². Multiplications are about the squares of a row's entries, summed over all rows."""


def entries_of(problem: Problem) -> int:
    """Entries of the whole matrix."""
    if isinstance(problem, MatrixProblem):
        return problem.entries if problem.elimination is None else problem.elimination.entries
    x, y, z = problem.grid
    return len(problem.offsets) * x * y * z


def fill_of(problem: Problem) -> float:
    """About how many entries the factors have, as those of a mesh where the matrix is not here."""
    rows = math.prod(problem.grid)
    if isinstance(problem, MatrixProblem) and problem.elimination is not None:
        found = problem.elimination.within(MOST)
        exchanged = problem.hollow or problem.indefinite or not problem.mirrored
        return (1 + bool(exchanged)) * (4.0 * MOST.entries if found is None else found.entries)
    flat = problem.lattice and 1 in problem.grid
    fill = 6.6 * rows * math.log2(max(rows, 2.0)) if flat else 0.6 * rows ** (5 / 3)
    return min(max(2.0 * entries_of(problem), fill), float(rows) ** 2)


def suit_at_once(problem: Problem, method: str | None, device: str) -> bool:
    """Whether to make factors of a matrix that is here, in place of iterations without factors.

    They are cheap, or nothing tells how many iterations are needed, or what a small residual is worth, and they are
    affordable. Methods that are asked for are left to iterations.
    """
    if method is not None or not isinstance(problem, MatrixProblem) or problem.null_vectors:
        return False
    if problem.uneven and _fits(problem, SURE):
        return True
    if problem.indefinite or (problem.asymmetry and not problem.elliptic and not problem.dominant):
        return _fits(problem, SURE) or _fits(problem, _as_products(problem, FEW))
    return (device == "cpu" and problem.singular is False and _are_quicker(problem)) or cost_little(problem)


def _are_quicker(problem: MatrixProblem) -> bool:
    """Whether factors of a matrix with a positive diagonal take less time on a CPU than iterations are likely to."""
    if problem.elimination is None or problem.dominant or problem.guided:
        return False
    if problem.elliptic:
        return problem.elimination.narrow(_as_products(problem, BAND)) is not None
    most = _as_products(problem, round(INSTEAD * _speed(problem)))
    return problem.elimination.promises(most) and _fits(problem, most)


def cost_little(problem: MatrixProblem) -> bool:
    """Whether factors of a matrix that is here cost less than iterations of any kind."""
    return problem.singular is False and not problem.null_vectors and _fits(problem, CHEAP)


def in_products(problem: Problem, device: str) -> float | None:
    """Products with A that take as long as factors of a matrix that is here; None where these are beyond `LAST`.

    A function has none: those of the matrix near it are a preconditioner.
    """
    if not isinstance(problem, MatrixProblem) or problem.operator is not None:
        return None
    found = _found(problem, LAST)
    return None if found is None else found.products / _rate(problem, device)


def have_paid(problem: Problem, spent: float, solves: int) -> bool:
    """Whether factors, made at first, would have cost no more on a CPU than so many solves without them have.

    `spent`: products with A that took as long as these. Fill is counted up to a power of two of them, and so not often,
    and only of a matrix whose envelope promises that it is within these.
    """
    entries, rate = entries_of(problem), _rate(problem, "cpu")
    products = min(LATER.products, rate * 2.0 ** math.ceil(math.log2(spent)))
    most = Fill(entries=LATER.entries, products=products)
    if isinstance(problem, MatrixProblem):
        here = problem.elimination
        found = here.counted(most) if here and spent >= COUNTED and here.promises(most) else None
    else:
        found = _found(problem, most)
    if found is None:
        return False
    filled = found.entries / entries
    return found.products / rate + STORED * filled + solves * (filled + BESIDE) <= spent


def _rate(problem: Problem, device: str) -> float:
    """Multiplications that make large factors in the time of a product with A."""
    return RATE[device] * entries_of(problem) * (_speed(problem) if device == "cpu" else 1.0)


def _speed(problem: Problem) -> float:
    """Speed of the library that makes the factors, over that of SuperLU, as far as is known in this process."""
    dtype = np.dtype(np.complex128 if problem.complex else np.float64)
    mirrored = not isinstance(problem, MatrixProblem) or problem.mirrored
    kind = Kind(symmetric=not problem.asymmetry, mirrored=mirrored, positive=not problem.indefinite)
    name = chosen(dtype, kind, entries_of(problem), gpu=False)
    return 1.0 if name is None else LIBRARIES[name].speed


def may_be_last(problem: Problem) -> bool:
    """Whether factors may be made where nothing else has led to an end, of a grid or a matrix that is here.

    Memory aside, which is looked at by those who make them.
    """
    return _fits(problem, LAST)


def may_be_for_least_squares(problem: Problem) -> bool:
    """Whether factors for least squares may be made there: of twice as many rows, with several times the fill."""
    return _fits(problem, SQUARES)


def _products_of_grid(problem: Problem) -> float:
    """About how many multiplications make the factors of a grid: of a plane, or of a box."""
    rows = float(math.prod(problem.grid))
    return 21.0 * rows**1.5 if 1 in problem.grid else 10.0 * rows**2


def _as_products(problem: MatrixProblem, many: int) -> Fill:
    """Fill of factors that take no more multiplications than so many products with A."""
    return Fill(entries=LARGE, products=float(many * entries_of(problem)))


def _fits(problem: Problem, most: Fill) -> bool:
    """Whether the factors of a grid, or of a matrix that is here, are within a bound."""
    return _found(problem, most) is not None


def _found(problem: Problem, most: Fill) -> Fill | None:
    """Fill of the factors of a grid, or of a matrix that is here; None beyond a bound."""
    if isinstance(problem, MatrixProblem):
        return None if problem.elimination is None else problem.elimination.within(most)
    found = Fill(entries=fill_of(problem), products=_products_of_grid(problem))
    return found if found.within(most) else None
