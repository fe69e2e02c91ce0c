"""The CUDA text of batched.cu on the host, thread by thread: each column gets what the CPU kernels make of it alone.

A block's threads are fibers that take turns; a shuffle or a barrier is a point where they wait for each other. How the
kernels are launched on a GPU, and their bits there, is for the tests of `tests/program/test_batch.py` that need one.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver import problems
from dsolver.benchmarks.hpcg.levels import MakeLevels, partitions
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid import coarse_grid
from dsolver.grid.coloring import Order
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend, load
from dsolver.kernels.formats.layout import SLICE
from dsolver.multigrid import hierarchy
from dsolver.multigrid.finest_rows import FinestRows
from dsolver.multigrid.level import Level
from dsolver.preconditioners.relaxation.chebyshev import noise
from tests.support.on_host import FIBERS, compiled, packed, without_assembly

F64 = npt.NDArray[np.float64]
HEADERS = ("sums.cuh", "slices.cuh", "sell/passes.cuh", "sell/batched.cuh", "hpcg/header.cuh")
GRID = (11, 9, 10)
WARPS = 2

HOST = (
    FIBERS
    + """
namespace {
#include "sell/batched.cu"
#include "hpcg/batched.cu"
}
static void* given[16];
static long long numbers[16];
#define P(type, i) static_cast<type*>(given[i])
#define M P(const Header, 0), P(const real, 1), P(const int, 2)
#define M_COMPACT P(const Header, 0), P(const float, 1), P(const int, 2)
#define N(i) numbers[i]
static void call_spmv() { spmv(M, P(real, 3), P(real, 4), P(real, 5), N(0), N(1)); }
static void call_spmv_dot() { spmv_dot(M, P(real, 3), P(real, 4), P(real, 5), P(double, 6), N(0), N(1), N(2)); }
static void call_forward() { forward_from_zero(M, P(real, 3), P(real, 4), P(real, 5), N(0), N(1), N(2), N(3)); }
static void call_backward() { backward_solve(M, P(real, 3), P(real, 4), P(real, 5), N(0), N(1), N(2), N(3)); }
static void call_upper_residual() { upper_residual(M, P(real, 3), P(real, 4), N(0), N(1)); }
static void call_lower_residual() { lower_residual(M, P(real, 3), P(real, 4), P(real, 5), N(0), N(1)); }
static void call_spmv_compact() { spmv_compact(M_COMPACT, P(real, 3), P(real, 4), P(real, 5), N(0), N(1)); }
static void call_spmv_dot_compact() {
    spmv_dot_compact(M_COMPACT, P(real, 3), P(real, 4), P(real, 5), P(double, 6), N(0), N(1), N(2));
}
static void call_backward_update() { backward(M, P(real, 3), P(real, 4), P(real, 5), N(0), N(1), N(2), N(3)); }
static void call_backward_keep() { backward_keep(M, P(real, 3), P(real, 4), P(real, 5), N(0), N(1), N(2), N(3)); }
static void call_forward_corrected() {
    forward_corrected(P(const SmoothedHeader, 0), P(const real, 1), P(const int, 2), P(real, 3), P(real, 4),
                      P(real, 5), P(real, 6), P(real, 7), P(real, 8), N(0), N(1), N(2), N(3));
}
static void call_restrict_residual() {
    restrict_residual(M, P(int, 3), P(real, 4), P(real, 5), N(0), N(1), N(2), N(3), N(4));
}
static void call_product() { product(M, P(int, 3), P(real, 4), P(real, 5), N(0), N(1), N(2)); }
static void call_product_add() { product_add(M, P(int, 3), P(real, 4), P(real, 5), N(0), N(1), N(2)); }
static void call_move() { move(P(int, 0), P(int, 1), P(real, 2), P(real, 3), N(0), N(1), N(2), N(3)); }
static void call_dense_product() { dense_product(P(int, 0), P(real, 1), P(real, 2), P(real, 3), N(0), N(1)); }
static void call_spmv_halo() { spmv_halo(M, P(int, 3), P(real, 4), P(real, 5), N(0), N(1)); }
static void call_subtract_halo() { subtract_halo(M, P(int, 3), P(real, 4), P(real, 5), N(0), N(1)); }
static void call_times_halo() { times_halo(M, P(int, 3), P(real, 4), P(real, 5), N(0), N(1)); }
static void call_times_halo_dot() {
    times_halo_dot(M, P(int, 3), P(real, 4), P(real, 5), P(real, 6), P(double, 7), P(unsigned, 8), P(double, 9), N(0),
                   N(1), N(2), N(3));
}
extern "C" void launch(const char* name, int blocks, int wide, void** pointers, int count, long long* sizes, int more) {
    for (int i = 0; i < count; ++i) given[i] = pointers[i];
    for (int i = 0; i < more; ++i) numbers[i] = sizes[i];
#define IF(kernel) if (!std::strcmp(name, #kernel)) return run(call_##kernel, blocks, wide);
    IF(spmv) IF(spmv_dot) IF(forward) IF(backward) IF(upper_residual) IF(lower_residual) IF(product) IF(product_add)
    IF(spmv_compact) IF(spmv_dot_compact) IF(backward_update) IF(backward_keep) IF(forward_corrected)
    IF(restrict_residual) IF(move) IF(dense_product) IF(spmv_halo) IF(subtract_halo) IF(times_halo) IF(times_halo_dot)
    __builtin_abort();
}
"""
)


class Host:
    """Launches of the kernels for a number of columns."""

    def __init__(self, folder: Any, width: int) -> None:
        self.width = width
        options, sources = (
            ("-O1", "-ffp-contract=off", f"-DWIDTH={width}"),
            ("sell/batched.cu", "hpcg/batched.cu", *HEADERS),
        )
        self._launch = compiled(folder, HOST, *options, sources=sources, edited=without_assembly).launch

    def __call__(self, name: str, warps: int, arrays: tuple[Any, ...], *sizes: int) -> None:
        """A launch of so many warps, WARPS of them a block."""
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        numbers = (ctypes.c_longlong * max(1, len(sizes)))(*map(int, sizes))
        blocks = -(-warps // WARPS)
        self._launch(name.encode(), blocks, WARPS * SLICE, pointers, len(arrays), numbers, len(sizes))


@pytest.fixture(scope="module", params=[2, 3, 8])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Host:
    return Host(tmp_path_factory.mktemp("host"), int(request.param))


@cache
def levels(cuts: tuple[int, int, int]) -> list[Level]:
    """Levels of a 27-point matrix with rough rows, on CPU kernels; levels stay distributed where there are chunks."""
    partition = Partition(GRID, cuts)
    engine = EagerEngine(partition, load("cpu"))
    rough = engine.per_chunk(partial(noise, partition))
    weights = engine.per_chunk(rough_rows, rough)
    rows = FinestRows(partition=partition, offsets=problems.BOX_OFFSETS, weights=weights, constant=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coarse_grid, "SMALL_GRID", 0)
        patch.setattr(hierarchy, "LAST", 30, raising=False)
        return hierarchy.build(engine, lambda: rows)


def rough_rows(_: Backend, __: int, noise: F64) -> F64:
    """A different row for each point: nothing here needs a symmetric matrix."""
    flat = noise.T.reshape(-1)
    rows = np.stack([-1.0 + 0.3 * np.sin(7.0 * flat + o) for o in range(27)])
    rows[13] = 30.0 + flat
    return rows.reshape(-1)


def vectors(width: int, layout: Any, seed: int) -> F64:
    """Columns of random numbers, zero on padding."""
    made = np.zeros((width, layout.size))
    made[:, layout.position] = np.random.default_rng(seed).standard_normal((width, layout.rows))
    return made


def close(found: F64, wanted: F64) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("cuts", [(1, 1, 1), (2, 1, 1)])
def test_matrix_passes(host: Host, cuts: tuple[int, int, int]) -> None:
    cpu, k = load("cpu"), host.width
    for level in levels(cuts)[:2]:
        made: Any = level.chunks
        a, layout = made.items[0].local, made.items[0].layout
        count, size = len(a.local.upper), layout.size
        x, r = vectors(k, layout, 1), vectors(k, layout, 2)
        listed = np.random.default_rng(0).permutation(count)
        head = (packed(a.local, listed), a.local.values, a.local.columns)
        y, expected = np.zeros_like(x), np.zeros_like(x)
        host("spmv", count, (*head, a.diagonal, x, y), size, count)
        for c in range(k):
            cpu.kernel("spmv")(a, x[c], expected[c])
        close(y, expected)
        partials = np.zeros((k, count))
        small = replace(a, local=replace(a.local, values=a.local.values.astype(np.float32)))
        out, wanted = np.zeros_like(x), np.zeros_like(x)
        for c in range(k):
            cpu.kernel("spmv")(small, x[c], wanted[c])
        for name, more in (("spmv_compact", ()), ("spmv_dot_compact", (partials,))):
            out[:] = 0.0
            arrays = (head[0], small.local.values, head[2], a.diagonal, x, out, *more)
            host(name, count, arrays, size, *(count,) * len(more), count)
            close(out, wanted)
        y[:] = partials[:] = 0.0
        host("spmv_dot", count, (*head, a.diagonal, x, y, partials), size, count, count)
        close(y, expected)
        by_slice = (x * y).reshape(k, -1, SLICE).sum(axis=2)[:, 1:-1]
        np.testing.assert_allclose(partials, by_slice, rtol=1e-11, atol=1e-11)
        for name, given in (("upper_residual", (x,)), ("lower_residual", (r, x))):
            out, wanted = np.zeros_like(x), np.zeros_like(x)
            host(name, count, (*head, *given, out), size, count)
            for c in range(k):
                cpu.kernel(name)(a, *(v[c] for v in given), wanted[c])
            close(out, wanted)
        for name in ("forward", "backward"):
            out, wanted = np.zeros_like(x), np.zeros_like(x)
            by_color(host, name, a, r, out, backward=name == "backward")
            for c in range(k):
                cpu.kernel(name)(a, r[c], wanted[c])
            close(out, wanted)


def by_color(host: Host, name: str, a: Any, *vectors: F64, backward: bool = False, coarse: Any = None) -> None:
    """A half sweep: a launch for each color."""
    layout, head = a.layout, (packed(a.local, coarse=coarse), a.local.values, a.local.columns, a.diagonal)
    for color in range(layout.colors)[:: -1 if backward else 1]:
        first, last = (int(s) - 1 for s in layout.color_slices[color : color + 2])
        start, step = (last - 1, -1) if backward else (first, 1)
        host(name, last - first, (*head, *vectors), layout.size, start, step, last - first)


def test_the_cycle_of_hpcg(host: Host) -> None:
    cpu, k = load("cpu"), host.width
    problem = problems.hpcg((12, 10, 8))
    fine, coarse = MakeLevels(
        problem=problem, partitions=partitions(Partition(problem.grid), 2), order=Order.parse("color8")
    )(cpu, 0)
    a, transfer, layout, target = fine.local, fine.transfer, fine.layout, coarse.layout
    assert transfer is not None
    r, x, e, w, rc = (np.zeros((k, size)) for size in (*(layout.size,) * 4, target.size))
    r[:] = vectors(k, layout, 11)
    wanted = [tuple(np.zeros_like(v[c]) for v in (x, e, rc, w)) for c in range(k)]
    by_color(host, "forward", a, r, x)
    y = x.copy()
    by_color(host, "backward_keep", a, x, e, backward=True)
    for c in range(k):
        cpu.kernel("presmooth")(a, r[c], *wanted[c][:2])
    close(x, np.stack([one[0] for one in wanted]))
    close(e, np.stack([one[1] for one in wanted]))
    by_color(host, "backward_update", a, y, y, backward=True)
    close(y, x)
    first, last = transfer.slices
    head = (packed(a.local), a.local.values, a.local.columns, transfer.coarse_of)
    host("restrict_residual", last - first, (*head, e, rc), layout.size, target.size, first - 1, 1, last - first)
    correction = np.zeros_like(x)
    coarse_points = transfer.fine_of[target.position]
    correction[:, coarse_points] = np.random.default_rng(12).standard_normal((k, len(coarse_points)))
    by_color(host, "forward_corrected", a, r, correction, e, x, w, coarse=a.coarse)
    by_color(host, "backward_update", a, w, x, backward=True)
    for c in range(k):
        x_c, e_c, rc_c, w_c = wanted[c]
        cpu.kernel("restrict")(a, transfer, r[c], x_c, e_c, rc_c)
        cpu.kernel("postsmooth")(a, r[c], correction[c], e_c, x_c, w_c)
    close(rc, np.stack([one[2] for one in wanted]))
    close(x, np.stack([one[0] for one in wanted]))


@pytest.mark.parametrize("cuts", [(1, 1, 1), (2, 1, 1)])
def test_transfers_and_the_last_level(host: Host, cuts: tuple[int, int, int]) -> None:
    cpu, k = load("cpu"), host.width
    fine, coarse = levels(cuts)[:2]
    above: Any = fine.chunks
    below: Any = coarse.chunks
    transfer: Any = fine.transfer
    descent, layout, target = transfer.chunks.items[0], above.items[0].layout, below.items[0].layout
    for name, single, a, x, y in (
        ("product", "restrict_full", descent.restriction.local, vectors(k, layout, 3), np.zeros((k, target.size))),
        (
            "product_add",
            "prolong_add",
            descent.prolongation.local,
            vectors(k, descent.columns, 4),
            vectors(k, layout, 5),
        ),
    ):
        wanted, count = y.copy(), len(a.slices.upper)
        head = (packed(a.slices), a.slices.values, a.slices.columns, a.target)
        host(name, count, (*head, x, y), x.shape[1], y.shape[1], count)
        for c in range(k):
            cpu.kernel(single)(a, x[c], wanted[c])
        close(y, wanted)
    routes: Any = transfer.order
    route, x, y = routes.items[0], vectors(k, target, 6), np.zeros((k, descent.columns.size))
    wanted, size = y.copy(), len(route.source)
    halo = np.ascontiguousarray(x.T)  # the columns of an item side by side
    for given, apart in ((x, (x.shape[1], 1)), (halo, (1, k))):
        y[:] = 0.0
        host("move", -(-size // SLICE), (route.source, route.target, given, y), *apart, y.shape[1], size)
        for c in range(k):
            cpu.kernel("move")(route, x[c], wanted[c])
        assert np.array_equal(y, wanted)
    last: Any = levels(cuts)[-1]
    inverse, layout = last.inverse.items[0], last.chunks.items[0].layout
    r, y = vectors(k, layout, 7), np.zeros((k, layout.size))
    wanted, rows = y.copy(), len(inverse.position)
    host("dense_product", rows, (inverse.position, inverse.values, r, y), layout.size, rows)
    for c in range(k):
        cpu.kernel("dense_solve")(inverse, r[c], wanted[c])
    np.testing.assert_allclose(y, wanted, rtol=1e-11, atol=1e-13)


def test_halos(host: Host) -> None:
    cpu, k = load("cpu"), host.width
    made: Any = levels((2, 1, 1))[0].chunks
    layout, a, plan = (getattr(made.items[0], name) for name in ("layout", "ghost", "halo"))
    h = np.random.default_rng(8).standard_normal((plan.size, k))
    x, y = vectors(k, layout, 9), vectors(k, layout, 10)
    count, slices = a.size, len(a.slices.upper)
    head = (packed(a.slices), a.slices.values, a.slices.columns, a.boundary)
    for name in ("spmv_halo", "subtract_halo"):
        out, wanted = y.copy(), y.copy()
        host(name, slices, (*head, h, out), layout.size, count)
        for c in range(k):
            cpu.kernel(name)(a, h[:, c].copy(), wanted[c])
        close(out, wanted)
    q, products = np.zeros((k, count)), np.zeros((k, count))
    for c in range(k):
        cpu.kernel("times_halo")(a, h[:, c].copy(), products[c])
    host("times_halo", slices, (*head, h, q), count, count)
    close(q, products)
    q[:] = 0.0
    blocks = -(-slices // WARPS)
    partials, ticket, dot = np.zeros((k, blocks)), np.zeros(1, dtype=np.uint32), np.zeros((k, 3))
    host("times_halo_dot", slices, (*head, h, x, q, partials, ticket, dot), layout.size, count, 3, count)
    close(q, products)
    np.testing.assert_allclose(dot[:, 0], (x[:, a.boundary] * q).sum(axis=1), rtol=1e-11)
    assert ticket[0] == 0
    assert not dot[:, 1:].any()
