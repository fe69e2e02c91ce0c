"""Loops of Galerkin operators, line by line of the lattice."""

from typing import Any

import numpy as np
from numba import njit

from dsolver.kernels.cpu.lattice.points import CENTER, bit, has, is_constant, step
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import scratch
from dsolver.kernels.lattice.coarsening import NEGLIGIBLE


@njit(inline="always")
def _add_products(
    rw: Any, z: Any, y: Any, x: Any, odd: Any, own: Any, p: Any, kinds: Any, bases: Any, layout: Any, sums: Any
) -> None:
    """sums (27, m) += rw (m,) * p of the fine points x, x + stride, ... of a line, corner by corner.

    They lie between two coarse points along x if `odd`; `own` is (z, y) of the coarse line and their corner 0's offset
    along x.
    """
    stride = layout[0, 1] + 1
    for c in range(2):
        for b in range(2):
            if not has(kinds[1][y], b) or not has(kinds[2][z], c):
                continue
            dy = (bases[1][y] + b - own[1]) * layout[1, 2]
            dz = (bases[2][z] + c - own[0]) * layout[2, 2]
            for a in range(1 + odd):
                to, source = sums[CENTER + own[2] + a + 3 * dy + 9 * dz], p[a + 2 * b + 4 * c, z, y]
                for i in range(len(rw)):
                    to[i] += rw[i] * source[x + stride * i]


@njit(inline="always")
def _add_lines(
    line: Any, begin: Any, steps: Any, w: Any, p: Any, kinds: Any, bases: Any, layout: Any, sums: Any, size: Any
) -> None:
    """sums (27, m) and size (m,) of m regular coarse points of a line, the first of which is `begin`."""
    constant = is_constant(w)
    stride = layout[0, 1] + 1
    count = len(size)
    restricted, rw = scratch(count, np.float64), scratch(count, np.float64)
    for number in range(27):
        sx, sy, sz = step(number)
        if abs(sx) > layout[0, 1] or abs(sy) > layout[1, 1] or abs(sz) > layout[2, 1]:
            continue
        x = layout[0, 0] + stride * begin + sx
        y = layout[1, 0] + (layout[1, 1] + 1) * line[1] + sy
        z = layout[2, 0] + (layout[2, 1] + 1) * line[0] + sz
        b, c = line[1] - bases[1][y], line[0] - bases[2][z]
        if (b | c) & ~1:  # no corner of these points
            continue
        reads = p[int(sx < 0) + 2 * b + 4 * c, z, y]
        for i in range(count):
            restricted[i] = reads[x + stride * i]
        for k in range(len(steps)):
            dx, dy, dz = steps[k]
            for i in range(count):
                rw[i] = restricted[i] * (w[k, 0, 0, 0] if constant else w[k, z, y, x + stride * i])
                size[i] += abs(rw[i])
            own = (line[0], line[1], (sx + dx) // stride)
            odd = layout[0, 1] * ((sx + dx) & 1)
            _add_products(rw, z + dz, y + dy, x + dx, odd, own, p, kinds, bases, layout, sums)


@njit(inline="always")
def _add_row(restricted: Any, at: Any, own: Any, steps: Any, w: Any, p: Any, bases: Any, layout: Any, sums: Any) -> Any:
    """sums[27] += restricted * (a fine point's row of A P). Returns the absolute sum of restricted * (row of A)."""
    x, y, z = at
    constant = is_constant(w)
    size = 0.0
    for k in range(len(steps)):
        weight = restricted * (w[k, 0, 0, 0] if constant else w[k, z, y, x])
        size += abs(weight)
        nx, ny, nz = x + steps[k, 0], y + steps[k, 1], z + steps[k, 2]
        jx, jy, jz = bases[0][nx] - own[0], bases[1][ny] - own[1], bases[2][nz] - own[2]
        for corner in range(8):
            value = p[corner, nz, ny, nx]
            if value != 0.0:
                dx = (jx + bit(corner, 0)) * layout[0, 2]
                dy = (jy + bit(corner, 1)) * layout[1, 2]
                dz = (jz + bit(corner, 2)) * layout[2, 2]
                sums[CENTER + dx + 3 * dy + 9 * dz] += weight * value
    return size


@njit(inline="always")
def _add_rows(own: Any, steps: Any, w: Any, p: Any, bases: Any, layout: Any, sums: Any) -> Any:
    """sums[27] of one coarse point anywhere; returns its size."""
    size = 0.0
    for number in range(27):
        sx, sy, sz = step(number)
        if abs(sx) > layout[0, 1] or abs(sy) > layout[1, 1] or abs(sz) > layout[2, 1]:
            continue
        x = layout[0, 0] + (layout[0, 1] + 1) * own[0] + sx
        y = layout[1, 0] + (layout[1, 1] + 1) * own[1] + sy
        z = layout[2, 0] + (layout[2, 1] + 1) * own[2] + sz
        a, b, c = own[0] - bases[0][x], own[1] - bases[1][y], own[2] - bases[2][z]
        if (a | b | c) & ~1:  # no corner of this point
            continue
        restricted = p[a + 2 * b + 4 * c, z, y, x]
        if restricted != 0.0:
            size += _add_row(restricted, (x, y, z), own, steps, w, p, bases, layout, sums)
    return size


@njit(inline="always")
def _complete(center: Any, scale: Any) -> Any:
    """The diagonal of a coarse row; that of a row without one is its absolute sum, or 1."""
    if center <= NEGLIGIBLE * scale:
        return scale if scale > 0.0 else 1.0
    return center


@compiled()
def regular_weights(first: Any, last: Any, *given: Any) -> None:
    """The weights of the coarse rows of coarse lines [first, last), at their regular points."""
    steps, w, p, kinds, bases, layout, regular, out = given
    lines, (begin, end) = out.shape[2], regular
    sums, size = scratch((27, end - begin), np.float64), scratch(end - begin, np.float64)
    for line in range(first, last):
        z, y = line // lines, line % lines
        sums[:] = 0.0
        size[:] = 0.0
        _add_lines((z, y), begin, steps, w, p, kinds, bases, layout, sums, size)
        for x in range(end - begin):
            sums[CENTER, x] = _complete(sums[CENTER, x], size[x])
            for number in range(27):  # a statement that copies them all takes as long to compile as the rest
                out[number, z, y, begin + x] = sums[number, x]


@compiled()
def other_weights(
    first: Any, last: Any, steps: Any, w: Any, p: Any, bases: Any, layout: Any, regular: Any, out: Any
) -> None:
    """The weights of the coarse rows of coarse lines [first, last), at the points around the regular ones."""
    lines, points = out.shape[2:]
    sums = scratch(27, np.float64)
    for line in range(first, last):
        z, y = line // lines, line % lines
        for x in range(points):
            if regular[0] <= x < regular[1]:
                continue
            sums[:] = 0.0
            scale = _add_rows((x, y, z), steps, w, p, bases, layout, sums)
            sums[CENTER] = _complete(sums[CENTER], scale)
            for number in range(27):
                out[number, z, y, x] = sums[number]
