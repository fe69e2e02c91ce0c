"""Interpolation and Galerkin operators on a CPU: loops over lattice lines, scalar inside.

Arrays have ghost layers (`dsolver.kernels.coarsening`); a line is one (z, y). Sums run in the order of the NumPy text,
whatever the range of lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dsolver.kernels.coarsening import (
    BETWEEN,
    COARSE_OFFSETS,
    LOWER,
    NEGLIGIBLE,
    OUTSIDE,
    UPPER,
    Axis,
    Coarsening,
    Triple,
    lattice_weights,
)
from dsolver.kernels.cpu.compiled import compiled
from dsolver.kernels.cpu.team import Team

F64 = npt.NDArray[np.float64]
CORNER_COUNT = 8
CENTER = 13


def interpolation(team: Team, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64) -> F64:
    """See `Backend.interpolation`."""
    w = lattice_weights(coarsening, offsets, weights)
    p = np.zeros((CORNER_COUNT, *coarsening.ghosted))
    steps = np.array(offsets, dtype=np.int64)
    kinds = tuple(axis.kind for axis in coarsening.axes)
    opens = tuple(axis.open for axis in coarsening.axes)
    lines = p.shape[1] * p.shape[2]
    for between in range(sum(coarsening.factors) - 2):
        team.run(interpolate, 0, lines, between, steps, w, kinds, opens, p)
    return p


def galerkin(team: Team, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64, p: F64) -> F64:
    """See `Backend.galerkin`."""
    w = lattice_weights(coarsening, offsets, weights)
    x, y, z = coarsening.coarse_shape
    out = np.empty((len(COARSE_OFFSETS), z, y, x))
    steps = np.array(offsets, dtype=np.int64)
    bases = tuple(axis.base for axis in coarsening.axes)
    layout = np.array([_numbers(axis) for axis in coarsening.axes], dtype=np.int64)
    team.run(coarse_weights, 0, z * y, steps, w, p, bases, layout, out)
    return out.reshape(len(COARSE_OFFSETS), -1)


def _numbers(axis: Axis) -> tuple[int, int, int]:
    return axis.first, axis.reach, int(not axis.folded)


@njit(inline="always")
def _leaves(step: Any, open_sides: Any) -> Any:
    """Whether a step leaves the domain."""
    return (step < 0 and not open_sides & LOWER) or (step > 0 and not open_sides & UPPER)


@njit(inline="always")
def _corner(number: Any, axis: Any) -> Any:
    """A corner's 0 or 1 along an axis."""
    return (number >> axis) & 1


@njit(inline="always")
def _is_constant(w: Any) -> Any:
    return w.shape[1] * w.shape[2] * w.shape[3] == 1  # the box of a stored lattice has its ghost layers


@njit
def _collapse(steps: Any, w: Any, opens: Any, at: Any, inside: Any, collapsed: Any) -> Any:
    """collapsed[1 + dz, 1 + dy, 1 + dx]: a row seen along the axes in `inside`. Returns its absolute sum."""
    x, y, z = at
    constant = _is_constant(w)
    collapsed[:] = 0.0
    size = 0.0
    for k in range(len(steps)):
        dx, dy, dz = steps[k, 0], steps[k, 1], steps[k, 2]
        if _leaves(dx, opens[0][x]) or _leaves(dy, opens[1][y]) or _leaves(dz, opens[2][z]):
            continue
        weight = w[k, 0, 0, 0] if constant else w[k, z, y, x]
        collapsed[1 + dz * inside[2], 1 + dy * inside[1], 1 + dx * inside[0]] += weight
        size += abs(weight)
    return size


@njit
def _solve(collapsed: Any, at: Any, p: Any) -> None:
    """p of one point from those of its neighbors."""
    x, y, z = at
    center = collapsed[1, 1, 1]
    for number in range(27):
        dx, dy, dz = number % 3 - 1, number // 3 % 3 - 1, number // 9 - 1
        weight = collapsed[1 + dz, 1 + dy, 1 + dx]
        if number == CENTER or weight == 0.0:
            continue
        part = -weight / center
        for corner in range(CORNER_COUNT):
            value = p[corner, z + dz, y + dy, x + dx]
            if value != 0.0:
                a = _corner(corner, 0) if dx == 0 else (dx + 1) // 2
                b = _corner(corner, 1) if dy == 0 else (dy + 1) // 2
                c = _corner(corner, 2) if dz == 0 else (dz + 1) // 2
                p[a + 2 * b + 4 * c, z, y, x] += part * value


