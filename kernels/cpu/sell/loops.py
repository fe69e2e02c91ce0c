"""Matrix passes over ranges of slices.

All loops run over storage slices [first, last) and are independent between slices of one color, so a range may be cut
anywhere without changing a bit. The matrix is read once, front to back: 8.1 bytes for each entry of a run slice (4.1
where values are float32), which is all that bounds these loops. Backward sweeps take the colors (`cuts`: their first
slices and one past the last) from the last to the first, and each front to back: from back to front a processor fetches
nothing ahead, and 7-point rows take 2.4 times as long. Sums over a row are formed in the value type, so that a vector
register holds as many of them as of values.

Vectors are x[rows], or x[columns, rows] for several. Each column is added up as one vector is, to the same bits. For
one vector numba drops what is about columns, for the branches on `ndim` are decided when a loop is compiled.
"""

from typing import Any

from numba import uint64

from dsolver.kernels.cpu.loops.compiled import compiled, inlined
from dsolver.kernels.cpu.loops.scratch import scratch
from dsolver.kernels.formats.layout import SLICE as _SLICE

SLICE = uint64(_SLICE)
ONE = uint64(1)

# Indices are unsigned on purpose: numba then needs no wrap-around test for negative ones and the loops over
# the 32 lanes become vector instructions.


BLOCK = uint64(64)
"""Slices that one vector after the other is multiplied with: their entries come from memory for the first and from a
cache for the others, and each vector is read far enough on end for the processor to fetch it ahead."""


@inlined()
def count(x: Any) -> Any:
    """Number of vectors in x."""
    if x.ndim == 1:
        return 1
    return x.shape[0]


@inlined()
def column(x: Any, n: Any) -> Any:
    """Column n of a vector with columns, or the vector itself."""
    if x.ndim == 1:
        return x
    return x[n]


@inlined(fastmath={"contract"})
def add_products(acc: Any, s: Any, first: Any, last: Any, m: Any, x: Any) -> None:
    """acc += entry columns [first, last) of local slice s times x. m is (start, column_start, values, columns)."""
    start, column_start, values, columns = m
    value_base = uint64(start[s])
    column_base = uint64(column_start[s])
    width = (uint64(start[s + ONE]) - value_base) // SLICE
    if uint64(column_start[s + ONE]) - column_base == width:
        for k in range(first, last):
            v = value_base + k * SLICE
            base = uint64(columns[column_base + k])
            a, b = values[v : v + SLICE], x[base : base + SLICE]
            for lane in range(len(a)):  # vector instructions; numba unrolls a loop to a known end before it looks
                acc[lane] += a[lane] * b[lane]
    else:
        for k in range(first, last):
            v = value_base + k * SLICE
            c = column_base + k * SLICE
            for lane in range(SLICE):
                acc[lane] += values[v + lane] * x[uint64(columns[c + lane])]


@inlined()
def width_of(s: Any, m: Any) -> Any:
    """Entry columns of local slice s."""
    return (uint64(m[0][s + ONE]) - uint64(m[0][s])) // SLICE


@compiled(fastmath={"contract"})
def spmv(first: Any, last: Any, m: Any, diagonal: Any, x: Any, y: Any) -> None:
    """y = A_local x on storage slices [first, last)."""
    acc = scratch(_SLICE, x.dtype)  # the values may be stored in a smaller type
    for begin in range(uint64(first), uint64(last), BLOCK):
        for n in range(count(x)):
            xn, yn = column(x, n), column(y, n)
            for s in range(begin, min(begin + BLOCK, uint64(last))):
                p = s * SLICE
                for lane in range(SLICE):
                    acc[lane] = diagonal[p + lane] * xn[p + lane]
                add_products(acc, s - ONE, uint64(0), width_of(s - ONE, m), m, xn)
                for lane in range(SLICE):
                    yn[p + lane] = acc[lane]


@compiled(fastmath={"contract"})
def forward_from_zero(first: Any, last: Any, m: Any, upper: Any, diagonal: Any, r: Any, x: Any) -> None:
    """x = (r - L x)/d, color after color: the forward sweep from x = 0."""
    acc = scratch(_SLICE, m[2].dtype)
    for begin in range(uint64(first), uint64(last), BLOCK):
        for n in range(count(r)):
            rn, xn = column(r, n), column(x, n)
            for s in range(begin, min(begin + BLOCK, uint64(last))):
                p = s * SLICE
                acc[:] = 0.0
                add_products(acc, s - ONE, uint64(0), uint64(upper[s - ONE]), m, xn)
                for lane in range(SLICE):
                    xn[p + lane] = (rn[p + lane] - acc[lane]) / diagonal[p + lane]


