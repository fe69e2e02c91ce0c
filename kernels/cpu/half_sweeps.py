"""Half sweeps of constant stencils on a CPU. Vectors have a guard slice before their first row."""

from typing import Any

import numpy as np
from numba import njit

from dsolver.kernels.cpu.loops.compiled import compiled, inlined
from dsolver.kernels.formats.layout import SLICE

STAR = np.array([4, 10, 12, 14, 16, 22])  # entries of a star but its center


@inlined()
def inside(i: Any, n: Any, wraps: Any) -> Any:
    """Index of a point that may lie outside: across a periodic axis, or -1."""
    if 0 <= i < n:
        return i
    if not wraps:
        return -1
    return i + n if i < 0 else i - n


@inlined()
def gain(i: Any, n: Any, lower: Any, upper: Any) -> Any:
    """Sum of what the diagonal gains at both ends of an axis of n points, as far as point i is one of them."""
    out = lower - lower
    if i == 0:
        out += lower
    if i == n - 1:
        out += upper
    return out


@compiled()
def half_sweep(first: Any, last: Any, *given: Any) -> None:
    """out = scale r - the sum of weights x, at the points of one class on its lines [first, last).

    `start` is the first point of the class; `weights` (27,) are zero for entries that do not count, those of the class
    among them. Where `center`, the diagonal away from the faces, is not zero, the result is divided by the diagonal.
    """
    shape, wraps, start, weights, faces, center, scale, r, x, out = given
    nx, ny, nz = shape
    lines, begin = (ny - start[1] + 1) // 2, start[0]
    entries = np.flatnonzero(weights)
    star = len(entries) == len(STAR) and bool((entries == STAR).all())
    for line in range(first, last):
        j, k = start[1] + 2 * (line % lines), start[2] + 2 * (line // lines)
        here = SLICE + (k * ny + j) * nx
        own, right = out[here : here + nx], r[here : here + nx]
        if not (star and _star_line(shape, wraps, j, k, weights, scale, right, x, own, begin)):
            _line(shape, wraps, j, k, entries, weights, scale, right, x, own, begin)
        if center != 0:
            diagonal = center + (gain(k, nz, faces[4], faces[5]) + gain(j, ny, faces[2], faces[3]))
            inner, end = begin, nx
            if begin == 0:
                own[0] /= diagonal + gain(0, nx, faces[0], faces[1])
                inner = 2
            if (nx - 1 - begin) % 2 == 0 and nx > inner:
                end = nx - 1
                own[end] /= diagonal + gain(end, nx, faces[0], faces[1])
            for i in range(inner, end, 2):
                own[i] /= diagonal


@njit(inline="always")
def _star_line(
    shape: Any, wraps: Any, j: Any, k: Any, weights: Any, scale: Any, r: Any, x: Any, out: Any, begin: Any
) -> Any:
    """A line of a half sweep by a star, all six entries at once, where the lines beside it are there; whether they are.

    One entry after the other, lines of ten points took four times as long.
    """
    nx, ny, nz = shape
    before, after = inside(j - 1, ny, wraps[1]), inside(j + 1, ny, wraps[1])
    below, above = inside(k - 1, nz, wraps[2]), inside(k + 1, nz, wraps[2])
    if min(before, after, below, above) < 0:
        return False
    here, lower, upper = SLICE + (k * ny + j) * nx, SLICE + (below * ny + j) * nx, SLICE + (above * ny + j) * nx
    front, back = SLICE + (k * ny + before) * nx, SLICE + (k * ny + after) * nx
    for i in range(begin, nx, 2):
        value = scale * r[i] - weights[4] * x[lower + i] - weights[10] * x[front + i]
        if 0 < i < nx - 1:
            value = value - weights[12] * x[here + i - 1] - weights[14] * x[here + i + 1]
        else:
            if i > 0 or wraps[0]:
                value -= weights[12] * x[here + (i if i > 0 else nx) - 1]
            if i < nx - 1 or wraps[0]:
                value -= weights[14] * x[here + (i + 1 if i < nx - 1 else 0)]
        out[i] = value - weights[16] * x[back + i] - weights[22] * x[upper + i]
    return True


@njit(inline="always")
def _line(
    shape: Any, wraps: Any, j: Any, k: Any, entries: Any, weights: Any, scale: Any, r: Any, x: Any, out: Any, begin: Any
) -> None:
    """A line of a half sweep, one entry after the other: by points it took five times as long."""
    nx, ny, nz = shape
    for i in range(begin, nx, 2):
        out[i] = scale * r[i]
    for q in entries:
        jj, kk = inside(j + q // 3 % 3 - 1, ny, wraps[1]), inside(k + q // 9 - 1, nz, wraps[2])
        if jj >= 0 and kk >= 0:
            other = SLICE + (kk * ny + jj) * nx
            _subtract_line(weights[q], q % 3 - 1, wraps[0], x[other : other + nx], out, begin)


@njit(inline="always")
def _subtract_line(weight: Any, step: Any, wraps: Any, source: Any, out: Any, begin: Any) -> None:
    """out[i] -= weight source[i + step] at every second point of a line from `begin` on; step: -1, 0 or 1."""
    nx = len(out)
    first, end = begin, nx
    if first + step < 0:
        if wraps:
            out[first] -= weight * source[nx - 1]
        first += 2
    if step > 0:
        end = nx - 1
        if wraps and (end - begin) % 2 == 0:
            out[end] -= weight * source[0]
    for i in range(first, end, 2):
        out[i] -= weight * source[i + step]