@njit(inline="always")
def _ends(place: Any, count: Any, inside: Any) -> Any:
    """Whether a point lacks a neighbor that it would be interpolated from."""
    return inside == 1 and (place == 0 or place == count - 1)


@compiled()
def interpolate(first: Any, last: Any, between: Any, steps: Any, w: Any, kinds: Any, opens: Any, p: Any) -> None:
    """p of the points of lines [first, last) that lie between coarse points along exactly this many axes."""
    _, nz, ny, nx = p.shape
    collapsed = np.zeros((3, 3, 3))
    for line in range(first, last):
        z, y = line // ny, line % ny
        in_y, in_z = int(kinds[1][y] == BETWEEN), int(kinds[2][z] == BETWEEN)
        outside = kinds[1][y] == OUTSIDE or kinds[2][z] == OUTSIDE
        if outside or _ends(y, ny, in_y) or _ends(z, nz, in_z):
            continue
        for x in range(nx):
            in_x = int(kinds[0][x] == BETWEEN)
            if in_x + in_y + in_z != between or kinds[0][x] == OUTSIDE or _ends(x, nx, in_x):
                continue
            if between == 0:
                p[kinds[0][x] + 2 * kinds[1][y] + 4 * kinds[2][z], z, y, x] = 1.0
                continue
            at, inside = (x, y, z), (in_x, in_y, in_z)
            size = _collapse(steps, w, opens, at, inside, collapsed)
            if collapsed[1, 1, 1] > NEGLIGIBLE * size:
                _solve(collapsed, at, p)


@njit
def _add_row(restricted: Any, at: Any, own: Any, steps: Any, w: Any, p: Any, bases: Any, layout: Any, sums: Any) -> Any:
    """sums[27] += restricted * (a fine point's row of A P). Returns the absolute sum of restricted * (row of A)."""
    x, y, z = at
    constant = _is_constant(w)
    size = 0.0
    for k in range(len(steps)):
        weight = restricted * (w[k, 0, 0, 0] if constant else w[k, z, y, x])
        if weight == 0.0:
            continue
        size += abs(weight)
        nx, ny, nz = x + steps[k, 0], y + steps[k, 1], z + steps[k, 2]
        jx, jy, jz = bases[0][nx] - own[0], bases[1][ny] - own[1], bases[2][nz] - own[2]
        for corner in range(CORNER_COUNT):
            value = p[corner, nz, ny, nx]
            if value != 0.0:
                dx = (jx + _corner(corner, 0)) * layout[0, 2]
                dy = (jy + _corner(corner, 1)) * layout[1, 2]
                dz = (jz + _corner(corner, 2)) * layout[2, 2]
                sums[CENTER + dx + 3 * dy + 9 * dz] += weight * value
    return size


@njit
def _add_rows(own: Any, steps: Any, w: Any, p: Any, bases: Any, layout: Any, sums: Any) -> Any:
    """sums[27] = the weights of one coarse row. Returns how large they could be."""
    sums[:] = 0.0
    size = 0.0
    for number in range(27):
        sx, sy, sz = number % 3 - 1, number // 3 % 3 - 1, number // 9 - 1
        if abs(sx) > layout[0, 1] or abs(sy) > layout[1, 1] or abs(sz) > layout[2, 1]:
            continue
        x = layout[0, 0] + (layout[0, 1] + 1) * own[0] + sx
        y = layout[1, 0] + (layout[1, 1] + 1) * own[1] + sy
        z = layout[2, 0] + (layout[2, 1] + 1) * own[2] + sz
        a, b, c = own[0] - bases[0][x], own[1] - bases[1][y], own[2] - bases[2][z]
        if (a | b | c) & ~1:  # not a corner of this point
            continue
        restricted = p[a + 2 * b + 4 * c, z, y, x]
        if restricted != 0.0:
            size += _add_row(restricted, (x, y, z), own, steps, w, p, bases, layout, sums)
    return size


@compiled()
def coarse_weights(first: Any, last: Any, steps: Any, w: Any, p: Any, bases: Any, layout: Any, out: Any) -> None:
    """The weights of the coarse rows of coarse lines [first, last)."""
    _, _, coarse_y, coarse_x = out.shape
    sums = np.zeros(27)
    for line in range(first, last):
        z, y = line // coarse_y, line % coarse_y
        for x in range(coarse_x):
            size = _add_rows((x, y, z), steps, w, p, bases, layout, sums)
            if sums[CENTER] <= NEGLIGIBLE * size:
                sums[CENTER] = size if size > 0.0 else 1.0
            out[:, z, y, x] = sums
