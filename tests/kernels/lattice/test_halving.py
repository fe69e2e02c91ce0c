"""The CUDA text for lattices that are halved along every axis, launched as on a device, but on the host.

Against the NumPy text to the last bit: whole levels, their chunks, and one row for all points.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import re
import sys
from collections.abc import Callable
from importlib import resources
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.grid.box import three
from dsolver.kernels import load
from dsolver.kernels.lattice.coarsening import COARSE_OFFSETS, GHOST, Coarsening, offsets_below
from tests.support.on_host import FIBERS, compiled

F64 = npt.NDArray[np.float64]
Triple = tuple[int, int, int]
Flags = tuple[bool, bool, bool]

BOX = COARSE_OFFSETS
STAR = tuple(o for o in BOX if sum(map(abs, o)) <= 1)
SLABS = tuple(offsets_below(factors, STAR) for factors in ((2, 1, 1), (1, 2, 1), (1, 1, 2)))
OTHER = offsets_below((1, 2, 2), STAR)
KINDS = ("star", "box", "slab_x", "slab_y", "slab_z")
NAMES = ("galerkin_star", *(f"{name}_{kind}" for name in ("interpolate", "tile") for kind in KINDS))

FOLDER = resources.files("dsolver.kernels") / "cuda" / "lattice"
TEXTS = [(FOLDER / "halving" / f"{part}.cu").read_text() for part in ("interpolation", "slabs", "star", "tiles")]
HOST = (
    FIBERS
    + """
#include "device.cuh"
#include "lattice/lattice.cuh"
#include "lattice/halving/halving.cuh"
#include "lattice/halving/cells.cuh"
"""
    + "".join(re.sub("#include.*", "", text) for text in TEXTS)
    + """
static void* arrays[4];
static int n[11];
static long long stride;
#define LATTICE_OF n[0], n[1], n[2], static_cast<const double*>(arrays[0]), stride, n[3], n[4]
#define P(type, i) static_cast<type*>(arrays[i])
#define CALL_P(name) static void call_##name() { \\
    name(LATTICE_OF, P(const Place, 1), n[5], n[6], n[7], P(double, 2)); }
#define CALL_A(name) static void call_##name() { \\
    name(LATTICE_OF, n[5], n[6], n[7], n[8], n[9], n[10], P(const double, 1), P(double, 2)); }
"""
    + "\n".join(f"CALL_{'P' if name.startswith('inter') else 'A'}({name})" for name in NAMES)
    + """
