"""Table of kernels on a CPU: vector updates and dot products.

Dot products are summed in blocks of `BLOCK` items and the blocks in order, so the bits depend neither on the number of
threads nor on where a range was cut. Ranges are counted in blocks. Vectors may be of float32; dot products and products
with scalars are formed in float64 all the same.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import uint64

from dsolver.kernels.cpu.loops.compiled import compiled, inlined
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.layout import SLICE, HaloLayout, Layout, Route
from dsolver.kernels.host_scalars import finite, ratio, scale_of, sound
from dsolver.kernels.vectors import Vectors

F64 = npt.NDArray[np.float64]
Real = npt.NDArray[Any]  # array of the backend's value type

BLOCK = 4096
BLOCKS_WORTH_A_THREAD = 16  # a block of three vectors takes 5 us; a thread is woken and waited for in 20 us
ITEMS_WORTH_A_THREAD = BLOCKS_WORTH_A_THREAD * BLOCK
TILE = 256  # items of a few dozen vectors that stay in the nearest cache
LANES = 8  # independent partial sums inside a block: one vector register, and a fixed order of addition


class CpuVectors(Vectors):
    """Vector kernels, and the threads that formats share with them."""

    def __init__(self, threads: int, dtype: str) -> None:
        super().__init__(dtype)
        self.team = Team(threads)

    def __reduce__(self) -> Any:
        return vectors, (self.team.threads, self.dtype.name)

    def _run(self, loop: Callable[..., Any], last: int, *operands: Any) -> None:
        self.team.run(loop, 0, last, *operands, worth=BLOCKS_WORTH_A_THREAD)

    def _gather(self, places: Any, x: Any, out: Any) -> None:
        """out = x[places], with zeros where places are negative."""
        self.team.run(gather, 0, len(places), places, x, out, worth=ITEMS_WORTH_A_THREAD)

    def load(self, layout: Layout, block: npt.NDArray[Any], x: Real) -> None:
        rows, places = np.asarray(block, dtype=np.float64).reshape(-1, order="F"), layout.places
        if isinstance(places, slice):
            x[: places.start] = x[places.stop :] = 0.0  # NaN of a b that was refused would stay there
            x[places] = rows
        else:
            self._gather(layout.row, rows, x)

    def unload(self, layout: Layout, x: Real) -> Real:
        places = layout.places
        if isinstance(places, slice):
            return x[places].reshape(layout.shape, order="F").copy(order="F")
        rows = np.empty(layout.rows, x.dtype)
        self._gather(places, x, rows)
        return rows.reshape(layout.shape, order="F")

    def copy(self, x: Real, y: Real) -> None:
        y[:] = x

    def fill(self, layout: Layout, value: float, x: Real) -> None:
        if value == 0.0:
            x[:] = 0.0
        else:
            x[layout.places] = value
            x[-SLICE:] = 0.0  # of rows that are not stored

    def pack(self, plan: HaloLayout, x: Real, buffer: Real) -> None:
        if x.dtype == buffer.dtype:
            self._gather(plan.send_rows, x, buffer)
        else:
            buffer[:] = x[plan.send_rows]

    def dot(self, x: Real, y: Real, dot: F64) -> None:
        if not x.dtype == y.dtype == self.dtype:  # a GPU would take the bits for those of its type, and say nothing
            raise TypeError(f"dot of {x.dtype} and {y.dtype} by kernels of {self.dtype}")
        self._dot(x, y, dot)

    def _dot(self, x: Real, y: Real, dot: F64) -> None:
        parts = np.empty(blocks(x))
        self._run(block_dots, len(parts), x, y, parts)
        dot[0] = in_order(parts)

    def dot_narrowed(self, x: F64, y: Real, dot: F64) -> None:
        self._dot(x, y, dot)

    def dot_plus(self, x: Real, y: Real, sign: float, u: Real, v: Real, dot: F64) -> None:
        parts = np.empty(blocks(x))
        self._run(_block_dots_plus, len(parts), x, y, sign, u, v, parts)
        dot[0] = in_order(parts)

    def waxpby(self, a: float, x: Real, b: float, y: Real, w: Real) -> None:
        self._run(_waxpby, blocks(x), a, x, b, y, w)

    def axpby(self, sign: float, a: F64, x: Real, b: F64, y: Real) -> None:
        if finite(a, b):
            self._run(_waxpby, blocks(y), sign * a[0], x, b[0], y, y)

    def complex_axpby(
        self, sign: float, a: F64, ai: F64, x: Real, xi: Real, b: F64, bi: F64, y: Real, yi: Real
    ) -> None:
        if finite(a, ai) and finite(b, bi):
            self._run(_complex_axpby, blocks(y), sign * a[0], sign * ai[0], x, xi, b[0], bi[0], y, yi)

    def complex_step(self, keep: float, w: Real, wi: Real, r: Real, ri: Real, x: Real, xi: Real) -> None:
        self._run(_complex_step, blocks(x), keep != 0.0, w, wi, r, ri, x, xi)

    def combine(self, keep: float, s: Real, c: F64, t: Real) -> None:
        self._run(_combined, blocks(t[0]), keep, s, np.ascontiguousarray(c), t)

    def times(self, d: Real, s: Real, t: Real) -> None:
        self._run(_times, blocks(d), d, s.reshape(-1, len(d)), t.reshape(-1, len(d)))

    def gram(self, s: Real, t: Real, weights: Real | None = None, weighted: int = 0) -> F64:
        if weights is not None:
            of_t = np.empty_like(t[:weighted])
            self.times(weights, t[:weighted], of_t)
            return np.concatenate([self.gram(s, of_t), self.gram(s, t[weighted:])], axis=1)
        parts = np.empty((blocks(s[0]), len(s), len(t)))
        self._run(_block_products, len(parts), s, t, parts)
        total: F64 = _columns_in_order(parts)
        return total

    def update_p(self, z: Real, rz: F64, rz_old: F64, pap: F64, p: Real) -> None:
        if sound(rz, pap):
            self._run(_update_p, blocks(p), z, ratio(rz, rz_old), p)

    def update_p_narrowed(self, z: Real, rz: F64, rz_old: F64, pap: F64, p: F64) -> None:
        self.update_p(z, rz, rz_old, pap, p)

    def narrow(self, x: F64, xx: F64, y: Real) -> None:
        self._run(_scaled, blocks(x), scale_of(xx), x, y)

    def widen(self, x: Real, xx: F64, y: F64) -> None:
        self._run(_scaled, blocks(x), 1.0 / scale_of(xx), x, y)

    def update_x_r(
        self, p: Real, ap: Real, rz: F64, pap: F64, rr: F64, limit: F64, ceiling: F64, x: Real, r: Real, dot: F64
    ) -> None:
        active = bool(limit[0] < rr[0] <= ceiling[0]) and sound(rz, pap)
        alpha = ratio(rz, pap) if active else 0.0
        parts = np.empty(blocks(x))
        self._run(_update_x_r, len(parts), p, ap, alpha, active, x, r, parts)
        dot[0] = in_order(parts)

    def move(self, route: Route, x: Real, y: Real) -> None:
        _move(route.source, route.target, x, y)

    def jacobi(self, diagonal: Real, r: Real, scale: float, z: Real) -> None:
        self._run(jacobi, blocks(z), diagonal, r, scale, z)

    def chebyshev(self, diagonal: Real, r: Real, w: Real, keep: float, gain: float, d: Real, z: Real) -> None:
        self._run(chebyshev, blocks(z), diagonal, r, w, keep, gain, d, z)

    def jacobi_step(self, diagonal: Real, r: Real, x: Real, z: Real) -> None:
        self._run(jacobi_step, blocks(z), diagonal, r, x, z)

    def scatter_add(self, places: Any, sign: float, values: Real, y: Real) -> None:
        scatter_add(places, sign, values, y)

    def gathered_dot(self, places: Any, x: Real, values: Real, dot: F64) -> None:
        dot[0] = gathered_dot(places, x, values)


@cache
def vectors(threads: int, dtype: str) -> CpuVectors:
    """The vector kernels of a number of threads and a value type, one object in a process."""
    return CpuVectors(threads, dtype)


def blocks(x: Real) -> int:
    """Number of blocks of a vector."""
    return -(-len(x) // BLOCK)


# Places in arrays are unsigned: numba then needs no test for negative ones, which keeps loops from vector registers, as
# the error of a division by zero would. An update of x and r takes half of the time, a division a fifth.


@inlined()
def _block_dot(b: Any, x: Any, y: Any) -> Any:
    """x . y on block b: eight sums, which have names, for an array of them would be written and read."""
    begin, end = uint64(b * BLOCK), uint64(min((b + 1) * BLOCK, len(x)))
    xs, ys = x[begin:end], y[begin:end]
    whole = uint64(len(xs) // LANES * LANES)
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for i in range(uint64(0), whole, uint64(LANES)):
        s0 += np.float64(xs[i]) * np.float64(ys[i])
        s1 += np.float64(xs[i + uint64(1)]) * np.float64(ys[i + uint64(1)])
        s2 += np.float64(xs[i + uint64(2)]) * np.float64(ys[i + uint64(2)])
        s3 += np.float64(xs[i + uint64(3)]) * np.float64(ys[i + uint64(3)])
        s4 += np.float64(xs[i + uint64(4)]) * np.float64(ys[i + uint64(4)])
        s5 += np.float64(xs[i + uint64(5)]) * np.float64(ys[i + uint64(5)])
        s6 += np.float64(xs[i + uint64(6)]) * np.float64(ys[i + uint64(6)])
        s7 += np.float64(xs[i + uint64(7)]) * np.float64(ys[i + uint64(7)])
    total = 0.0
    for part in (s0, s1, s2, s3, s4, s5, s6, s7):
        total += part
    for i in range(whole, uint64(len(xs))):
        total += np.float64(xs[i]) * np.float64(ys[i])
    return total


@compiled()
def block_dots(first: Any, last: Any, x: Any, y: Any, out: Any) -> None:
    """out[b] = x . y on block b."""
    for b in range(first, last):
        out[b] = _block_dot(b, x, y)


@compiled()
def _block_dots_plus(first: Any, last: Any, x: Any, y: Any, sign: Any, u: Any, v: Any, out: Any) -> None:
    """out[b] = x . y + sign u . v on block b."""
    for b in range(first, last):
        out[b] = _block_dot(b, x, y) + sign * _block_dot(b, u, v)


@compiled()
def in_order(parts: Any) -> Any:
    """Sum of the items, first to last."""
    total = 0.0
    for part in parts:
        total += part
    return total


@compiled()
def _waxpby(first: Any, last: Any, a: Any, x: Any, b: Any, y: Any, w: Any) -> None:
    """w = a x + b y on blocks [first, last)."""
    for i in range(uint64(first * BLOCK), uint64(min(last * BLOCK, len(x)))):
        w[i] = a * x[i] + b * y[i]


@compiled()
def _combined(first: Any, last: Any, keep: Any, s: Any, c: Any, t: Any) -> None:
    """t = keep t + s C on blocks [first, last), a tile after the other: t may be columns of s."""
    made = np.empty((c.shape[1], TILE))
    for begin in range(first * BLOCK, min(last * BLOCK, t.shape[1]), TILE):
        count = min(TILE, t.shape[1] - begin)
        for j in range(c.shape[1]):
            for i in range(uint64(count)):
                made[j, i] = keep * t[j, uint64(begin) + i] if keep != 0.0 else 0.0
            for k in range(c.shape[0]):
                if c[k, j] != 0.0:
                    for i in range(uint64(count)):
                        made[j, i] += c[k, j] * s[k, uint64(begin) + i]
        for j in range(c.shape[1]):
            for i in range(uint64(count)):
                t[j, uint64(begin) + i] = made[j, i]


@compiled()
def _times(first: Any, last: Any, d: Any, s: Any, t: Any) -> None:
    """t = d s of each column on blocks [first, last)."""
    for j in range(len(s)):
        for i in range(uint64(first * BLOCK), uint64(min(last * BLOCK, len(d)))):
            t[j, i] = d[i] * s[j, i]


@compiled()
def _block_products(first: Any, last: Any, s: Any, t: Any, out: Any) -> None:
    """out[b, i, j] = s[i] . t[j] on block b."""
    for b in range(first, last):
        for i in range(len(s)):
            for j in range(len(t)):
                out[b, i, j] = _block_dot(b, s[i], t[j])


@compiled()
def _columns_in_order(parts: Any) -> Any:
    """Sums of the blocks' products, first to last."""
    total = np.zeros(parts.shape[1:])
    for part in parts:
        total += part
    return total


