"""Phases that turn the couplings of a Hermitian matrix to negative real numbers, as far as that can be.

With |d_i| = 1, Dᴴ A D is as Hermitian as A is, and couples by conj(d_i) a_ij d_j: another gauge of the same field.
Where the phases of A around every loop add up to zero it becomes real, and what a Laplacian is to constants A is to d.
Otherwise d is sought for which dᴴ A d is small: rows are put together with those that they are strongly coupled to, as
by smoothed aggregation, and turned towards them, and what remains between such aggregates is a Hermitian matrix again,
of fewer rows. On the way back each row is turned towards what its neighbors ask for: damped Jacobi for A v = 0 with
|v_i| = 1.
"""

import math
from typing import Any, Final

import numpy as np

from dsolver.kernels import Backend
from dsolver.kernels.cpu.csr.complex_look import RowSums
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

STRONG: Final = 0.0625  # square of a coupling, over the largest ones of both rows, from which on rows are put together
ROUNDING: Final = 1e-10  # part of the sum of the diagonal that counts as zero where all entries are summed up
LAST: Final = 26  # bits of a square that are rounded off
FAR: Final = 400  # exponent of two of entries whose squares are numbers, and not zero
AROUND: Final = 2  # couplings from a root to the rows of its aggregate, at most
SWEEPS: Final = 3  # times that rows are turned on the way back, on each level
SECOND: Final = 1 << 20  # added to a level's number for the words of the second roots


def in_gauge(backend: Backend, rows: Csr, largest: float, before: RowSums) -> tuple[Array | None, Array]:
    """Both parts of d, float64 (rows, 2), or None for ones, and Re conj(d_i) a_ij d_j in the places of A's entries.

    `largest`: the largest magnitude of an entry. `before`: sums of A's rows.
    None where 1ᴴ A 1 is larger than dᴴ A d by no more than rounding, and where dᴴ A d is nothing else: a real M would
    have to know of a vector that A makes zero.
    """
    exponent = math.frexp(largest)[1]
    near = rows if abs(exponent) <= FAR else rows._replace(values=_times_power(rows.values, -exponent))
    turned = phases(backend, near)
    made = backend.complex_rows.turned_rows(rows, turned)
    after = backend.complex_rows.row_sums(made)
    plain, gained = (_total(backend, _real(backend, of.sums)) for of in (before, after))
    size = _total(backend, abs(_real(backend, after.diagonal)))
    if ROUNDING * size < gained < plain - ROUNDING * size:
        return turned, _real(backend, made.values)
    return None, _real(backend, rows.values)


def phases(backend: Backend, rows: Csr, level: int = 0) -> Array:
    """Both parts of d, float64 (rows, 2), of a Hermitian matrix, complex128."""
    xp, ops = backend.xp, backend.complex_rows
    turned, aggregate = xp.zeros((rows.size, 2)), xp.zeros(rows.size, dtype=np.int64)
    graph = _strong(backend, rows)
    if len(graph.columns):
        leader = _leaders(backend, graph, level)
        before, roots, _ = backend.amg.aggregation.own_roots(leader, 0)
        turned[roots, 0] = 1.0
        for _ in range(AROUND):
            turned = ops.relaxed(rows, turned, leader)
        turned = _with_ones(xp, turned)
        members = xp.where(leader < 0, -1, before[leader])
        between = ops.collapsed(ops.turned_rows(rows, turned), members, len(roots))
        if len(between.columns):
            turned = _product(xp, turned, phases(backend, between, level + 1)[members])
            turned[leader < 0] = 0.0
    turned = _with_ones(xp, turned)
    for _ in range(SWEEPS):
        turned = ops.relaxed(rows, turned, aggregate)
    return turned


def _strong(backend: Backend, rows: Csr) -> Csr:
    """Strong couplings, of squares over the largest ones of both rows."""
    xp, pairs = backend.xp, rows.values.view(np.float64)
    squares = _rounded(pairs[::2] * pairs[::2] + pairs[1::2] * pairs[1::2])
    largest = _rounded(backend.complex_rows.largest_squares(rows))
    scale = xp.where(largest > 0.0, 1.0 / xp.sqrt(xp.where(largest > 0.0, largest, 1.0)), 0.0)
    own = xp.arange(rows.size, dtype=np.int32)
    coupled = Csr(rows.start, rows.columns, squares)
    return backend.amg.aggregation.strong_nodes(coupled, 0, scale, 1, own, rows.size, STRONG)


def _rounded(squares: Array) -> Array:
    """Numbers of half as many bits: rounding, which differs in every gauge, is to decide nothing."""
    return ((squares.view(np.int64) + (1 << LAST >> 1)) >> LAST << LAST).view(np.float64)


def _leaders(backend: Backend, graph: Csr, level: int) -> Array:
    """The root that leads each row, int64 (rows,), or -1: see `dsolver.multigrid.algebraic.aggregation.aggregates`."""
    xp, ops = backend.xp, backend.amg.aggregation
    origin, all_ = xp.arange(graph.size, dtype=np.int64), xp.ones(graph.size, dtype=np.bool_)
    states = ops.settled(graph, ops.first_words(graph, origin, level), all_)
    found = ops.joined(graph, 0, states, None, all_, None)
    own, open_ = ops.second_words(graph, 0, found, origin, SECOND + level)
    found = ops.joined(graph, 0, ops.settled(graph, own, open_), None, open_, found)
    return ops.strayed(graph, 0, found)


def _with_ones(xp: Any, turned: Array) -> Array:
    """1 in place of 0."""
    nowhere = (turned[:, 0] == 0.0) & (turned[:, 1] == 0.0)
    turned[:, 0] = xp.where(nowhere, 1.0, turned[:, 0])
    return turned


def _product(xp: Any, x: Array, y: Array) -> Array:
    """Products of complex numbers, by their parts."""
    made = xp.empty_like(x)
    made[:, 0] = x[:, 0] * y[:, 0] - x[:, 1] * y[:, 1]
    made[:, 1] = x[:, 0] * y[:, 1] + x[:, 1] * y[:, 0]
    return made


def _times_power(values: Array, exponent: int) -> Array:
    """Complex numbers times a power of two, whose inverse may be none."""
    half = exponent // 2
    scaled = values.view(np.float64) * math.ldexp(1.0, half) * math.ldexp(1.0, exponent - half)
    return scaled.view(np.complex128)


def _real(backend: Backend, values: Array) -> Array:
    return backend.xp.ascontiguousarray(values.view(np.float64)[::2])


def _total(backend: Backend, values: Array) -> float:
    found = backend.scalars(1)
    backend.vectors.dot(values, backend.xp.ones_like(values), found)
    return float(found[0])
