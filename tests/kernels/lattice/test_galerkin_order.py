"""The CUDA text of interpolation and Galerkin operators, compiled for the host.

Threads run one after the other here, forward or backward, so that one that reads what its own launch writes is caught.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels import load
from dsolver.kernels.lattice.coarsening import COARSE_OFFSETS, CORNERS, Coarsening, offsets_below
from tests.support.on_host import compiled

F64 = npt.NDArray[np.float64]
Triple = tuple[int, int, int]

BOX = COARSE_OFFSETS
STAR = tuple(o for o in BOX if sum(map(abs, o)) <= 1)

HOST = """
#include <cmath>
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __align__(bytes) alignas(bytes)
struct Index { int x, y, z; };
struct int4 { int x, y, z, w; };
static Index threadIdx, blockIdx, blockDim;
template <typename T> static T __ldg(const T* from) { return *from; }
#include "lattice/galerkin.cu"
extern "C" void launch(LATTICE, int between, double* p, int back) {
    blockDim = {1, 1, 1};
    for (int i = 0, n = nx * ny * nz; i < n; ++i) {
        const int at = back ? n - 1 - i : i;
        blockIdx = {at % nx, at / nx % ny, at / nx / ny};
        interpolate(nx, ny, nz, slots, weights, weight_stride, weight_step, places, between, p);
    }
}
extern "C" void launch_coarse_weights(
    LATTICE, int entries, const int4* steps, const Coarse* axes, const double* p, int kept, double* out, int rows
) {
    const int blocks = (rows + GALERKIN_THREADS - 1) / GALERKIN_THREADS;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < GALERKIN_THREADS; ++threadIdx.x)
            coarse_weights(
                nx, ny, nz, slots, weights, weight_stride, weight_step, places, entries, steps, axes, p, kept, out);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(
        tmp_path_factory.mktemp("host"),
        HOST,
        "-ffp-contract=off",
        sources=("lattice/galerkin.cu", "lattice/lattice.cuh"),
    )


def aligned(values: Any) -> npt.NDArray[np.int32]:
    """int32 at a multiple of 16 bytes."""
    flat = np.asarray(values, dtype=np.int32).reshape(-1)
    room = np.zeros(flat.size + 4, dtype=np.int32)
    first = -room.ctypes.data % 16 // 4
    room[first : first + flat.size] = flat
    return room[first : first + flat.size]


def problem(
    grid: Triple, factors: Triple, periodic: tuple[bool, bool, bool], offsets: tuple[Triple, ...]
) -> tuple[Coarsening, F64]:
    """A coarsening, and weights of rows whose sum is positive."""
    c = Coarsening(lo=(0, 0, 0), shape=grid, grid=grid, periodic=periodic, factors=factors)
    weights = -np.random.default_rng(5).uniform(0.01, 1.0, (len(offsets), *c.ghosted))
    weights[offsets.index((0, 0, 0))] = -weights.sum(axis=0) + 0.1
    return c, weights


class Lattice:
    """The arguments called LATTICE in galerkin.cu, and what keeps them."""

    def __init__(self, c: Coarsening, offsets: tuple[Triple, ...], weights: F64) -> None:
        self._slots = aligned([offsets.index(o) if o in offsets else -1 for o in COARSE_OFFSETS])
        self._places = aligned(np.concatenate([np.stack([a.kind, a.base, a.open, a.open], axis=1) for a in c.axes]))
        self._weights = weights
        nz, ny, nx = c.ghosted
        stride = ctypes.c_longlong(weights[0].size)
        self.arguments = nx, ny, nz, pointer(self._slots), pointer(weights), stride, 1, pointer(self._places)


def pointer(values: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)


SHAPES = [((7, 6, 9), (2, 2, 2)), ((5, 6, 7), (1, 2, 2)), ((9, 4, 3), (2, 1, 1)), ((4, 3, 2), (1, 1, 1))]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
@pytest.mark.parametrize(("grid", "factors"), SHAPES)
def test_launches_write_nothing_that_they_read(
    library: ctypes.CDLL, grid: Triple, factors: Triple, offsets: tuple[Triple, ...], back: bool
) -> None:
    c, weights = problem(grid, factors, (True, False, True), offsets)
    lattice = Lattice(c, offsets, weights)
    p: F64 = np.zeros((len(CORNERS), *c.ghosted))
    for between in range(1 + sum(factor == 2 for factor in factors)):  # as in kernels/cuda/lattice/galerkin.py
        library.launch(*lattice.arguments, between, pointer(p), int(back))
    np.testing.assert_allclose(p, load("numpy").lattice.interpolation(c, offsets, weights), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("periodic", [(False, False, False), (True, False, True), (True, True, True)])
@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
@pytest.mark.parametrize(("grid", "factors"), [*SHAPES, ((2, 3, 2), (2, 2, 2)), ((16, 5, 8), (2, 2, 2))])
def test_coarse_rows_are_those_of_the_text(
    library: ctypes.CDLL,
    grid: Triple,
    factors: Triple,
    offsets: tuple[Triple, ...],
    periodic: tuple[bool, bool, bool],
) -> None:
    c, weights = problem(grid, factors, periodic, offsets)
    text = load("numpy")
    p = text.lattice.interpolation(c, offsets, weights)
    expected = text.lattice.galerkin(c, offsets, weights, p)
    axes = aligned([(a.first, a.reach, not a.folded, n) for a, n in zip(c.axes, c.coarse_shape, strict=True)])
    out = np.full(expected.shape, np.nan)
    where, steps = Lattice(c, offsets, weights), aligned([(*offset, 0) for offset in offsets])
    library.launch_coarse_weights(
        *where.arguments,
        len(offsets),
        pointer(steps),
        pointer(axes),
        pointer(p),
        sum(1 << COARSE_OFFSETS.index(o) for o in offsets_below(factors, offsets)),
        pointer(out),
        expected.shape[1],
    )
    np.testing.assert_array_equal(out, expected)
