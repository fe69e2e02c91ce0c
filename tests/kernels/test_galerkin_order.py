"""The CUDA text of interpolation, compiled for the host: no thread's result depends on when it runs.

Threads run one after the other here, forward or backward, so that one that reads what its own launch writes is caught.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels import load
from dsolver.kernels.coarsening import COARSE_OFFSETS, CORNERS, Coarsening
from tests.on_host import compiled

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
static Index threadIdx, blockIdx, blockDim;
struct int4 { int x, y, z, w; };
template <typename T> static T __ldg(const T* from) { return *from; }
#include "galerkin.cu"
extern "C" void launch(LATTICE, int between, double* p, int back) {
    blockDim = {1, 1, 1};
    for (int i = 0, n = nx * ny * nz; i < n; ++i) {
        const int at = back ? n - 1 - i : i;
        blockIdx = {at % nx, at / nx % ny, at / nx / ny};
        interpolate(nx, ny, nz, slots, weights, weight_stride, weight_step, places, between, p);
    }
}
"""


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compiled(tmp_path_factory.mktemp("host"), HOST, "-ffp-contract=off", sources=("galerkin.cu",)).launch


def aligned(values: Any) -> npt.NDArray[np.int32]:
    """int32 at a multiple of 16 bytes."""
    flat = np.asarray(values, dtype=np.int32).reshape(-1)
    room = np.zeros(flat.size + 4, dtype=np.int32)
    first = -room.ctypes.data % 16 // 4
    room[first : first + flat.size] = flat
    return room[first : first + flat.size]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
@pytest.mark.parametrize(
    ("grid", "factors"),
    [((7, 6, 9), (2, 2, 2)), ((5, 6, 7), (1, 2, 2)), ((9, 4, 3), (2, 1, 1)), ((4, 3, 2), (1, 1, 1))],
)
def test_launches_write_nothing_that_they_read(
    launch: Any, grid: Triple, factors: Triple, offsets: tuple[Triple, ...], back: bool
) -> None:
    c = Coarsening(lo=(0, 0, 0), shape=grid, grid=grid, periodic=(True, False, True), factors=factors)
    weights = -np.random.default_rng(5).uniform(0.01, 1.0, (len(offsets), *c.ghosted))
    weights[offsets.index((0, 0, 0))] = -weights.sum(axis=0) + 0.1
    slots = aligned([offsets.index(o) if o in offsets else -1 for o in COARSE_OFFSETS])
    places = aligned(np.concatenate([np.stack([a.kind, a.base, a.open, a.open], axis=1) for a in c.axes]))
    nz, ny, nx = c.ghosted
    p: F64 = np.zeros((len(CORNERS), nz, ny, nx))
    stride = ctypes.c_longlong(weights[0].size)
    head = nx, ny, nz, ctypes.c_void_p(slots.ctypes.data), ctypes.c_void_p(weights.ctypes.data), stride, 1
    for between in range(1 + sum(factor == 2 for factor in factors)):  # as in kernels/cuda/galerkin.py
        launch(*head, ctypes.c_void_p(places.ctypes.data), between, ctypes.c_void_p(p.ctypes.data), int(back))
    np.testing.assert_allclose(p, load("numpy").interpolation(c, offsets, weights), rtol=1e-13, atol=1e-15)
