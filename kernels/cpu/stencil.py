"""Loops of constant stencils. Ranges are counted in lines of points along x, line j + ny * k.

Vectors have a guard slice before their first row. Entries are added in lattice order.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from dsolver.kernels.cpu.compiled import compiled
from dsolver.kernels.layout import SLICE


@njit(inline="always")
def _inside(i: Any, n: Any, wraps: Any) -> Any:
    """The index of a point that may lie outside: across a periodic axis, or -1."""
    if 0 <= i < n:
        return i
    if not wraps:
        return -1
    return i + n if i < 0 else i - n


@njit(inline="always")
def _gain(i: Any, n: Any, lower: Any, upper: Any) -> Any:
    out = lower - lower
    if i == 0:
        out += lower
    if i == n - 1:
        out += upper
    return out


@njit(inline="always")
def _add_line(left: Any, here: Any, right: Any, wraps: Any, source: Any, out: Any) -> None:
    """out += the products of three entries of every point with a line."""
    nx = len(out)
    if left == 0 and right == 0:
        if here != 0:
            for i in range(nx):
                out[i] += here * source[i]
        return
    for i in range(1, nx - 1):
        out[i] += left * source[i - 1] + here * source[i] + right * source[i + 1]
    out[0] += here * source[0]
    if nx > 1:
        out[0] += right * source[1]
        out[nx - 1] += left * source[nx - 2] + here * source[nx - 1]
    if wraps:
        out[0] += left * source[nx - 1]
        out[nx - 1] += right * source[0]


@compiled()
def spmv(first: Any, last: Any, shape: Any, wraps: Any, weights: Any, faces: Any, x: Any, y: Any) -> None:
    """y = A x on lines [first, last)."""
    nx, ny, nz = shape
    for line in range(first, last):
        j, k = line % ny, line // ny
        begin = SLICE + line * nx
        out, own = y[begin : begin + nx], x[begin : begin + nx]
        out[:] = 0
        for at in range(9):
            jj, kk = _inside(j + at % 3 - 1, ny, wraps[1]), _inside(k + at // 3 - 1, nz, wraps[2])
            if jj >= 0 and kk >= 0:
                other = SLICE + (kk * ny + jj) * nx
                left, here, right = weights[3 * at], weights[3 * at + 1], weights[3 * at + 2]
                if at == 4:
                    here += _gain(k, nz, faces[4], faces[5]) + _gain(j, ny, faces[2], faces[3])
                _add_line(left, here, right, wraps[0], x[other : other + nx], out)
        out[0] += faces[0] * own[0]
        out[nx - 1] += faces[1] * own[nx - 1]


@compiled()
def sweep(
    first: Any,
    last: Any,
    shape: Any,
    wraps: Any,
    start: Any,
    weights: Any,
    faces: Any,
    center: Any,
    scale: Any,
    r: Any,
    x: Any,
    out: Any,
) -> None:
    """out = scale r - the sum of weights x, at the points of one class on its lines [first, last).

    `start` is the first point of the class; `weights` (27,) are zero for entries that do not count. Where `center`, the
    diagonal away from the faces, is not zero, the result is divided by the diagonal.
    """
    nx, ny, nz = shape
    lines = (ny - start[1] + 1) // 2
    for line in range(first, last):
        j, k = start[1] + 2 * (line % lines), start[2] + 2 * (line // lines)
        here = SLICE + (k * ny + j) * nx
        for i in range(start[0], nx, 2):
            total = scale * r[here + i]
            for q in range(27):
                if weights[q] != 0:
                    ii = _inside(i + q % 3 - 1, nx, wraps[0])
                    jj = _inside(j + q // 3 % 3 - 1, ny, wraps[1])
                    kk = _inside(k + q // 9 - 1, nz, wraps[2])
                    if ii >= 0 and jj >= 0 and kk >= 0:
                        total -= weights[q] * x[SLICE + (kk * ny + jj) * nx + ii]
            if center != 0:
                gain = _gain(k, nz, faces[4], faces[5]) + _gain(j, ny, faces[2], faces[3])
                total /= center + gain + _gain(i, nx, faces[0], faces[1])
            out[here + i] = total


@njit(inline="always")
def _corner(corner: Any, axis: Any, along: Any) -> Any:
    """How far a corner of a point between coarse ones along the axes other than `axis` is from coarse point i // 2."""
    if along == axis:
        return 0
    first = 1 if axis == 0 else 0
    return (corner if along == first else corner >> 1) % 2 - 1


@compiled()
def restrict(
    first: Any,
    last: Any,
    shape: Any,
    wraps: Any,
    kinds: Any,
    coarse: Any,
    begin: Any,
    table: Any,
    place: Any,
    y: Any,
    rc: Any,
) -> None:
    """rc = R y for y that is zero off the red points, on coarse lines [first, last).

    Coarse point 0 is the one after point `begin`. `kinds`: of points along x, y, z, see `dsolver.kernels.star.KINDS`.
    """
    nx, ny, nz = shape
    cx, cy, _ = coarse
    for line in range(first, last):
        j, k = begin[1] + 2 * (line % cy) + 1, begin[2] + 2 * (line // cy) + 1
        for column in range(cx):
            i = begin[0] + 2 * column + 1
            total = y[SLICE + (k * ny + j) * nx + i]
            for axis in range(3):
                for corner in range(4):
                    ii = _inside(i - 2 * _corner(corner, axis, 0) - 1 if axis != 0 else i, nx, wraps[0])
                    jj = _inside(j - 2 * _corner(corner, axis, 1) - 1 if axis != 1 else j, ny, wraps[1])
                    kk = _inside(k - 2 * _corner(corner, axis, 2) - 1 if axis != 2 else k, nz, wraps[2])
                    if ii >= 0 and jj >= 0 and kk >= 0:
                        weight = table[kinds[2][kk], kinds[1][jj], kinds[0][ii], axis, corner]
                        total += weight * y[SLICE + (kk * ny + jj) * nx + ii]
            rc[place[line * cx + column]] = total


@compiled()
def prolong(
    first: Any, last: Any, shape: Any, kinds: Any, coarse: Any, wraps: Any, begin: Any, table: Any, xc: Any, x: Any
) -> None:
    """x += P xc at the red points of lines [first, last).

    Point 0 is the one before coarse point `begin`, and `wraps` is of the coarse points.
    """
    nx, ny, _ = shape
    cx, cy, cz = coarse
    for line in range(first, last):
        j, k = line % ny, line // ny
        for i in range((j + k + 1) % 2, nx, 2):
            here = SLICE + line * nx + i
            i0, j0, k0 = begin[0] + i // 2, begin[1] + j // 2, begin[2] + k // 2
            if i % 2 == 1 and j % 2 == 1:
                ii, jj, kk = _inside(i0, cx, wraps[0]), _inside(j0, cy, wraps[1]), _inside(k0, cz, wraps[2])
                if ii >= 0 and jj >= 0 and kk >= 0:
                    x[here] += xc[SLICE + (kk * cy + jj) * cx + ii]
                continue
            axis = 0 if i % 2 == 1 else 1 if j % 2 == 1 else 2
            for corner in range(4):
                ii = _inside(i0 + _corner(corner, axis, 0), cx, wraps[0])
                jj = _inside(j0 + _corner(corner, axis, 1), cy, wraps[1])
                kk = _inside(k0 + _corner(corner, axis, 2), cz, wraps[2])
                if ii >= 0 and jj >= 0 and kk >= 0:
                    weight = table[kinds[2][k], kinds[1][j], kinds[0][i], axis, corner]
                    x[here] += weight * xc[SLICE + (kk * cy + jj) * cx + ii]
