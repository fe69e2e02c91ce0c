"""How many bytes an iteration must move between memory and arithmetic, counted from the shapes of the chunks.

Each stored value and column counts once for each pass that uses it, and each vector once for each operation that reads
or writes it, as in `bench/gpu.py`: what arrays in cache spare is not counted, nor what is read twice. Halos are left
out. Coefficients that vary may make `M="mg"` smooth more than is known beforehand; then more is moved than this.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from dsolver.levels import Hierarchy
from dsolver.memory import F64, I32, Level, levels_of
from dsolver.preconditioners import Chebyshev, Hpcg, Jacobi, Recipe

CG_VECTORS: Final = 14
"""The diagonal, p and A p of the product; r and z; z, p and p; p, A p, x twice and r twice."""


def of_iteration(hierarchy: Hierarchy, recipe: Recipe, *, dtype_bytes: int = F64) -> int:
    """Bytes of one iteration of conjugate gradients, of all chunks together.

    Args:
        hierarchy: the levels.
        recipe: the preconditioner. One that is a function of the user's counts as none.
        dtype_bytes: of the preconditioner's value type.
    """
    partition = hierarchy.partitions[0]
    each: dict[object, int] = {}
    moved = 0
    for number in range(len(partition)):
        shape = partition[number].box.shape
        if shape not in each:
            each[shape] = _of_chunk(hierarchy, recipe, number, dtype_bytes)
        moved += each[shape]
    return moved


def _of_chunk(hierarchy: Hierarchy, recipe: Recipe, number: int, dtype_bytes: int) -> int:
    value = dtype_bytes if recipe.lowerable else F64
    levels = levels_of(hierarchy, recipe, number, cuda=True, value=value)
    finest, rows = levels[0], levels[0].rows
    vector = F64 * rows
    product = finest.stored(F64)
    moved = product + CG_VECTORS * vector
    if value != F64:  # r is narrowed, and z is read as it is
        moved += (F64 + value) * rows - 2 * (F64 - value) * rows
    if isinstance(recipe, Hpcg):
        moved += _hpcg(levels, value)
    elif recipe.galerkin:
        moved += _galerkin(levels, value)
    elif isinstance(recipe, Chebyshev):  # D⁻¹ r, its copy, and for each step a product and seven vectors
        moved += 5 * vector + (recipe.degree - 1) * (product + 10 * vector)
    elif isinstance(recipe, Jacobi):
        moved += 3 * vector
    else:
        moved += 2 * vector
    return moved


def _hpcg(levels: Sequence[Level], value: int) -> int:
    """The V-cycle of `dsolver.multigrid`."""
    moved = 0
    for fine, coarse in pairwise(levels):
        vector, matrix = value * fine.rows, fine.stored(value)
        # The halves of the pre-smoother and r, d, x; d, x, x, e. Those of the post-smoother, the entries at coarse
        # points, of which a row has an eighth, and r, d, e, x, w; d, w, x.
        moved += matrix + 7 * vector + matrix + value * fine.entries // 8 + 8 * vector + value * coarse.rows
        # The lower entries of coarse rows, e, the map and the coarse right-hand side; then the correction.
        moved += value * fine.entries // 8 + vector + (value + I32) * coarse.rows + (2 * value + I32) * coarse.rows
    return moved + levels[-1].stored(value) + 6 * value * levels[-1].rows


def _galerkin(levels: Sequence[Level], value: int) -> int:
    """The V(1,1) cycle of `dsolver.cycle`; a level of a constant star is a pass over r down, and one up."""
    moved = 0
    for fine, coarse in pairwise(levels):
        vector = value * fine.rows
        if fine.star:
            moved += 3 * vector + 4 * value * coarse.rows
            continue
        # r, d, x; x, y; y; x twice; r, x, w; d, w, x. Then the coarse right-hand side, and the correction's way.
        moved += 2 * fine.stored(value) + 14 * vector + fine.way + 4 * value * coarse.rows
    return moved + levels[-1].way + 2 * value * levels[-1].rows
