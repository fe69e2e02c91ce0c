"""Matrices whose rows are points of a lattice: given as a sparse matrix, solved as a stencil, with flat vectors."""

import math
from dataclasses import replace
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.grid.box import Box, Triple
from dsolver.problems.embedding import Embedding
from dsolver.problems.problem import Problem
from dsolver.problems.stencils import stencil

ROWS_AT_ONCE: Final = 1 << 14  # rows whose entries are looked at together: about 100 bytes an entry
OFFSETS: Final = tuple((i, j, k) for i, j, k in product((-1, 0, 1), repeat=3))
"""Offsets of neighbors, the last axis fastest."""


def on_lattice(rows: Any, grid: Any, *, chunks: Any, name: str) -> Problem:
    """A symmetric matrix as a stencil on a lattice, the same for all rows where that is so.

    Row i ny nz + j nz + k is point (i, j, k), as in ``numpy.ravel``. Entries that are zero are left out.

    Args:
        rows: a CSR array of SciPy in canonical form.
        grid: points along x, y, z; or along x and y; or along x.
        chunks: as in `dsolver.problems.stencil`.

    Raises:
        InputError: the lattice has another number of points than there are rows, or a row has an entry beyond its 26
            neighbors: the first one is named.
    """
    space = Embedding.of(grid)
    grid, chunks = space.grid, space.cut(chunks)
    if math.prod(grid) != rows.shape[0]:
        raise InputError(f"grid={space.shape} has {math.prod(grid)} points, A {rows.shape[0]} rows: they must be equal")
    weights = _weights(rows, grid)
    for i, j, k in list(weights):  # an offset comes with its opposite
        weights.setdefault((-i, -j, -k), np.zeros(grid))
    constant = _constant(weights, grid)
    found = stencil(grid, weights if constant is None else constant, chunks=chunks, name=name)
    return replace(found, raveled=True)


def _weights(rows: Any, grid: Triple) -> dict[Triple, npt.NDArray[np.float64]]:
    """Entries by offset, float64 of the grid's shape."""
    found = np.zeros((len(OFFSETS), math.prod(grid)))  # memory that is not written to is not taken
    used = np.zeros(len(OFFSETS), dtype=np.bool_)
    for first in range(0, rows.shape[0], ROWS_AT_ONCE):
        bounds = rows.indptr[first : first + ROWS_AT_ONCE + 1].astype(np.int64)
        part, count = slice(bounds[0], bounds[-1]), len(bounds) - 1
        row = np.repeat(np.arange(first, first + count), np.diff(bounds))
        column, values = rows.indices[part].astype(np.int64), rows.data[part]
        code, far = np.zeros(len(row), dtype=np.int64), np.zeros(len(row), dtype=np.bool_)
        here = np.unravel_index(np.arange(first, first + count), grid)
        for one, other in zip(here, np.unravel_index(column, grid), strict=True):
            step = other - np.repeat(one, np.diff(bounds))
            far |= abs(step) > 1
            code = 3 * code + step + 1
        kept = values != 0.0
        _check_near(row, column, values, far & kept, grid)
        found[code[kept], row[kept]] = values[kept]
        used[code[kept]] = True
    return {offset: found[k].reshape(grid) for k, offset in enumerate(OFFSETS) if used[k] or offset == (0, 0, 0)}


def _check_near(row: Any, column: Any, values: Any, far: Any, grid: Triple) -> None:
    """Refuse entries that are marked as far from their point, with the first of them."""
    if not far.any():
        return
    at = int(far.argmax())
    i, j = int(row[at]), int(column[at])
    here, there = (tuple(map(int, np.unravel_index(n, grid))) for n in (i, j))
    raise InputError(
        f"A does not fit grid={grid}: entry A[{i}, {j}] = {values[at]:.6g} couples point {here} with {there}, which is "
        f"none of its 26 neighbors. Rows must be in the order of numpy.ravel, the last axis fastest; give the grid as "
        f"it is stored, or leave grid= out"
    )


def _constant(weights: dict[Triple, npt.NDArray[np.float64]], grid: Triple) -> npt.NDArray[np.float64] | None:
    """The weights of all rows, (3, 3, 3), where they are the same but at faces, and symmetric; else None."""
    domain = Box(lo=(0, 0, 0), hi=grid)
    out = np.zeros((3, 3, 3))
    for offset, values in weights.items():
        i, j, k = offset
        inside = domain.intersect(domain.shifted((-i, -j, -k)))
        if inside is None:
            continue
        there = values[inside.slices]
        if (there != there[0, 0, 0]).any():
            return None
        out[i + 1, j + 1, k + 1] = there[0, 0, 0]
    return out if (out == out[::-1, ::-1, ::-1]).all() else None