@compiled()
def _complex_axpby(first: Any, last: Any, a: Any, ai: Any, x: Any, xi: Any, b: Any, bi: Any, y: Any, yi: Any) -> None:
    """y + i yi = (a + i ai) (x + i xi) + (b + i bi) (y + i yi) on blocks [first, last)."""
    for i in range(uint64(first * BLOCK), uint64(min(last * BLOCK, len(y)))):
        real = (a * x[i] - ai * xi[i]) + (b * y[i] - bi * yi[i])
        yi[i] = (a * xi[i] + ai * x[i]) + (b * yi[i] + bi * y[i])
        y[i] = real


@compiled()
def _complex_step(first: Any, last: Any, keep: Any, w: Any, wi: Any, r: Any, ri: Any, x: Any, xi: Any) -> None:
    """x + i xi = keep (x + i xi) + (w + i wi) (r + i ri) on blocks [first, last)."""
    for i in range(uint64(first * BLOCK), uint64(min(last * BLOCK, len(x)))):
        real, imaginary = w[i] * r[i] - wi[i] * ri[i], w[i] * ri[i] + wi[i] * r[i]
        x[i] = x[i] + real if keep else real
        xi[i] = xi[i] + imaginary if keep else imaginary


@compiled()
def _update_p(first: Any, last: Any, z: Any, beta: Any, p: Any) -> None:
    """p = z + beta p on blocks [first, last)."""
    for i in range(uint64(first * BLOCK), uint64(min(last * BLOCK, len(p)))):
        p[i] = z[i] + beta * p[i]


