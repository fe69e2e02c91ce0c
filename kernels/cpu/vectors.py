"""Vector updates and dot products.

Dot products are summed in blocks of `BLOCK` items and the blocks in order, so the bits depend neither on the number of
threads nor on where a range was cut. Ranges are counted in blocks. Vectors may be of float32; dot products and products
with scalars are formed in float64 all the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dsolver.kernels.cpu.compiled import compiled

BLOCK = 4096
LANES = 8
"""Independent partial sums inside a block: one vector register, and a fixed order of addition."""


@njit(inline="always")
def _block_dot(b: Any, x: Any, y: Any, acc: Any) -> Any:
    first, last = b * BLOCK, min((b + 1) * BLOCK, len(x))
    xs, ys = x[first:last], y[first:last]
    acc[:] = 0.0
    whole = len(xs) // LANES
    for i in range(whole):
        for lane in range(LANES):
            acc[lane] += np.float64(xs[i * LANES + lane]) * np.float64(ys[i * LANES + lane])
    total = 0.0
    for lane in range(LANES):
        total += acc[lane]
    for i in range(whole * LANES, len(xs)):
        total += np.float64(xs[i]) * np.float64(ys[i])
    return total


@compiled()
def block_dots(first: Any, last: Any, x: Any, y: Any, out: Any) -> None:
    """out[b] = x . y on block b."""
    acc = np.empty(LANES)
    for b in range(first, last):
        out[b] = _block_dot(b, x, y, acc)


@compiled()
def in_order(parts: Any) -> Any:
    """Sum of the items, first to last."""
    total = 0.0
    for part in parts:
        total += part
    return total


@compiled()
def waxpby(first: Any, last: Any, a: Any, x: Any, b: Any, y: Any, w: Any) -> None:
    """w = a x + b y on blocks [first, last)."""
    for i in range(first * BLOCK, min(last * BLOCK, len(x))):
        w[i] = a * x[i] + b * y[i]


@compiled()
def update_p(first: Any, last: Any, z: Any, beta: Any, p: Any) -> None:
    """p = z + beta p on blocks [first, last)."""
    for i in range(first * BLOCK, min(last * BLOCK, len(p))):
        p[i] = z[i] + beta * p[i]


@compiled()
def scaled(first: Any, last: Any, s: Any, x: Any, y: Any) -> None:
    """y = s x on blocks [first, last), which may narrow or widen."""
    for i in range(first * BLOCK, min(last * BLOCK, len(x))):
        y[i] = s * x[i]


@compiled()
def update_x_r(first: Any, last: Any, p: Any, ap: Any, alpha: Any, active: Any, x: Any, r: Any, out: Any) -> None:
    """x += alpha p and r -= alpha Ap while active; out[b] = r . r on block b."""
    acc = np.empty(LANES)
    for b in range(first, last):
        if active:
            for i in range(b * BLOCK, min((b + 1) * BLOCK, len(x))):
                x[i] += alpha * p[i]
                r[i] -= alpha * ap[i]
        out[b] = _block_dot(b, r, r, acc)


@compiled()
def jacobi(first: Any, last: Any, diagonal: Any, r: Any, scale: Any, z: Any) -> None:
    """z = scale r / diagonal on blocks [first, last)."""
    for i in range(first * BLOCK, min(last * BLOCK, len(z))):
        z[i] = scale * r[i] / diagonal[i]


@compiled()
def chebyshev(first: Any, last: Any, diagonal: Any, r: Any, w: Any, keep: Any, gain: Any, d: Any, z: Any) -> None:
    """d = keep d + gain (r - w) / diagonal, z += d on blocks [first, last)."""
    for i in range(first * BLOCK, min(last * BLOCK, len(z))):
        d[i] = keep * d[i] + gain * (r[i] - w[i]) / diagonal[i]
        z[i] += d[i]


@compiled()
def gather(rows: Any, x: Any, out: Any) -> None:
    """out = x[rows]."""
    for i in range(len(rows)):
        out[i] = x[rows[i]]


@compiled()
def move(source: Any, target: Any, x: Any, y: Any) -> None:
    """y[target] = x[source]."""
    for i in range(len(source)):
        y[target[i]] = x[source[i]]


@compiled()
def scatter(rows: Any, t: Any, y: Any) -> None:
    """y[rows] = t."""
    for i in range(len(rows)):
        y[rows[i]] = t[i]


@compiled()
def scatter_add(rows: Any, sign: Any, t: Any, y: Any) -> None:
    """y[rows] += sign t."""
    for i in range(len(rows)):
        y[rows[i]] += sign * t[i]


@compiled()
def mapped_subtract(rows: Any, target: Any, t: Any, y: Any) -> None:
    """y[target[rows]] -= t wherever target is not -1."""
    for i in range(len(rows)):
        q = target[rows[i]]
        if q >= 0:
            y[q] -= t[i]


@compiled()
def gathered_dot(rows: Any, x: Any, t: Any) -> Any:
    """x[rows] . t, first to last."""
    total = 0.0
    for i in range(len(rows)):
        total += np.float64(x[rows[i]]) * np.float64(t[i])
    return total


@compiled()
def prolong(fine_of: Any, xc: Any, c: Any) -> None:
    """c = P xc at the coarse points."""
    for q in range(len(fine_of)):
        p = fine_of[q]
        if p >= 0:
            c[p] = xc[q]