@compiled(fastmath={"contract"})
def upper_residual(first: Any, last: Any, m: Any, upper: Any, x: Any, y: Any) -> None:
    """y = -(U x): the residual after a forward sweep from zero."""
    acc = scratch(_SLICE, m[2].dtype)
    for begin in range(uint64(first), uint64(last), BLOCK):
        for n in range(count(x)):
            xn, yn = column(x, n), column(y, n)
            for s in range(begin, min(begin + BLOCK, uint64(last))):
                p = s * SLICE
                acc[:] = 0.0
                add_products(acc, s - ONE, uint64(upper[s - ONE]), width_of(s - ONE, m), m, xn)
                for lane in range(SLICE):
                    yn[p + lane] = -acc[lane]


@compiled(fastmath={"contract"})
def lower_residual(first: Any, last: Any, m: Any, upper: Any, r: Any, x: Any, w: Any) -> None:
    """w = r - L x."""
    acc = scratch(_SLICE, m[2].dtype)
    for begin in range(uint64(first), uint64(last), BLOCK):
        for n in range(count(r)):
            rn, xn, wn = column(r, n), column(x, n), column(w, n)
            for s in range(begin, min(begin + BLOCK, uint64(last))):
                p = s * SLICE
                acc[:] = 0.0
                add_products(acc, s - ONE, uint64(0), uint64(upper[s - ONE]), m, xn)
                for lane in range(SLICE):
                    wn[p + lane] = rn[p + lane] - acc[lane]


@compiled(fastmath={"contract"})
def backward_solve(first: Any, last: Any, cuts: Any, m: Any, upper: Any, diagonal: Any, w: Any, x: Any) -> None:
    """x = (w - U x)/d, last color first."""
    acc = scratch(_SLICE, m[2].dtype)
    for color in range(len(cuts) - 1, 0, -1):
        low, high = max(uint64(first), uint64(cuts[color - 1])), min(uint64(last), uint64(cuts[color]))
        for begin in range(low, high, BLOCK):
            for n in range(count(w)):
                wn, xn = column(w, n), column(x, n)
                for s in range(begin, min(begin + BLOCK, high)):
                    p = s * SLICE
                    acc[:] = 0.0
                    add_products(acc, s - ONE, uint64(upper[s - ONE]), width_of(s - ONE, m), m, xn)
                    for lane in range(SLICE):
                        xn[p + lane] = (wn[p + lane] - acc[lane]) / diagonal[p + lane]


@compiled(fastmath={"contract"})
def product(first: Any, last: Any, m: Any, target: Any, x: Any, keep: Any, y: Any) -> None:
    """y[target] = keep y[target] + (A x) on slices [first, last) of a rectangular matrix; keep is 0 or 1."""
    acc = scratch(_SLICE, m[2].dtype)
    for begin in range(uint64(first), uint64(last), BLOCK):
        for n in range(count(x)):
            xn, yn = column(x, n), column(y, n)
            for s in range(begin, min(begin + BLOCK, uint64(last))):
                acc[:] = 0.0
                add_products(acc, s, uint64(0), width_of(s, m), m, xn)
                for lane in range(SLICE):
                    q = target[s * SLICE + lane]
                    if q >= 0:
                        yn[q] = acc[lane] if keep == 0.0 else yn[q] + acc[lane]


@compiled(fastmath={"contract"})
def halo_products(first: Any, last: Any, m: Any, h: Any, out: Any) -> None:
    """out = A_halo h on slices [first, last) of the boundary list; out has one item for each boundary lane."""
    acc = scratch(_SLICE, m[2].dtype)
    for begin in range(uint64(first), uint64(last), BLOCK):
        for n in range(count(h)):
            hn, outn = column(h, n), column(out, n)
            for s in range(begin, min(begin + BLOCK, uint64(last))):
                acc[:] = 0.0
                add_products(acc, s, uint64(0), width_of(s, m), m, hn)
                for lane in range(SLICE):
                    outn[s * SLICE + lane] = acc[lane]