extern "C" void launch(
    const char* name, int blocks, int wide, void** pointers, int count, int* sizes, int more, long long step
) {
    for (int i = 0; i < count; ++i) arrays[i] = pointers[i];
    for (int i = 0; i < more; ++i) n[i] = sizes[i];
    stride = step;
#define IF(kernel) if (!std::strcmp(name, #kernel)) return run(call_##kernel, blocks, wide);
"""
    + "\n".join(f"    IF({name})" for name in NAMES)
    + """
    __builtin_abort();
}
"""
)

LEVELS: list[tuple[Triple, Flags]] = [
    ((2, 3, 2), (False, False, False)),
    ((7, 6, 9), (False, False, False)),
    ((4, 6, 8), (True, True, True)),
    ((37, 10, 5), (False, True, False)),
    ((70, 4, 7), (True, False, False)),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    options, sources = (
        ("-O1", "-ffp-contract=off"),
        ("lattice/halving/halving.cuh", "lattice/halving/cells.cuh", "lattice/lattice.cuh"),
    )
    return compiled(tmp_path_factory.mktemp("host"), HOST, *options, sources=sources)


@pytest.fixture
def halving(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """halving.py on NumPy's arrays, with its kernels on the host. What they do not write stays NaN."""

    def kernel(_: str, name: str, __: str) -> Callable[..., None]:
        assert name in NAMES

        def run(grid: tuple[int], block: tuple[int], arguments: tuple[Any, ...]) -> None:
            arrays = [a for a in arguments if isinstance(a, np.ndarray)]
            sizes = [int(a) for a in arguments if isinstance(a, np.int32)]
            (stride,) = (int(a) for a in arguments if isinstance(a, np.int64))
            pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
            numbers = (ctypes.c_int * len(sizes))(*sizes)
            counts = len(arrays), numbers, len(sizes), ctypes.c_longlong(stride)
            library.launch(name.encode(), *grid, *block, pointers, *counts)

        return run

    def empty(shape: Any) -> Any:
        return aligned(np.full(shape, np.nan))

    def zeros(shape: Any) -> Any:
        return aligned(np.zeros(shape))

    fake: Any = SimpleNamespace(empty=empty, zeros=zeros, asarray=np.asarray, ascontiguousarray=np.ascontiguousarray)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    path = str(resources.files("dsolver.kernels") / "cuda" / "lattice" / "halving" / "halving.py")
    for name in ("loader", "tables"):
        monkeypatch.setitem(
            sys.modules, f"dsolver.kernels.cuda.launch.{name}", SimpleNamespace(kernel=kernel, table=aligned)
        )
    spec = importlib.util.spec_from_file_location("halving_on_host", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def aligned(values: Any) -> Any:
    """The values at a multiple of 16 bytes, as a device's allocations are."""
    room = np.zeros(values.nbytes + 16, dtype=np.uint8)
    first = -room.ctypes.data % 16
    out = room[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    out[...] = values
    return out


def rows_around(c: Coarsening, offsets: tuple[Triple, ...]) -> F64:
    """Rows of a level, in and around a chunk: entries that leave the domain have values, too."""
    x, y, z = c.grid
    rows = -np.random.default_rng(5).uniform(0.01, 1.0, (len(offsets), z, y, x))
    rows[offsets.index((0, 0, 0))] = -rows.sum(axis=0) + 0.1
    rows[:, 0, 0, 0] = 0.0  # a row without entries
    for axis in range(3):
        place = np.arange(c.lo[axis] - GHOST, c.lo[axis] + c.shape[axis] + GHOST)
        inside = (place >= 0) & (place < c.grid[axis]) | c.periodic[axis]
        rows = np.take(rows, place % c.grid[axis], axis=3 - axis)
        rows = rows * inside.reshape([-1 if a == 3 - axis else 1 for a in range(4)])
    return rows


def whole(grid: Triple, periodic: Flags) -> Coarsening:
    return Coarsening(lo=(0, 0, 0), shape=grid, grid=grid, periodic=periodic, factors=(2, 2, 2))


def compared(halving: ModuleType, c: Coarsening, offsets: tuple[Triple, ...], weights: F64) -> None:
    """Both kernels against the NumPy text."""
    assert halving.serves(c, offsets)
    text = load("numpy")
    p = halving.interpolation(c, offsets, weights)
    np.testing.assert_array_equal(p, text.lattice.interpolation(c, offsets, weights))
    found = halving.galerkin(c, offsets, weights, p)
    np.testing.assert_array_equal(found, text.lattice.galerkin(c, offsets, weights, p))
    if c.shape != c.grid or any(c.periodic) or weights.ndim == 1 or not halving.frameless(c.factors, offsets):
        return
    bare = weights[:, GHOST:-GHOST, GHOST:-GHOST, GHOST:-GHOST].copy()
    np.testing.assert_array_equal(halving.interpolation(c, offsets, bare), p)
    np.testing.assert_array_equal(halving.galerkin(c, offsets, bare, p), found)


@pytest.mark.parametrize("offsets", [STAR, BOX, *SLABS, OTHER], ids=["star", "box", *"xyz", "other"])
@pytest.mark.parametrize(("grid", "periodic"), LEVELS)
def test_levels_are_those_of_the_text(
    halving: ModuleType, grid: Triple, periodic: Flags, offsets: tuple[Triple, ...]
) -> None:
    c = whole(grid, periodic)
    compared(halving, c, offsets, rows_around(c, offsets))


@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
def test_chunks_are_those_of_the_text(halving: ModuleType, offsets: tuple[Triple, ...]) -> None:
    grid, periodic = (7, 8, 10), (False, True, False)
    for lo in itertools.product((0, 3), (0, 4), (0, 5)):
        shape = three("shape", (n - low if low else n // 2 for n, low in zip(grid, lo, strict=True)))
        c = Coarsening(lo=lo, shape=shape, grid=grid, periodic=periodic, factors=(2, 2, 2))
        compared(halving, c, offsets, rows_around(c, offsets))


@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
def test_one_row_for_all_points(halving: ModuleType, offsets: tuple[Triple, ...]) -> None:
    weights = np.array([float(len(offsets)) if o == (0, 0, 0) else -1.0 - 0.1 * sum(map(abs, o)) for o in offsets])
    compared(halving, whole((9, 6, 5), (False, True, False)), offsets, weights)


def test_a_chunk_without_coarse_points(halving: ModuleType) -> None:
    c = Coarsening(lo=(2, 0, 0), shape=(1, 4, 4), grid=(7, 4, 4), periodic=(False,) * 3, factors=(2, 2, 2))
    compared(halving, c, BOX, rows_around(c, BOX))


@pytest.mark.parametrize(
    ("grid", "periodic", "factors"),
    [
        ((7, 6, 4), (True, False, False), (2, 2, 2)),
        ((2, 6, 4), (True, False, False), (2, 2, 2)),
        ((8, 6, 4), (False, False, False), (2, 1, 2)),
    ],
)
def test_other_lattices_are_left_to_the_kernels_for_all(
    halving: ModuleType, grid: Triple, periodic: Flags, factors: Triple
) -> None:
    c = Coarsening(lo=(0, 0, 0), shape=grid, grid=grid, periodic=periodic, factors=factors)
    assert not halving.serves(c, STAR)
    assert halving.serves(whole((8, 6, 4), (False, False, False)), STAR)
    assert not halving.serves(whole((8, 6, 4), (False, False, False)), STAR[::-1])