@compiled()
def _scaled(first: Any, last: Any, s: Any, x: Any, y: Any) -> None:
    """y = s x on blocks [first, last), which may narrow or widen."""
    for i in range(uint64(first * BLOCK), uint64(min(last * BLOCK, len(x)))):
        y[i] = s * x[i]


@compiled()
def _update_x_r(first: Any, last: Any, p: Any, ap: Any, alpha: Any, active: Any, x: Any, r: Any, out: Any) -> None:
    """x += alpha p and r -= alpha Ap while active; out[b] = r . r on block b."""
    for b in range(first, last):
        if active:
            for i in range(uint64(b * BLOCK), uint64(min((b + 1) * BLOCK, len(x)))):
                x[i] += alpha * p[i]
                r[i] -= alpha * ap[i]
        out[b] = _block_dot(b, r, r)


@compiled(error_model="numpy")
def jacobi(first: Any, last: Any, diagonal: Any, r: Any, scale: Any, z: Any) -> None:
    """z = scale r / diagonal on blocks [first, last)."""
    for i in range(uint64(first * BLOCK), uint64(min(last * BLOCK, len(z)))):
        z[i] = scale * r[i] / diagonal[i]


@compiled(error_model="numpy")
def chebyshev(first: Any, last: Any, diagonal: Any, r: Any, w: Any, keep: Any, gain: Any, d: Any, z: Any) -> None:
    """d = keep d + gain (r - w) / diagonal, z += d on blocks [first, last)."""
    for i in range(uint64(first * BLOCK), uint64(min(last * BLOCK, len(z)))):
        d[i] = keep * d[i] + gain * (r[i] - w[i]) / diagonal[i]
        z[i] += d[i]


@compiled(error_model="numpy")
def jacobi_step(first: Any, last: Any, diagonal: Any, r: Any, x: Any, z: Any) -> None:
    """z = x + (r - z) / diagonal on blocks [first, last)."""
    for i in range(uint64(first * BLOCK), uint64(min(last * BLOCK, len(z)))):
        z[i] = x[i] + (r[i] - z[i]) / diagonal[i]


@compiled()
def gather(first: Any, last: Any, places: Any, x: Any, out: Any) -> None:
    """out = x[places] on first .. last, with zeros where places are negative."""
    for i in range(uint64(first), uint64(last)):
        place = places[i]
        out[i] = x[uint64(place)] if place >= 0 else x.dtype.type(0)


@compiled()
def _move(source: Any, target: Any, x: Any, y: Any) -> None:
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
