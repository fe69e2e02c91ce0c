"""Loops of interpolation, line by line of the lattice."""

from typing import Any

import numpy as np
from numba import njit

from dsolver.kernels.cpu.lattice.points import CENTER, bit, has, is_constant, leaves, step
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import scratch
from dsolver.kernels.lattice.coarsening import BETWEEN, FIRST, NEGLIGIBLE, OUTSIDE, SECOND


@compiled()
def take_own(first: Any, last: Any, members: Any, kinds: Any, p: Any) -> None:
    """p = 1 at the coarse points of lines [first, last)."""
    for line in range(first, last):
        z, y = line // p.shape[2], line % p.shape[2]
        kind_y, kind_z = kinds[1][y], kinds[2][z]
        if kind_y in (FIRST, SECOND) and kind_z in (FIRST, SECOND):
            for x in members:
                p[kinds[0][x] + 2 * kind_y + 4 * kind_z, z, y, x] = 1.0


@njit(inline="always")
def _collapse(
    members: Any, z: Any, y: Any, inside: Any, steps: Any, w: Any, opens: Any, collapsed: Any, size: Any
) -> None:
    """collapsed (27, m): the rows of m points of a line, seen along the axes in `inside`; size (m,): absolute sums."""
    constant = is_constant(w)
    collapsed[:] = 0.0
    size[:] = 0.0
    for k in range(len(steps)):
        dx, dy, dz = steps[k]
        if leaves(dy, opens[1][y]) or leaves(dz, opens[2][z]):
            continue
        to = collapsed[CENTER + dx * inside[0] + 3 * dy * inside[1] + 9 * dz * inside[2]]
        for i in range(len(members)):
            x = members[i]
            if not leaves(dx, opens[0][x]):
                weight = w[k, 0, 0, 0] if constant else w[k, z, y, x]
                to[i] += weight
                size[i] += abs(weight)


@njit(inline="always")
def _add_neighbors(part: Any, members: Any, place: Any, step: Any, kinds: Any, p: Any, value: Any) -> None:
    """value (8, m) += part * p of the neighbors at a step, corner by corner; place is (z, y) of the neighbors."""
    dx, dy, dz = step
    z, y = place
    for corner in range(len(value)):
        a, b, c = bit(corner, 0), bit(corner, 1), bit(corner, 2)
        if not has(kinds[1][y], b) or not has(kinds[2][z], c):
            continue
        to_x = a if dx == 0 else (dx + 1) // 2
        to_y = b if dy == 0 else (dy + 1) // 2
        to_z = c if dz == 0 else (dz + 1) // 2
        to, source = value[to_x + 2 * to_y + 4 * to_z], p[corner, z, y]
        for i in range(len(members)):
            to[i] += part[i] * source[members[i] + dx]


@compiled()
def interpolate(first: Any, last: Any, *given: Any) -> None:
    """p of points `members` of lines [first, last) that lie between coarse points along so many axes; it was zero.

    `in_x` is whether x is one of the axes.
    """
    between, in_x, members, steps, w, kinds, opens, p = given
    _, nz, ny, _ = p.shape
    count = len(members)
    collapsed, value = scratch((27, count), np.float64), scratch((8, count), np.float64)
    size, part = scratch(count, np.float64), scratch(count, np.float64)
    for line in range(first, last):
        z, y = line // ny, line % ny
        inside = (in_x, int(kinds[1][y] == BETWEEN), int(kinds[2][z] == BETWEEN))
        outside = kinds[1][y] == OUTSIDE or kinds[2][z] == OUTSIDE
        ends = (inside[1] and (y == 0 or y == ny - 1)) or (inside[2] and (z == 0 or z == nz - 1))
        if inside[0] + inside[1] + inside[2] != between or outside or ends:
            continue
        _collapse(members, z, y, inside, steps, w, opens, collapsed, size)
        center = collapsed[CENTER]
        value[:] = 0.0
        for number in range(27):
            dx, dy, dz = step(number)
            if number == CENTER or abs(dx) > inside[0] or abs(dy) > inside[1] or abs(dz) > inside[2]:
                continue
            for i in range(count):
                part[i] = -collapsed[number, i] / center[i] if center[i] > NEGLIGIBLE * size[i] else 0.0
            _add_neighbors(part, members, (z + dz, y + dy), (dx, dy, dz), kinds, p, value)
        for corner in range(8):
            for i in range(count):
                if value[corner, i] != 0.0:
                    p[corner, z, y, members[i]] = value[corner, i]
