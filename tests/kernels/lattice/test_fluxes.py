"""Rows of finite volumes: the CUDA text, compiled for the host, and every backend against the NumPy text."""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import numpy as np
import pytest

from dsolver.kernels import Backend, load
from dsolver.kernels.lattice.fluxes import Fluxes, star
from tests.support.on_host import compiled

BACKENDS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

HOST = """
#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
struct Index { int x, y, z; };
static Index threadIdx, blockIdx, blockDim;
template <typename T> static T __ldg(const T* from) { return *from; }
#include "lattice/fluxes.cu"
extern "C" void all(
    int n, const double* const* kappa, const double* const* ends, const double* numbers, const double* times,
    const double* parts, const double* sizes, int nx, int ny, int nz, double* out
) {
    Axis axes[3];
    for (int a = 0; a < 3; ++a) {
        const double* const* const both = ends + 2 * a;
        axes[a] = {kappa[a], {both[0], both[1]}, numbers[a], times[a], {parts[2 * a], parts[2 * a + 1]}};
    }
    blockDim = {1, 1, 1};
    for (blockIdx.x = 0; blockIdx.x < n; ++blockIdx.x)
        star_rows(axes[0], axes[1], axes[2], sizes, nx, ny, nz, nullptr, n, out);
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compiled(tmp_path_factory.mktemp("host"), HOST, "-ffp-contract=off", sources=("lattice/fluxes.cu",))


def fluxes(case: str) -> Fluxes:
    """Cells of different sizes, some of them solid; κ is isotropic, or one number along y."""
    rng = np.random.default_rng(1)
    nx, ny, nz = shape = (2, 5, 4) if case == "meets on both sides" else (6, 5, 4)
    kappa = [np.exp(rng.standard_normal((nz + 2, ny + 2, nx + 2))) for _ in range(3)]
    kappa[0][rng.random(kappa[0].shape) < 0.2] = 0.0
    if case == "held":
        kappa = [np.where((rng.random(kappa[0].shape) < 0.2) & (kappa[0] > 0.0), -kappa[0], kappa[0])] * 3
    given: Any = (kappa[0],) * 3 if case in ("isotropic", "held") else (kappa[0], 0.7, kappa[2])
    faces = {"inside": [], "isotropic": list(product(range(3), (0, 1)))}.get(case, [(0, 0), (0, 1), (2, 1)])
    ends: dict[tuple[int, int], Any] = {
        (axis, side): rng.random([n if axis != 2 - i else 1 for i, n in enumerate((nz, ny, nx))])
        for axis, side in faces
    }
    if case == "shares":
        ends = dict(zip(product(range(3), (0, 1)), (1.0, 0.0, 1.0, 1.0, ends[2, 1], 0.5), strict=True))
    x, y, z = (1.0 + rng.random(n + 2) for n in shape)
    return Fluxes(kappa=given, sizes=(x, y, z), ends=ends, doubled=(nx == 2, False, False), held=case == "held")


FACES = tuple(product(range(3), (0, 1)))
CASES = ("isotropic", "by axis", "inside", "meets on both sides", "shares", "held")


@pytest.mark.parametrize("case", CASES)
def test_the_cuda_text_makes_the_same_bits(host: Any, case: str) -> None:
    given = fluxes(case)
    nz, ny, nx = given.shape
    expected = star(np, given)
    found = np.empty_like(expected)
    place = ctypes.c_void_p

    def at(values: Any) -> Any:
        return values.ctypes.data if isinstance(values, np.ndarray) else None

    kappa = (place * 3)(*(at(k) for k in given.kappa))
    ends = (place * 6)(*(at(given.ends.get(face)) for face in FACES))
    parts = np.array([end if isinstance(end := given.ends.get(face), float) else -1.0 for face in FACES])
    numbers = np.array([k if isinstance(k, float) else 0.0 for k in given.kappa])
    times = np.array([2.0 if doubled else 1.0 for doubled in given.doubled])
    sizes = np.concatenate(given.sizes)
    with np.errstate(divide="ignore"):
        host.all(
            nx * ny * nz,
            kappa,
            ends,
            *(place(values.ctypes.data) for values in (numbers, times, parts, sizes)),
            nx,
            ny,
            nz,
            place(found.ctypes.data),
        )
    assert found.tobytes() == expected.tobytes()


def test_no_row_has_an_entry_in_the_column_of_a_held_cell() -> None:
    given = fluxes("held")
    assert isinstance(given.kappa[0], np.ndarray)
    free = Fluxes(**{**given.__dict__, "kappa": (abs(given.kappa[0]),) * 3, "held": False})
    rows, others = star(np, given), star(np, free)
    held, inner = given.kappa[0] < 0.0, (slice(1, -1),) * 3
    assert np.array_equal(rows[3], others[3])
    for entry, step in ((0, (-1, 0)), (1, (-1, 1)), (2, (-1, 2)), (4, (1, 2)), (5, (1, 1)), (6, (1, 0))):
        either = held[inner] | np.roll(held, -step[0], step[1])[inner]
        assert np.array_equal(rows[entry], np.where(either, 0.0, others[entry]))


def on_device(backend: Backend, given: Fluxes) -> Fluxes:
    x, y, z = (k if isinstance(k, float) else backend.asarray(k) for k in given.kappa)
    return Fluxes(
        kappa=(x, y, z),
        sizes=given.sizes,
        ends={at: v if isinstance(v, float) else backend.asarray(v) for at, v in given.ends.items()},
        doubled=given.doubled,
        held=given.held,
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", BACKENDS)
def test_backends_make_the_same_bits(name: str, case: str) -> None:
    backend, given = load(name), fluxes(case)
    expected, there = star(np, given), on_device(backend, given)
    assert backend.to_host(backend.lattice.star(there)).tobytes() == expected.tobytes()
    cells = np.array([1, 2, 7, 30], dtype=np.int32)
    some = backend.lattice.star(there, backend.asarray(cells))
    assert backend.to_host(some).tobytes() == expected.reshape(7, -1)[:, cells].tobytes()
