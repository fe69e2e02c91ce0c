"""Restriction and prolongation entries, and copies of lattices: every backend against the NumPy text.

The CUDA text is also compiled for the host, so that it is compared where there is no GPU.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.grid.coarse_grid import partition_of
from dsolver.grid.numbering import chunk_numbering
from dsolver.kernels import load
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.lattice import transfers
from dsolver.kernels.lattice.coarsening import Coarsening
from dsolver.kernels.lattice.statistics import couplings, jumps, pairs
from dsolver.problems import BOX_OFFSETS
from tests.support.on_host import compiled

Triple = tuple[int, int, int]
Flags = tuple[bool, bool, bool]
NONE: Flags = (False, False, False)
ALL: Flags = (True, True, True)

NUMPY = load("numpy")
BACKENDS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
LEVELS: list[tuple[Triple, Flags, Triple]] = [
    ((8, 6, 4), NONE, (2, 2, 2)),
    ((7, 5, 9), NONE, (2, 2, 2)),
    ((7, 5, 9), ALL, (2, 2, 2)),
    ((6, 8, 4), (True, False, True), (2, 2, 2)),
    ((5, 6, 7), (True, True, False), (2, 2, 1)),
    ((5, 6, 7), ALL, (1, 1, 2)),
    ((11, 1, 1), NONE, (2, 1, 1)),
    ((2, 3, 2), ALL, (2, 2, 2)),
]

HOST = """
#include <cmath>
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __syncthreads()
#define __restrict__
struct Index { int x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
template <typename T> static T __ldg(const T* from) { return *from; }
template <typename T> static void atomicAdd(T* to, T value) { *to += value; }
#include "lattice/transfers.cu"
#define EACH(count) blockDim = {1, 1, 1}; for (blockIdx.x = 0; blockIdx.x < count; ++blockIdx.x)
extern "C" void restrict_all(int n, const Axes* l, const double* p, const int* around, int* columns, double* values) {
    EACH(n) restriction(l, p, around, columns, values);
}
extern "C" void prolong_all(
    int n, const Axes* l, const double* p, const int* around, int nx, int ny, int* columns, double* values
) {
    EACH(n) prolongation(l, p, around, nx, ny, columns, values);
}
extern "C" void frame_all(const double* v, int nx, int ny, int nz, int width, int lines, double* out) {
    EACH(lines) framed(v, nx, ny, nz, width, lines, out);
}
extern "C" void spread_all(
    const double* v, int mx, int my, int mz, const int* like, int nx, int ny, int nz, int n, double* out
) {
    EACH(n) spread(v, mx, my, mz, like, nx, ny, nz, n, out);
}
extern "C" void count_all(const double* weights, const int* pairs, int n, double ratio, double* out) {
    EACH(n) jumps(weights, pairs, n, ratio, out);
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compiled(tmp_path_factory.mktemp("host"), HOST, sources=("lattice/transfers.cu",))


def pointer(values: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)


def lattice(made: Coarsening, base: Triple) -> npt.NDArray[np.int32]:
    """LATTICE of transfers.cu, as dsolver.kernels.cuda.lattice.setup makes it."""
    numbers, first = [], 0
    for axis, factor, points, fine, start in zip(
        made.axes, made.factors, made.coarse_shape, made.shape, base, strict=True
    ):
        numbers += [axis.first, factor, axis.reach, points, fine, first, axis.folded, start]
        first += len(axis.base)
    return np.concatenate([numbers, *(axis.base for axis in made.axes)]).astype(np.int32)


def cases(grid: Triple, periodic: Flags, factors: Triple) -> Any:
    """Chunks of a grid with random P that has zeros."""
    rng = np.random.default_rng(5)
    for cut in ((1, 1, 1), tuple(min(2, n) for n in grid)):
        partition = partition_of(grid, cut, periodic)
        for chunk in partition:
            made = Coarsening(
                lo=chunk.box.lo, shape=chunk.box.shape, grid=grid, periodic=partition.periodic, factors=factors
            )
            p = rng.standard_normal((8, *made.ghosted)) * (rng.random((8, *made.ghosted)) < 0.8)
            fine = chunk_numbering(NUMPY, partition, chunk.number, BOX_OFFSETS)
            coarse_box = tuple(n + 2 for n in made.coarse_grid[::-1])
            coarse = rng.integers(-1, 99, coarse_box).astype(np.int32)
            yield made, p, np.ascontiguousarray(fine), coarse, made.coarse_lo


@pytest.mark.parametrize(("grid", "periodic", "factors"), LEVELS)
def test_the_cuda_text_makes_the_entries_of_the_numpy_text(
    host: Any, grid: Triple, periodic: Flags, factors: Triple
) -> None:
    for made, p, fine, coarse, base in cases(grid, periodic, factors):
        columns, values = transfers.restriction(np, made, p, fine)
        found, numbers = np.full_like(columns, -7), np.full_like(values, -7)
        of = lattice(made, (0, 0, 0))
        host.restrict_all(columns.shape[1], pointer(of), pointer(p), pointer(fine), pointer(found), pointer(numbers))
        np.testing.assert_array_equal(found, columns)
        np.testing.assert_array_equal(numbers, values)
        columns, values = transfers.prolongation(np, made, p, coarse, base)
        found, numbers = np.full_like(columns, -7), np.full_like(values, -7)
        of = lattice(made, base)
        _, ny, nx = coarse.shape
        host.prolong_all(
            columns.shape[1], pointer(of), pointer(p), pointer(coarse), nx, ny, pointer(found), pointer(numbers)
        )
        np.testing.assert_array_equal(found, columns)
        np.testing.assert_array_equal(numbers, values)


def test_the_cuda_text_copies_lattices_as_the_numpy_text(host: Any) -> None:
    values = np.random.default_rng(0).random((3, 4, 5, 6))
    expected = transfers.framed(np, values, 2)
    found = np.full_like(expected, -7)
    host.frame_all(pointer(values), 6, 5, 4, 2, found.size // found.shape[3], pointer(found))
    np.testing.assert_array_equal(found, expected)
    like = [np.array([0, 1, 1, 1, 2, 5]), np.array([0, 4, 4]), np.array([0, 0, 1, 2, 3])]
    expected = transfers.spread(np, values, like)
    assert expected.shape == (3, 5, 3, 6)
    found, places = np.full_like(expected, -7), np.concatenate(like).astype(np.int32)
    host.spread_all(pointer(values), 6, 5, 4, pointer(places), 6, 3, 5, found.size, pointer(found))
    np.testing.assert_array_equal(found, expected)


def rough_rows() -> Any:
    """Weights (27, rows) of which some are zero and many jump."""
    rng = np.random.default_rng(0)
    return np.exp(2.0 * rng.standard_normal((27, 500))) * (rng.random((27, 500)) < 0.9)


def test_the_cuda_text_counts_jumps_as_the_numpy_text(host: Any) -> None:
    weights, found = rough_rows(), np.zeros(3)
    places = np.array(pairs(BOX_OFFSETS), dtype=np.int32)
    host.count_all(pointer(weights), pointer(places), 500, ctypes.c_double(10.0), pointer(found))
    np.testing.assert_array_equal(found, jumps(np, BOX_OFFSETS, weights, 10.0))
    assert 0.0 < found[0] < found[1] < 1500.0
    assert 0.0 < found[2] < 1500.0 - found[1]


@pytest.mark.parametrize("name", BACKENDS)
def test_backends_count_jumps(name: str) -> None:
    backend, weights = load(name), rough_rows()
    found = backend.to_host(backend.lattice.jumps(BOX_OFFSETS, backend.asarray(weights), 10.0))
    np.testing.assert_array_equal(found, jumps(np, BOX_OFFSETS, weights, 10.0))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("grid", "periodic", "factors"), LEVELS)
def test_backends_make_the_entries_of_the_text(name: str, grid: Triple, periodic: Flags, factors: Triple) -> None:
    backend = load(name)
    for made, p, fine, coarse, base in cases(grid, periodic, factors):
        there = [backend.asarray(a) for a in (p, fine, coarse)]
        for found, (columns, values) in (
            (backend.lattice.restriction(made, *there[:2]), transfers.restriction(np, made, p, fine)),
            (
                backend.lattice.prolongation(made, there[0], there[2], base),
                transfers.prolongation(np, made, p, coarse, base),
            ),
        ):
            np.testing.assert_array_equal(backend.to_host(found.columns), columns)
            np.testing.assert_array_equal(backend.to_host(found.values), values)


@pytest.mark.parametrize("name", BACKENDS)
def test_backends_copy_lattices_and_add_couplings(name: str) -> None:
    backend, rng = load(name), np.random.default_rng(0)
    values = rng.random((27, 14, 25, 36))
    there = backend.asarray(values)
    np.testing.assert_array_equal(backend.to_host(backend.lattice.framed(there, 2)), transfers.framed(np, values, 2))
    like = [np.array([0, 1, 2, 2, 3, 35]), np.array([0, 24, 4]), np.array([0, 0, 1, 2, 13])]
    np.testing.assert_array_equal(
        backend.to_host(backend.lattice.spread(there, like)), transfers.spread(np, values, like)
    )
    expected = couplings(np, BOX_OFFSETS, values.reshape(27, -1))
    found = backend.to_host(backend.lattice.couplings(BOX_OFFSETS, there.reshape(27, -1)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("shape", [(40, 7, 9), (3, 1, 1), (32, 4, 2)])
def test_rows_of_one_color_stay_in_their_order(name: str, shape: Triple) -> None:
    backend, rows = load(name), int(np.prod(shape))
    found = backend.layouts.plain(shape)
    slices = -(-rows // SLICE)
    np.testing.assert_array_equal(found.color_slices, [1, 1 + slices])
    assert (found.rows, found.size) == (rows, SLICE * (slices + 2))
    np.testing.assert_array_equal(backend.to_host(found.position), SLICE + np.arange(rows))
    expected = np.full(found.size, -1)
    expected[SLICE : SLICE + rows] = np.arange(rows)
    np.testing.assert_array_equal(backend.to_host(found.row), expected)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kinds", [1, 2, 3])
@pytest.mark.parametrize("shape", [(40, 7, 9), (3, 1, 1), (32, 4, 2), (1, 5, 33)])
def test_colors_that_follow_from_classes_along_axes(name: str, shape: Triple, kinds: int) -> None:
    backend, rng = load(name), np.random.default_rng(kinds)
    classes = [rng.integers(0, kinds, n) for n in shape]
    colors = rng.permutation(np.arange(kinds**3) // 2).astype(np.int32).reshape(kinds, kinds, kinds)
    x, y, z = classes
    color = colors[z[:, None, None], y[:, None], x].reshape(-1)
    expected = backend.layouts.colored(backend.asarray(color), int(colors.max()) + 1, shape)
    found = backend.layouts.lattice(classes, colors, shape)
    assert (found.rows, found.size, found.shape) == (expected.rows, expected.size, expected.shape)
    np.testing.assert_array_equal(found.color_slices, expected.color_slices)
    for array in ("position", "row", "color"):
        one, other = (backend.to_host(getattr(layout, array)) for layout in (found, expected))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", BACKENDS)
def test_numbers_of_a_box_with_a_layer_around(name: str) -> None:
    backend = load(name)
    found = backend.to_host(backend.lattice.numbers((3, 2, 4)))
    expected = np.full((6, 4, 5), -1)
    expected[1:-1, 1:-1, 1:-1] = np.arange(24).reshape(4, 2, 3)
    np.testing.assert_array_equal(found, expected)
