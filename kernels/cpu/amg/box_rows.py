"""Rows of a box of a grid, columns ascending, from weights offset after offset."""

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numba import njit, uint64

from dsolver.kernels.amg import LatticeBox, Triple, ascending
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr

MOST_POINTS: Final = 2**31 - 1  # points of a grid whose numbers fit in 32 bits
ONE, TWO = uint64(1), uint64(2)


def box_rows(
    box: LatticeBox, offsets: Sequence[Triple], weights: Any, team: Team
) -> tuple[Csr, npt.NDArray[np.float64]]:
    """The rows of a box's points, x fastest, without entries that are zero beside the diagonal.

    Args:
        weights: float64 (K rows,), offset after offset, or (K,) where they are the same for all rows.

    Returns:
        the rows, with the points' numbers in the grid as columns (int64 where the grid has 2³¹ points and more);
        float64 (rows,), (a_ii + Σ_j |a_ij|) / 2 as a part of a_ii.
    """
    order, rows = ascending(offsets), prod(box.shape)
    steps = np.array([offsets[k] for k in order], dtype=np.int64)
    reach, ahead = abs(steps).max(axis=0), steps @ np.array([1, box.grid[0], box.grid[0] * box.grid[1]])
    bounds = (np.array(part, dtype=np.int64) for part in (box.grid, box.lower, box.shape))
    where = (*bounds, np.array(box.periodic), reach, steps, ahead)
    given = (np.array(order), np.ascontiguousarray(weights, dtype=np.float64).reshape(len(offsets), -1))
    start = np.zeros(rows + 1, dtype=np.int64)
    team.run(_count, 0, rows, *where, *given, start[1:], worth=ROWS_WORTH_A_THREAD)
    np.cumsum(start, out=start)
    columns = np.empty(start[-1], dtype=np.int32 if prod(box.grid) <= MOST_POINTS else np.int64)
    out, share = Csr(start, columns, np.empty(start[-1])), np.empty(rows)
    team.run(_fill, 0, rows, *where, *given, out, share, worth=ROWS_WORTH_A_THREAD)
    return out, share


@njit(inline="always")
def _column(x: Any, y: Any, z: Any, step: Any, grid: Any, periodic: Any) -> Any:
    """The number of the point at a step of a point of the grid; -1 where there is none."""
    i, j, k = x + step[0], y + step[1], z + step[2]
    nx, ny, nz = grid[0], grid[1], grid[2]
    if not 0 <= i < nx:
        if not periodic[0]:
            return -1
        i %= nx
    if not 0 <= j < ny:
        if not periodic[1]:
            return -1
        j %= ny
    if not 0 <= k < nz:
        if not periodic[2]:
            return -1
        k %= nz
    return i + nx * (j + ny * k)


@njit(inline="always")
def _is_inner(x: Any, y: Any, z: Any, grid: Any, reach: Any) -> Any:
    """Whether all of a point's columns are inside the grid."""
    along_x, along_y = reach[0] <= x < grid[0] - reach[0], reach[1] <= y < grid[1] - reach[1]
    return along_x and along_y and reach[2] <= z < grid[2] - reach[2]


@compiled()
def _count(first: Any, last: Any, *given: Any) -> None:
    """Entries of each row."""
    grid, lower, shape, periodic, reach, steps, ahead, slots, weights, lengths = given
    count, varied, nx = uint64(len(slots)), weights.shape[1] > 1, shape[0]
    for line in range(first // nx, (last - 1) // nx + 1):
        y, z = lower[1] + line % shape[1], lower[2] + line // shape[1]
        for row in range(uint64(max(first, line * nx)), uint64(min(last, line * nx + nx))):
            x = lower[0] + np.int64(row) - line * nx
            number, inner = x + grid[0] * (y + grid[1] * z), _is_inner(x, y, z, grid, reach)
            n, at = 0, row if varied else uint64(0)
            for q in range(count):
                column = number + ahead[q] if inner else _column(x, y, z, steps[q], grid, periodic)
                if column < 0:
                    continue
                weight = weights[uint64(slots[q]), at]
                n += int(weight != 0.0 or column == number)
            lengths[row] = n


@compiled(error_model="numpy")
def _fill(first: Any, last: Any, *given: Any) -> None:
    """The entries, columns ascending, and of each row (a_ii + Σ_j |a_ij|) / (2 a_ii)."""
    grid, lower, shape, periodic, reach, steps, ahead, slots, weights, rows, share = given
    start, columns, values = rows
    count, varied, nx = uint64(len(slots)), weights.shape[1] > 1, shape[0]
    around = periodic[0] or periodic[1] or periodic[2]
    for line in range(first // nx, (last - 1) // nx + 1):
        y, z = lower[1] + line % shape[1], lower[2] + line // shape[1]
        for row in range(uint64(max(first, line * nx)), uint64(min(last, line * nx + nx))):
            x = lower[0] + np.int64(row) - line * nx
            number, inner = x + grid[0] * (y + grid[1] * z), _is_inner(x, y, z, grid, reach)
            begin, at = uint64(start[row]), row if varied else uint64(0)
            end = begin
            for q in range(count):
                column = number + ahead[q] if inner else _column(x, y, z, steps[q], grid, periodic)
                if column < 0:
                    continue
                weight = weights[uint64(slots[q]), at]
                if weight != 0.0 or column == number:
                    k = end
                    while around and k > begin and columns[k - ONE] > column:  # they do not ascend around the ends
                        columns[k], values[k] = columns[k - ONE], values[k - ONE]
                        k -= ONE
                    columns[k], values[k] = column, weight
                    end += ONE
            size = center = 0.0
            for k in range(begin, end):
                size += abs(values[k])
                if columns[k] == number:
                    center = values[k]
            share[row] = (center + size) / (2.0 * center)
